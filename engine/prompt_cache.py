"""The prompt cache: which slot a prompt goes to, and which of its tokens need no computing.

Two levels. The slots keep what they computed: a prompt that goes on where an idle slot stands takes
that slot, and the beginning that it shares with any slot, also a busy one, is copied. What a slot
loses when it is taken goes to host memory (engine/host_cache.py) and comes back from there.
Nothing is ever shared between tenants.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Protocol

from engine.host_cache import Found, HostCache, Payload, common_prefix
from engine.slot import Slot


class SlotStore(Protocol):
    """Moves keys and values of whole tokens; the model runner's side of the cache.

    `cuttable` tells whether the state after any of a slot's tokens can be gone back to. Where it
    cannot (recurrent layers), only the whole slot can be gone on from.
    """

    @property
    def cuttable(self) -> bool:
        """Whether single tokens can be dropped, copied, saved and loaded."""

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Copy tokens `[start, end)` of slot `source` to the same place of slot `target`."""

    def save(self, slot: int, start: int, end: int) -> Payload:
        """Give a copy of a slot's tokens `[start, end)` in host memory; raises MemoryError."""

    def load(self, slot: int, start: int, payload: Payload) -> None:
        """Put what `save` gave into a slot at token `start`; raises MemoryError."""


class PromptCache:
    """Places prompts in slots; `cap` is the most bytes of host memory, 0 for slots only."""

    def __init__(self, store: SlotStore, cap: int) -> None:
        self._store = store
        self.host = HostCache(cap if store.cuttable else 0)
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
        found = self.host.find(tenant, wanted)
        slot = self._choose(idle, shared)
        kept = shared[slot.index] if self._can_keep(slot, shared[slot.index]) else 0
        self._give_way(slot, kept)
        slot.tenant, slot.last_use = tenant, next(self._uses)
        if self._store.cuttable:
            source = max(slots, key=lambda slot: shared[slot.index])
            known = self._fetch(slot, kept, found, source, shared[source.index])
            slot.token_ids[:] = wanted[:known]
        return slot

    def _choose(self, idle: list[Slot], shared: dict[int, int]) -> Slot:
        """Pick the slot that knows most of the prompt, unless its loss would be the greater part.

        Then, or when none knows anything, the one that was used longest ago.
        """
        going_on = [
            slot
            for slot in idle
            if 0 < shared[slot.index] * 2 >= len(slot.token_ids)
            and self._can_keep(slot, shared[slot.index])
        ]
        if going_on:
            return max(going_on, key=lambda slot: shared[slot.index])
        return min(idle, key=lambda slot: slot.last_use if slot.token_ids else 0)

    def _can_keep(self, slot: Slot, shared: int) -> bool:
        return self._store.cuttable or shared == len(slot.token_ids)

    def _give_way(self, slot: Slot, kept: int) -> None:
        if len(slot.token_ids) > kept and self.host.cap:
            # What there is no memory for is computed again one day.
            with suppress(MemoryError):
                self.host.add(
                    slot.tenant,
                    slot.token_ids,
                    lambda start, end: self._store.save(slot.index, start, end),
                )
        del slot.token_ids[kept:]

    def _fetch(self, slot: Slot, kept: int, found: Found, source: Slot, shared: int) -> int:
        """Bring what is known beyond the `kept` tokens, by host memory or by the slot `source`.

        Returns how many tokens the slot then has.
        """
        if found.tokens > max(kept, shared):
            return self._load(slot, kept, found)
        if shared > kept:
            self._store.copy(source.index, slot.index, kept, shared)
        return max(kept, shared)

    def _load(self, slot: Slot, kept: int, found: Found) -> int:
        """Bring what host memory knows beyond the `kept` tokens, as far as there is memory."""
        for block in found.blocks:
            if block.end > kept:
                try:
                    self._store.load(slot.index, block.start, block.payload)
                except MemoryError:
                    return max(kept, block.start)
        return found.tokens


def _shared(slot: Slot, tenant: str, wanted: tuple[int, ...]) -> int:
    return common_prefix(slot.token_ids, wanted) if slot.tenant == tenant else 0
