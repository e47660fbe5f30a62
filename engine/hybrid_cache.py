"""The slot cache of models with recurrent layers: keys and values by token, states by slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedConfig
from transformers.cache_utils import DummyLayer, get_layer_types_and_kwargs

from engine.kv_cache import ATTENTION_TYPES, SlotCache, SlotLayer, Window, layer_types
from engine.recurrent_layer import HybridLayer, RecurrentLayer

STATE_TYPES = frozenset({"linear_attention", "conv"})
_RECURRENT_TYPES = STATE_TYPES | {"hybrid"}

# Bytes that a cache's block takes for a token without keys and values (pure Mamba). They are taken
# in earnest: blocks that weigh nothing would pile up under any cap.
_BARE_TOKEN = 64


@dataclass(frozen=True, slots=True)
class SavedState:
    """A slot's states in host memory, each layer's in turn."""

    parts: list[torch.Tensor]

    @property
    def nbytes(self) -> int:
        """Their size."""
        return sum(part.nbytes for part in self.parts)


class HybridCache(SlotCache):
    """Slots whose states stand after all of their tokens and cannot go back.

    `save_state` and `load_state` are the way back: to where a state was saved.
    """

    cuttable = False

    def __init__(self, config: PreTrainedConfig, slots: int, ctx: int) -> None:
        super().__init__(config, slots, ctx)
        types, kwargs = get_layer_types_and_kwargs(config.get_text_config(decoder=True))
        self.layers: list[Any] = list(map(self._layer, types, kwargs, self.layers))
        if "hybrid" in types:
            self._mask_sizes["full_attention"] = 0
        self._recurrent = [layer for layer in self.layers if isinstance(layer, RecurrentLayer)]

    def open(self, slots: Sequence[int], positions: torch.Tensor, ends: Sequence[int]) -> Window:
        """Point the next forward pass at aligned `slots`; a pass from token 0 begins anew."""
        window = super().open(slots, positions, ends)
        rows, tokens = positions.shape
        for layer in self._recurrent:
            layer.look(window.first, rows, fresh=ends[0] == tokens)
        return window

    def save(self, slot: int, start: int, end: int) -> torch.Tensor:
        """Give all keys and values of tokens `[start, end)`, flat, in host memory."""
        if self._key_rooms(end):
            return super().save(slot, start, end)
        return torch.zeros((end - start) * _BARE_TOKEN, dtype=torch.uint8)

    def load(self, slot: int, start: int, saved: torch.Tensor) -> None:
        """Put what `save` gave into a slot at token `start`."""
        if self._key_rooms(1):
            super().load(slot, start, saved)

    def save_state(self, slot: int) -> SavedState:
        """Give a copy of the state after all of a slot's tokens, in host memory."""
        return SavedState([state.to("cpu", copy=True) for state in self._states(slot)])

    def load_state(self, slot: int, saved: SavedState) -> None:
        """Put what `save_state` gave into a slot."""
        for state, part in zip(self._states(slot), saved.parts, strict=True):
            state.copy_(part, non_blocking=True)

    def _layer(self, layer_type: str, kwargs: dict[str, Any], layer: SlotLayer) -> Any:
        states = kwargs.get("number_of_states", 1)
        if layer_type in STATE_TYPES:
            return RecurrentLayer(self._slots, states)
        if layer_type == "hybrid":
            return HybridLayer(self._slots, self.ctx, states)
        return DummyLayer() if layer_type == "dummy" else layer

    def _states(self, slot: int) -> list[torch.Tensor]:
        row = self._row_of[slot]
        return [room[row] for layer in self._recurrent for room in layer.rooms]

    def _rooms(self, length: int) -> list[torch.Tensor]:
        return super()._rooms(length) + [room for layer in self._recurrent for room in layer.rooms]


def is_hybrid(config: PreTrainedConfig) -> bool:
    """Whether some layers keep a recurrent state, and all others what slots can hold too."""
    types = set(layer_types(config))
    return bool(types & _RECURRENT_TYPES) and types <= ATTENTION_TYPES | _RECURRENT_TYPES | {
        "dummy"
    }
