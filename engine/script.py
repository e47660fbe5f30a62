"""The script of a scripted model: what it answers, how fast, and where it breaks.

docs/mock.md describes it, engine/script_reader.py reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

MOCK = "mock"
MAX_CONTEXT = 131_072

TextKind = Literal["reasoning", "text", "raw", "echo"]
RefusalKind = Literal["rate_limit", "overloaded", "loading", "context_length", "failed"]


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests an answer is for; None means any.

    `user` is found in the last user message, or in a prompt that is no chat. `after_tool_result`
    tells whether a tool result came after the last assistant message, `tools` whether tools are
    offered. `request` counts from 1 since the worker's start, `restarts` how often the worker was
    started again before.
    """

    user: str | None = None
    after_tool_result: bool | None = None
    tools: bool | None = None
    request: int | None = None
    restarts: int | None = None

    def fits(self, situation: Situation) -> bool:
        """Whether the answer is for a request in this situation."""
        return (
            (self.user is None or self.user in situation.user)
            and self.after_tool_result in (None, situation.after_tool_result)
            and self.tools in (None, situation.tools)
            and self.request in (None, situation.request)
            and self.restarts in (None, situation.restarts)
        )


@dataclass(frozen=True, slots=True)
class Situation:
    """What `Match` looks at in one request; its fields say the same.

    `turn` counts the answers since the last user message. The server process does not know
    `request` and `restarts`.
    """

    user: str
    after_tool_result: bool
    tools: bool
    turn: int = 0
    request: int | None = None
    restarts: int | None = None


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text of the answer; `raw` is written as it stands, markers of thinking and calls included.

    `echo` is followed by the first words of what was asked.

    With `tokens` it is cut to, or repeated up to, so many tokens.
    """

    kind: TextKind
    text: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class CallPart:
    """A call of `name`, offered or not; None: of the first of `names` offered, else of any tool.

    A call of `name` has `arguments` as they stand, others what of them fits the tool's schema.
    Missing ones are made from the schema.
    """

    name: str | None = None
    names: tuple[str, ...] = ()
    arguments: dict[str, Any] | None = None


Part = TextPart | CallPart


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is refused so many `times`, then given once, and so on; None: always."""

    kind: RefusalKind
    times: int | None = None
    retry_after: int = 1


@dataclass(frozen=True, slots=True)
class Counts:
    """Token counts that a client is told instead of the real ones; None leaves the real one."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """One answer. Faults come when so many tokens are out: 0 is before the first one.

    `error_at` and `cut_at` count pieces of text, as the server process does, which plays them.
    """

    parts: tuple[Part, ...]
    match: Match | None = None
    finish: Literal["stop", "length"] = "stop"
    first_delay_ms: float = 0
    token_delay_ms: float = 0
    crash_at: int | None = None
    raise_at: int | None = None
    hang_at: int | None = None
    refuse: Refusal | None = None
    usage: Counts | None = None
    error_at: int | None = None
    cut_at: int | None = None

    @property
    def served(self) -> tuple[str, ...]:
        """The names of the given fields that the server process plays, not the worker."""
        names = ("refuse", "usage", "error_at", "cut_at")
        return tuple(name for name in names if getattr(self, name) is not None)


@dataclass(frozen=True, slots=True)
class Script:
    """The answers of a scripted model."""

    answers: tuple[ScriptedAnswer, ...]

    def choose(
        self, situation: Situation, directives: Sequence[ScriptedAnswer] = ()
    ) -> ScriptedAnswer:
        """Return the first answer whose match fits, else those without a match in turn.

        Each of `directives` in the last user message goes before, for one answer to it.
        """
        if situation.turn < len(directives):
            return directives[situation.turn]
        for answer in self.answers:
            if answer.match and answer.match.fits(situation):
                return answer
        # Without a number this is the server, whose answers in turn the worker alone chooses.
        in_turn = [answer for answer in self.answers if not answer.match]
        return in_turn[((situation.request or 1) - 1) % len(in_turn)]
