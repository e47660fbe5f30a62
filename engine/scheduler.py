"""Continuous batching: which tokens the next device call computes, and what came of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import replace
from itertools import islice

from engine.batch import Batch, DecodeRow, PrefillChunk
from engine.chunk_size import SMALLEST_CHUNK, ChunkSize
from engine.config import EngineConfig
from engine.constraint import ConstraintCompiler
from engine.errors import EngineError
from engine.host_cache import HostCache, common_prefix
from engine.messages import SequenceOutput, Submit
from engine.prompt_cache import PromptCache, SlotStore
from engine.prompt_lookup import PromptLookup, guesses_per_row
from engine.slot import Sequence, SequenceStatus, Slot


class Scheduler:
    """Requests wait in order of arrival, take the slot that suits them, and are decoded together.

    A waiting request takes its slot when the prompt before it is complete, not earlier: whoever
    holds a slot has been computed.
    """

    def __init__(
        self,
        config: EngineConfig,
        eos_token_ids: Collection[int],
        vocab_size: int,
        store: SlotStore,
        constraints: ConstraintCompiler | None = None,
        guesses: bool = False,
    ) -> None:
        self.slots = [Slot(index) for index in range(config.slots)]
        self.waiting: deque[Sequence] = deque()
        self._ctx = config.ctx
        self._full_chunk = self._chunk_limit = config.prefill_chunk
        self._chunk_size = ChunkSize(config.prefill_chunk)
        self._row_limit = config.slots
        self._may_guess = self._guesses = guesses
        self._eos_token_ids = frozenset(eos_token_ids)
        self._vocab_size = vocab_size
        self._prompt_cache = PromptCache(store, config.cache_ram)
        self._constraints = constraints
        self._prefilling: Sequence | None = None
        # The requests that are still to come, as the newest one told.
        self._behind = 0
        self._started: list[SequenceOutput] = []
        self._turn = 0

    @property
    def host_cache(self) -> HostCache:
        """The prompts' tokens that no slot holds any more."""
        return self._prompt_cache.host

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self.waiting) or any(slot.sequence for slot in self.slots)

    def submit(self, request: Submit) -> None:
        """Queue a request; raises EngineError when it cannot be run."""
        self._check(request)
        constraint = (
            self._constraints.begin(request.constraint, request.thinking)
            if self._constraints
            else None
        )
        self._behind = request.behind
        self.waiting.append(
            Sequence(
                request.request_id,
                request.prompt_ids,
                request.max_tokens,
                request.sampling,
                constraint,
                request.tenant,
                request.opening,
            )
        )

    def cancel(self, request_id: str) -> None:
        """Forget a request, waiting or running; an unknown id is ignored."""
        for sequence in self._all():
            if sequence.request_id == request_id:
                self._release(sequence)

    def fail(self, request_ids: Collection[str]) -> None:
        """Forget requests whose step failed; what their slots hold is not to be trusted."""
        for sequence in self._all():
            if sequence.request_id in request_ids:
                if sequence.slot is not None:
                    self.slots[sequence.slot].token_ids.clear()
                self._release(sequence)

    def withdraw(self) -> tuple[str, ...]:
        """Forget the requests that hold no slot, and return their ids."""
        request_ids = tuple(sequence.request_id for sequence in self.waiting)
        self.waiting.clear()
        return request_ids

    def schedule(self, now: float) -> Batch:
        """Give a free slot to a waiting request at time `now` and pick the next step's tokens."""
        if not any(slot.sequence for slot in self.slots):
            self._chunk_limit, self._row_limit = self._full_chunk, len(self.slots)
            self._guesses = self._may_guess
        if self._prefilling is None:
            self._begin_next(now)
        rows = self._decode_rows()
        return Batch(self._next_chunk(sum(len(row.token_ids) for row in rows)), rows)

    def take_started(self) -> tuple[SequenceOutput, ...]:
        """Report the requests that took a slot since the last call, before they are computed.

        Told first, so that their clients hear that their turn has come, and so that they are
        known to have run if the step is the worker's last.
        """
        started, self._started = tuple(self._started), []
        return started

    def shrink(self, batch: Batch) -> bool:
        """Put half as much into the coming steps as `batch` had; False if that is not possible.

        Where it had guesses, it is tried without them first.
        Full steps are tried again when all slots are free.
        """
        if any(row.guess for row in batch.decode):
            self._guesses = False
            return True
        chunk = batch.prefill.tokens if batch.prefill else 0
        if chunk <= SMALLEST_CHUNK and len(batch.decode) <= 1:
            return False
        # What the step had nothing of is not to blame: that limit stays.
        if chunk:
            self._chunk_limit = max(SMALLEST_CHUNK, chunk // 2)
        if batch.decode:
            self._row_limit = max(1, len(batch.decode) // 2)
        return True

    def took(self, batch: Batch, seconds: float) -> None:
        """Learn from how long a step took how much the next ones may hold."""
        prefilled = batch.prefill.tokens if batch.prefill else 0
        self._chunk_size.learn(prefilled, batch.tokens - prefilled, seconds)

    def postprocess(self, batch: Batch, sampled: list[int]) -> tuple[SequenceOutput, ...]:
        """Record what a step computed and report what each request gained."""
        if batch.prefill:
            self._extend(batch.prefill)
        drawn = iter(sampled)
        outputs = tuple(
            self._advance(sequence, guess, list(islice(drawn, 1 + len(guess))))
            for sequence, guess in batch.guesses
        )
        for sequence in batch.sampled:
            if sequence is self._prefilling:
                self._prefilling = None
            if sequence.status is SequenceStatus.FINISHED:
                self._release(sequence)
        return outputs

    def _extend(self, chunk: PrefillChunk) -> None:
        slot, sequence = self.slots[chunk.slot], chunk.sequence
        slot.token_ids += sequence.prompt_ids[chunk.start : chunk.end]
        if chunk.end in sequence.stops:
            self._prompt_cache.mark(slot)

    def _check(self, request: Submit) -> None:
        total = len(request.prompt_ids) + request.max_tokens
        if any(s.request_id == request.request_id for s in self._all()):
            raise EngineError(f"request id {request.request_id} is already running")
        if not request.prompt_ids or request.max_tokens < 1:
            raise EngineError("a request needs at least one prompt token and one token to answer")
        if total > self._ctx:
            raise EngineError(f"prompt and answer need {total} tokens, a slot has {self._ctx}")
        if not all(0 <= token_id < self._vocab_size for token_id in request.prompt_ids):
            raise EngineError("the prompt holds a token id that the model does not have")

    def _all(self) -> list[Sequence]:
        return [*self.waiting, *(slot.sequence for slot in self.slots if slot.sequence)]

    def _begin_next(self, now: float) -> None:
        if not self.waiting:
            return
        sequence = self.waiting[0]
        slot = self._prompt_cache.place(self.slots, sequence.tenant, sequence.prompt_ids)
        if slot is None:
            return
        slot.sequence = self._prefilling = self.waiting.popleft()
        sequence.slot = slot.index
        sequence.stops = self._prompt_cache.stops(
            sequence.prompt_ids, sequence.opening, len(slot.token_ids)
        )
        self._started.append(
            SequenceOutput(
                sequence.request_id, (), 0, started_at=now, cached_tokens=len(slot.token_ids)
            )
        )

    def _next_chunk(self, decoded: int) -> PrefillChunk | None:
        if (sequence := self._prefilling) is None:
            return None
        slot = self._slot_of(sequence)
        start = len(slot.token_ids)
        free = sum(slot.sequence is None for slot in self.slots)
        prompts = 1 + min(free, len(self.waiting) + self._behind)
        size = min(self._chunk_limit, self._chunk_size.beside(decoded, prompts))
        ends = [start + size, len(sequence.prompt_ids), *sequence.stops]
        end = min(end for end in ends if end > start)
        return PrefillChunk(sequence, slot.index, start, end)

    def _decode_rows(self) -> tuple[DecodeRow, ...]:
        rows = [
            DecodeRow(slot.sequence, slot.index, len(slot.token_ids))
            for slot in self.slots
            if slot.sequence and slot.sequence.status is SequenceStatus.DECODE
        ]
        if len(rows) <= self._row_limit:
            most = guesses_per_row(len(rows)) if self._guesses else 0
            return tuple(replace(row, guess=_guess(row.sequence, most)) for row in rows)
        # They take turns, each step going on where the last one stopped.
        first, self._turn = self._turn % len(rows), self._turn + self._row_limit
        return tuple((rows + rows)[first : first + self._row_limit])

    def _advance(
        self, sequence: Sequence, guess: tuple[int, ...], drawn: list[int]
    ) -> SequenceOutput:
        """Take the drawn ids up to the first that was not guessed."""
        known = len(sequence.answer_ids)
        accepted = common_prefix(guess, drawn)
        for token_id in drawn[: accepted + 1]:
            if sequence.finish is None:
                sequence.append(token_id, self._eos_token_ids)
        new = sequence.answer_ids[known:]
        # The slot has all but the newest one; what it holds beyond is overwritten.
        if known:
            self._slot_of(sequence).token_ids += sequence.answer_ids[known - 1 : -1]
        if guess and sequence.lookup:
            sequence.lookup.learn(accepted)
        return SequenceOutput(
            request_id=sequence.request_id,
            token_ids=tuple(new[:-1] if sequence.finish == "stop" else new),
            completion_tokens=len(sequence.answer_ids),
            finish=sequence.finish,
            draft_tokens=len(guess),
            accepted_tokens=min(accepted, len(new)),
        )

    def _slot_of(self, sequence: Sequence) -> Slot:
        return next(slot for slot in self.slots if slot.sequence is sequence)

    def _release(self, sequence: Sequence) -> None:
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        if sequence is self._prefilling:
            self._prefilling = None
        if sequence.slot is not None:
            self.slots[sequence.slot].sequence = None


def _guess(sequence: Sequence, most: int) -> tuple[int, ...]:
    # What may follow a guess would depend on it by more than the model: tables, a grammar.
    if sequence.constraint or sequence.sampling.penalises:
        return ()
    # One more than is guessed is drawn.
    most = min(most, sequence.max_tokens - len(sequence.answer_ids) - 1)
    if most < 1:
        return ()
    sequence.lookup = sequence.lookup or PromptLookup(sequence.prompt_ids)
    return sequence.lookup.guess(sequence.answer_ids, most)
