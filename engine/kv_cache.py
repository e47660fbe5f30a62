"""Keys and values of all slots, and the views that one forward pass of the model sees.

The model class keeps its own attention: this cache hands it views of the slot tensors, and masks
that hide what lies beyond each row's length.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, CacheLayerMixin, get_layer_types_and_kwargs

# Views end at a multiple of this many keys: few distinct shapes, and masks whose rows are aligned
# as CUDA's attention kernels want them.
_KEY_BLOCK = 64
ATTENTION_TYPES = frozenset({"full_attention", "sliding_attention", "chunked_attention"})


@dataclass(frozen=True, slots=True)
class Window:
    """What one forward pass sees: cache rows `[first, first + n)`, keys `[0, end)`.

    `positions` `[n, q]` is where each row's new tokens go.
    """

    first: int
    end: int
    positions: torch.Tensor


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values, `[slots, kv_heads, ctx, dim]` each, allocated at first use."""

    def __init__(self, slots: int, ctx: int) -> None:
        super().__init__()
        self._slots = slots
        self._ctx = ctx
        self.window: Window | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate for the shapes of `[rows, kv_heads, q, dim]` states."""
        self.keys = self._room_for(key_states)
        self.values = self._room_for(value_states)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store `[n, kv_heads, q, dim]` states and return views `[n, kv_heads, end, dim]`."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        return self._store(self.keys, key_states), self._store(self.values, value_states)

    def get_seq_length(self) -> int:
        """The end of the window; rows differ, so callers pass positions of their own."""
        return self.window.end if self.window else 0

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys in view and the offset of the first one."""
        return self.get_seq_length(), 0

    def get_max_length(self) -> int:
        """Tokens of one slot."""
        return self._ctx

    def _room_for(self, states: torch.Tensor) -> torch.Tensor:
        _, heads, _, dim = states.shape
        shape = (self._slots, heads, self._ctx, dim)
        if states.device.type != "cpu":
            return torch.zeros(shape, dtype=states.dtype, device=states.device)
        # Fresh private pages read as zero and take memory only once written. Masked keys are read
        # too, so recycled memory, which may hold NaN, would not do.
        numel = self._slots * heads * self._ctx * dim
        pages = mmap.mmap(-1, numel * states.element_size(), access=mmap.ACCESS_COPY)
        return torch.frombuffer(pages, dtype=states.dtype).view(shape)

    def _store(self, room: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        assert self.window is not None
        positions = self.window.positions
        rows = room[self.window.first : self.window.first + len(positions)]
        row_index = torch.arange(len(positions), device=room.device)[:, None]
        rows[row_index, :, positions] = states.transpose(1, 2)
        return rows[:, :, : self.window.end]


class SlotCache(Cache):  # type: ignore[misc]
    """The cache of all slots, in the shape that transformers' models take.

    A slot lives in some row of the tensors. `align` keeps the slots of a forward pass in
    neighbouring rows, so that the model reads views and no step copies keys or values. `ctx` is
    what the tensors have room for. `cuttable` tells that the state after any of a slot's tokens
    can be gone back to.
    """

    cuttable = True

    def __init__(self, config: PreTrainedConfig, slots: int, ctx: int) -> None:
        self._mask_sizes = _mask_sizes(config)
        self.ctx = -(-ctx // _KEY_BLOCK) * _KEY_BLOCK
        self._slots = slots
        self._row_of = list(range(slots))
        self._lengths = [0] * slots
        super().__init__(layers=[SlotLayer(slots, self.ctx) for _ in layer_types(config)])

    def align(self, slots: Sequence[int]) -> list[int]:
        """Bring `slots` into neighbouring rows and return them in row order.

        Moves as few rows as possible; they stay where they are, so a move is rare.
        """
        count = len(slots)
        rows = {self._row_of[slot] for slot in slots}
        starts = range(len(self._row_of) - count + 1)
        first = max(starts, key=lambda start: len(rows & set(range(start, start + count))))
        wanted = set(range(first, first + count))
        for source, target in zip(sorted(rows - wanted), sorted(wanted - rows), strict=True):
            self._swap(source, target)
        return sorted(slots, key=self._row_of.__getitem__)

    def open(self, slots: Sequence[int], positions: torch.Tensor, ends: Sequence[int]) -> Window:
        """Point the next forward pass at aligned `slots`, tokens going to `positions` `[n, q]`.

        `ends` are the lengths of the slots after the pass.
        """
        for slot, end in zip(slots, ends, strict=True):
            self._lengths[slot] = end
        end = min(-(-max(ends) // _KEY_BLOCK) * _KEY_BLOCK, self.ctx)
        window = Window(self._row_of[slots[0]], end, positions)
        for layer in self.layers:
            layer.window = window
        return window

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Copy tokens `[start, end)` of slot `source` to the same place of slot `target`."""
        views = zip(self._views(source, start, end), self._views(target, start, end), strict=True)
        for theirs, ours in views:
            ours.copy_(theirs)
        self._lengths[target] = end

    def save(self, slot: int, start: int, end: int) -> torch.Tensor:
        """Give all layers' keys and values of tokens `[start, end)`, flat, in host memory."""
        flat = torch.cat([view.flatten() for view in self._views(slot, start, end)])
        return flat if flat.device.type == "cpu" else flat.cpu()

    def load(self, slot: int, start: int, saved: torch.Tensor) -> None:
        """Put what `save` gave into a slot at token `start`."""
        tokens = saved.numel() // sum(view.numel() for view in self._views(slot, 0, 1))
        views = self._views(slot, start, start + tokens)
        flat = saved.to(views[0].device, non_blocking=True)
        parts = torch.split(flat, [view.numel() for view in views])
        for view, part in zip(views, parts, strict=True):
            view.copy_(part.view(view.shape))
        self._lengths[slot] = start + tokens

    @property
    def sliding_windows(self) -> dict[str, int]:
        """How many keys, its own included, a query sees in each type of layer; 0 where all."""
        return {
            layer_type: size if layer_type == "sliding_attention" else 0
            for layer_type, size in self._mask_sizes.items()
        }

    def masks(self, window: Window) -> dict[str, torch.Tensor]:
        """Boolean masks `[n, 1, q, end]`, true where a query may look, for each attention type."""
        queries = window.positions[:, None, :, None]
        keys = torch.arange(window.end, device=queries.device)
        causal = keys <= queries
        masks = {}
        for layer_type, size in self._mask_sizes.items():
            if layer_type == "sliding_attention":
                masks[layer_type] = causal & (keys > queries - size)
            elif layer_type == "chunked_attention":
                masks[layer_type] = causal & (keys // size == queries // size)
            else:
                masks[layer_type] = causal
        return masks

    def _views(self, slot: int, start: int, end: int) -> list[torch.Tensor]:
        """The `[kv_heads, end - start, dim]` keys and values of each layer."""
        row = self._row_of[slot]
        return [room[row, :, start:] for room in self._key_rooms(end)]

    def _key_rooms(self, length: int) -> list[torch.Tensor]:
        """All layers' keys and values `[slots, kv_heads, length, dim]`."""
        layers = (layer for layer in self.layers if isinstance(layer, SlotLayer))
        pairs = ((layer.keys, layer.values) for layer in layers if layer.is_initialized)
        return [room[:, :, :length] for pair in pairs for room in pair]

    def _rooms(self, length: int) -> list[torch.Tensor]:
        """All that belongs to slots, for their first `length` tokens."""
        return self._key_rooms(length)

    def _swap(self, source: int, target: int) -> None:
        a, b = self._row_of.index(source), self._row_of.index(target)
        # What lies beyond both lengths is hidden by the masks, so it need not move.
        length = max(self._lengths[a], self._lengths[b])
        rooms = self._rooms(length)
        # All memory is taken before anything moves: without it the rows stay as they are.
        kept = [room[source].clone() for room in rooms]
        for room, row in zip(rooms, kept, strict=True):
            room[source] = room[target]
            room[target] = row
        self._row_of[a], self._row_of[b] = target, source


def has_only_attention(config: PreTrainedConfig) -> bool:
    """Whether every layer keeps plain keys and values, as the slot tensors hold them."""
    return set(layer_types(config)) <= ATTENTION_TYPES


def layer_types(config: PreTrainedConfig) -> list[str]:
    """The kind of each of the decoder's layers."""
    types, _ = get_layer_types_and_kwargs(config.get_text_config(decoder=True))
    return list(types)


def _mask_sizes(config: PreTrainedConfig) -> dict[str, int]:
    types, kwargs = get_layer_types_and_kwargs(config.get_text_config(decoder=True))
    # transformers calls the size of a chunk sliding_window too.
    sizes = {t: k.get("sliding_window", 0) for t, k in zip(types, kwargs, strict=True)}
    return {t: size for t, size in sizes.items() if t in ATTENTION_TYPES}
