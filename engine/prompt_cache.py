"""The prompt cache: which slot a prompt goes to, and which of its tokens need no computing.

Two levels. The slots keep what they computed: a prompt that goes on where an idle slot stands takes
that slot, and the beginning that it shares with any slot, also a busy one, is copied. What a slot
loses when it is taken goes to host memory (engine/host_cache.py) and comes back from there.
Nothing is ever shared between tenants.

The state of recurrent layers is that after a slot's last token. So that a prompt can go on from
elsewhere too, states are saved to host memory: where a prompt's messages begin
(engine/state_points.py), and where a slot stood when it was taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from engine.host_cache import Block, Found, HostCache, Payload, common_prefix
from engine.slot import Slot
from engine.state_points import state_points


class SlotStore(Protocol):
    """Moves what slots hold; the model runner's side of the cache.

    `movable` tells whether keys and values can be copied, saved and loaded at all, `cuttable`
    whether the state after any of a slot's tokens can be gone back to. Where it cannot (recurrent
    layers), a slot is gone on from at its end, or at a state that was saved.
    """

    @property
    def movable(self) -> bool:
        """Whether the other methods can be called."""

    @property
    def cuttable(self) -> bool:
        """Whether a slot's last tokens can be dropped."""

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Copy tokens `[start, end)` of slot `source` to the same place of slot `target`."""

    def save(self, slot: int, start: int, end: int) -> Payload:
        """Give a copy of a slot's tokens `[start, end)` in host memory; raises MemoryError."""

    def load(self, slot: int, start: int, payload: Payload) -> None:
        """Put what `save` gave into a slot at token `start`; raises MemoryError."""

    def save_state(self, slot: int) -> Payload:
        """Give a copy of the state after all of a slot's tokens; raises MemoryError."""

    def load_state(self, slot: int, payload: Payload) -> None:
        """Put what `save_state` gave into a slot."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a prompt: blocks and points in host memory, and the slot with most of it."""

    found: Found
    points: list[Block]
    source: Slot
    shared: int

    @property
    def tokens(self) -> int:
        """The tokens whose keys and values are somewhere."""
        return max(self.found.tokens, self.shared)


class PromptCache:
    """Places prompts in slots; `cap` is the most bytes of host memory, 0 for slots only."""

    def __init__(self, store: SlotStore, cap: int) -> None:
        self._store = store
        self.host = HostCache(cap if store.movable else 0)
        self._needs_points = not store.cuttable and self.host.cap > 0
        self._uses = count(1)

    def place(self, slots: Sequence[Slot], tenant: str, prompt_ids: tuple[int, ...]) -> Slot | None:
        """Take an idle slot for a prompt, holding as much of its beginning as is known.

        The slot's `token_ids` are then the tokens that need no computing: all but one of the
        prompt at most, since the last one's logits are needed. None when all slots are busy.
        """
        idle = [slot for slot in slots if slot.sequence is None]
        if not idle:
            return None
        wanted = prompt_ids[:-1]
        shared = {slot.index: _shared(slot, tenant, wanted) for slot in slots}
        # Looked up before the slot's loss goes there, which could push them out.
        known = self._look_up(slots, shared, tenant, wanted)
        reach = {slot.index: self._reach(slot, shared[slot.index], known.points) for slot in idle}
        slot = self._choose(idle, reach)
        kept, stands = shared[slot.index], reach[slot.index]
        # Whether a recurrent state stands where the kept tokens end; else a saved one is loaded.
        is_live = stands == kept == len(slot.token_ids)
        self._give_way(slot, kept)
        slot.tenant, slot.last_use = tenant, next(self._uses)
        goal = known.tokens if self._store.cuttable else _deepest(known.points, known.tokens)
        if goal > stands or not is_live:
            stands = self._bring(slot, kept, goal, known)
        slot.token_ids[:] = wanted[:stands]
        return slot

    def stops(self, prompt_ids: tuple[int, ...], opening: int | None, known: int) -> list[int]:
        """Where in a prompt, beyond its `known` tokens, `mark` is to be called."""
        return state_points(prompt_ids, opening, known) if self._needs_points else []

    def mark(self, slot: Slot) -> None:
        """Keep the state after all of a slot's tokens, if there is memory."""
        with suppress(MemoryError):
            self.host.add_point(
                slot.tenant, slot.token_ids, lambda: self._store.save_state(slot.index)
            )

    def _look_up(
        self, slots: Sequence[Slot], shared: dict[int, int], tenant: str, wanted: tuple[int, ...]
    ) -> _Known:
        source = max(slots, key=lambda slot: shared[slot.index])
        return _Known(
            self.host.find(tenant, wanted),
            self.host.points(tenant, wanted) if self._needs_points else [],
            source,
            shared[source.index],
        )

    def _reach(self, slot: Slot, shared: int, points: list[Block]) -> int:
        """How many of the tokens that a slot shares with a prompt it can be gone on from."""
        if self._store.cuttable or shared == len(slot.token_ids):
            return shared
        return _deepest(points, shared)

    def _choose(self, idle: list[Slot], reach: dict[int, int]) -> Slot:
        """Pick the slot that knows most of the prompt, unless its loss would be the greater part.

        Then, or when none knows anything, the one that was used longest ago.
        """
        going_on = [slot for slot in idle if 0 < reach[slot.index] * 2 >= len(slot.token_ids)]
        if going_on:
            return max(going_on, key=lambda slot: reach[slot.index])
        return min(idle, key=lambda slot: slot.last_use if slot.token_ids else 0)

    def _give_way(self, slot: Slot, kept: int) -> None:
        if len(slot.token_ids) > kept and self.host.cap:
            # What there is no memory for is computed again one day.
            with suppress(MemoryError):
                self.host.add(
                    slot.tenant,
                    slot.token_ids,
                    lambda start, end: self._store.save(slot.index, start, end),
                )
            if self._needs_points:
                self.mark(slot)
        del slot.token_ids[kept:]

    def _bring(self, slot: Slot, kept: int, goal: int, known: _Known) -> int:
        """Bring what is known up to `goal`; returns how many tokens the slot can go on from."""
        have = kept
        if kept < goal <= known.shared:
            self._store.copy(known.source.index, slot.index, kept, goal)
            have = goal
        elif kept < goal:
            have = self._load(slot, kept, goal, known.found)
        if self._store.cuttable:
            return have
        point = next((p for p in reversed(known.points) if p.end <= have), None)
        if point:
            self._store.load_state(slot.index, point.payload)
        return point.end if point else 0

    def _load(self, slot: Slot, kept: int, goal: int, found: Found) -> int:
        """Bring blocks from the `kept` tokens up to `goal`, as far as there is memory."""
        for block in found.blocks:
            if kept < block.end and block.start < goal:
                try:
                    self._store.load(slot.index, block.start, block.payload)
                except MemoryError:
                    return max(kept, block.start)
        return goal


def _deepest(points: list[Block], limit: int) -> int:
    return max((point.end for point in points if point.end <= limit), default=0)


def _shared(slot: Slot, tenant: str, wanted: tuple[int, ...]) -> int:
    return common_prefix(slot.token_ids, wanted) if slot.tenant == tenant else 0
