"""The scheduler's nouns: a sequence of tokens being answered, and the slot it runs in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from engine.constraint import ConstraintState
from engine.prompt_lookup import PromptLookup
from engine.request import SamplingParams


class SequenceStatus(Enum):
    """Where a sequence stands."""

    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"
    FINISHED = "finished"


@dataclass(eq=False, slots=True)
class Sequence:
    """One request as the scheduler runs it.

    `answer_ids` are the sampled ids, an end-of-turn id included; `slot` is the index of the slot
    it holds, `constraint` what the answer is held to, `lookup` guesses its next tokens. A chunk of
    the prompt ends at each of the `stops`.
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    sampling: SamplingParams
    constraint: ConstraintState | None = None
    tenant: str = ""
    opening: int | None = None
    stops: list[int] = field(default_factory=list)
    answer_ids: list[int] = field(default_factory=list)
    slot: int | None = None
    finish: Literal["stop", "length"] | None = None
    lookup: PromptLookup | None = None

    @property
    def status(self) -> SequenceStatus:
        """The state, read off the fields so that it cannot disagree with them."""
        if self.finish is not None:
            return SequenceStatus.FINISHED
        if self.slot is None:
            return SequenceStatus.WAITING
        return SequenceStatus.DECODE if self.answer_ids else SequenceStatus.PREFILL

    def append(self, token_id: int, eos_token_ids: Collection[int]) -> None:
        """Take a sampled id and decide whether it ends the answer."""
        self.answer_ids.append(token_id)
        if token_id in eos_token_ids:
            self.finish = "stop"
        elif len(self.answer_ids) == self.max_tokens:
            self.finish = "length"
        elif self.constraint:
            self.constraint.accept(token_id)


@dataclass(eq=False, slots=True)
class Slot:
    """Room for one whole context.

    `token_ids` are the tokens whose keys and values the slot holds; they outlive their sequence,
    for the next request of the same `tenant`. `last_use` orders the slots by when they were taken.
    """

    index: int
    token_ids: list[int] = field(default_factory=list)
    tenant: str = ""
    last_use: int = 0
    sequence: Sequence | None = None
