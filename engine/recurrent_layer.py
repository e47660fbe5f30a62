"""Cache layers with one state for all past tokens: linear attention, Mamba, short convolutions."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import LinearAttentionLayer

from engine.kv_cache import SlotLayer


class RecurrentLayer(LinearAttentionLayer):  # type: ignore[misc]
    """One layer's states, `[slots, ...]` each, allocated at first use.

    The class reads and writes what `look` points at: a view of neighbouring rows.
    """

    def __init__(self, slots: int, number_of_states: int = 1) -> None:
        LinearAttentionLayer.__init__(self, number_of_states)
        self._slots = slots
        self._states = number_of_states
        self._rows = slice(0)
        self._rooms: dict[tuple[str, int], torch.Tensor] = {}

    @property
    def rooms(self) -> list[torch.Tensor]:
        """All states, the slots in their first dimension."""
        return list(self._rooms.values())

    def lazy_initialization(self, *args: Any, state_idx: int = 0, **kwargs: Any) -> None:
        """Allocate for the shape and type of some rows' conv or recurrent states."""
        LinearAttentionLayer.lazy_initialization(self, *args, state_idx=state_idx, **kwargs)
        for kind in ("conv_states", "recurrent_states"):
            rows = getattr(self, kind)[state_idx]
            if rows is not None and (kind, state_idx) not in self._rooms:
                room = rows.new_zeros(self._slots, *rows.shape[1:])
                self._rooms[kind, state_idx] = room
                getattr(self, kind)[state_idx] = room[self._rows]

    def look(self, first: int, count: int, fresh: bool) -> None:
        """Point the next pass at `count` rows; a `fresh` one begins without a state."""
        self._rows = slice(first, first + count)
        for (kind, index), room in self._rooms.items():
            getattr(self, kind)[index] = room[self._rows]
        self.has_previous_state: dict[int, bool] = dict.fromkeys(range(self._states), not fresh)


class HybridLayer(RecurrentLayer, SlotLayer):
    """One layer that has both a state and keys and values."""

    def __init__(self, slots: int, ctx: int, number_of_states: int = 1) -> None:
        SlotLayer.__init__(self, slots, ctx)
        RecurrentLayer.__init__(self, slots, number_of_states)

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        """Allocate keys and values, which come by position, or a state, which comes by name."""
        owner = SlotLayer if args else RecurrentLayer
        owner.lazy_initialization(self, *args, **kwargs)
