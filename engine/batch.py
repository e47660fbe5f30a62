"""One step's work, and who computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.errors import EngineError
from engine.prompt_cache import SlotStore
from engine.slot import Sequence


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """Prompt tokens `[start, end)` of a sequence; the last chunk is also sampled from."""

    sequence: Sequence
    slot: int
    start: int
    end: int

    @property
    def is_last(self) -> bool:
        """Whether the prompt is complete after this chunk."""
        return self.end == len(self.sequence.prompt_ids)

    @property
    def tokens(self) -> int:
        """How many tokens are computed."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """The newest token of a running sequence, at `position` of its slot, and guesses after it."""

    sequence: Sequence
    slot: int
    position: int
    guess: tuple[int, ...] = ()

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All tokens that are computed."""
        return self.sequence.answer_ids[-1], *self.guess


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's work: at most one prefill chunk, then the newest of every running sequence."""

    prefill: PrefillChunk | None
    decode: tuple[DecodeRow, ...]

    @property
    def sequences(self) -> list[Sequence]:
        """All sequences of the step, the prefilled one first."""
        first = [self.prefill.sequence] if self.prefill else []
        return first + [row.sequence for row in self.decode]

    @property
    def tokens(self) -> int:
        """How many tokens are computed."""
        decoded = sum(1 + len(row.guess) for row in self.decode)
        return (self.prefill.tokens if self.prefill else 0) + decoded

    @property
    def sampled(self) -> list[Sequence]:
        """The sequences that get a token, in the order of `ModelRunner.run`'s result."""
        return [sequence for sequence, _ in self.guesses]

    @property
    def guesses(self) -> list[tuple[Sequence, tuple[int, ...]]]:
        """The same sequences, each with what was guessed for it."""
        chunk = self.prefill
        first = [(chunk.sequence, ())] if chunk and chunk.is_last else []
        return first + [(row.sequence, row.guess) for row in self.decode]


class OutOfMemory(EngineError):
    """A step needed more memory than there is; it can be run again, with less in it."""


class RequestFailed(EngineError):
    """A step failed because of one request; the others are untouched."""

    def __init__(self, message: str, request_id: str) -> None:
        super().__init__(message)
        self.request_id = request_id


class ModelRunner(SlotStore, Protocol):
    """Computes batches; the only one that knows tensors."""

    @property
    def vocab_size(self) -> int:
        """Token ids are below it."""

    def run(self, batch: Batch) -> list[int]:
        """Return the ids that the model puts after the batch's tokens.

        One for each of `batch.sampled`, and after it one for each token guessed for it. Raises
        RequestFailed and OutOfMemory.
        """

    @property
    def checks_guesses(self) -> bool:
        """Whether a row may have guesses, which are dropped again where they are wrong."""
