"""The neutral event stream: `Started (PartStart PartDelta* PartEnd)* Finished`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

PartKind = Literal["reasoning", "text", "tool_call"]


class FinishReason(Enum):
    """Why an answer ended; failures are exceptions, not reasons."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts.

    `cached_tokens` is the part of the prompt that was not computed again, `reasoning_tokens` the
    part of the answer that was thinking.
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Durations in milliseconds.

    `prompt_ms` runs from the start of the run (not of the wait) to the first new token;
    `predicted_ms` from the first to the last new token. Of `draft_n` tokens that were guessed
    `draft_n_accepted` were right and took no step of their own.
    """

    queue_ms: float
    prompt_ms: float
    predicted_ms: float
    draft_n: int = 0
    draft_n_accepted: int = 0


@dataclass(frozen=True, slots=True)
class Started:
    """The request has taken a slot."""

    prompt_tokens: int
    cached_tokens: int
    queue_ms: float


@dataclass(frozen=True, slots=True)
class PartStart:
    """A part of the answer begins; at most one part is open.

    A tool call has the function's `name` and a `call_key` that is unique among all answers; its
    deltas are JSON text of the arguments.
    """

    index: int
    kind: PartKind
    name: str = ""
    call_key: str = ""


@dataclass(frozen=True, slots=True)
class PartDelta:
    """New, never empty text of the open part."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class PartEnd:
    """The open part is complete."""

    index: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event; `stop_sequence` is the stop string that ended the text, if one did."""

    reason: FinishReason
    stop_sequence: str | None
    usage: Usage
    timings: Timings


Event = Started | PartStart | PartDelta | PartEnd | Finished
