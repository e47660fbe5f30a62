"""Attention of a lean model in float32 on the CPU by `engine/native/attention.cpp`.

A token's result is the same, bit for bit, in any chunk and beside any others.
"""

from __future__ import annotations

import ctypes

import torch

from engine.kv_cache import SlotCache, SlotLayer, Window
from engine.lean_attention import Heads, LayerAttention, Rotations


class _Pass(ctypes.Structure):
    """`Pass` of the kernel."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("rows", "positions", "cosines", "sines")),
        *((name, ctypes.c_int64) for name in ("tokens", "heads", "kv_heads", "dim", "ctx")),
        ("epsilon", ctypes.c_float),
        ("threads", ctypes.c_int32),
    )


class _Layer(ctypes.Structure):
    """`Layer` of the kernel."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("joined", "keys", "values", "head_norm")),
        ("window", ctypes.c_int64),
        ("output", ctypes.c_void_p),
    )


class NativeAttention:
    """Attention by the compiled kernel."""

    def __init__(self, heads: Heads, library: ctypes.CDLL) -> None:
        self._heads, self._library = heads, library
        self._rotations = Rotations(heads)

    def open(self, cache: SlotCache, window: Window) -> LayerAttention:
        """Take the turns for the window's positions; raises IndexError beyond the context."""
        return _NativePass(self._heads, self._library, cache, self._rotations, window)


class _NativePass:
    def __init__(
        self,
        heads: Heads,
        library: ctypes.CDLL,
        cache: SlotCache,
        rotations: Rotations,
        window: Window,
    ) -> None:
        count, length = window.positions.shape
        self._heads, self._library, self._windows = heads, library, cache.sliding_windows
        rows = torch.arange(window.first, window.first + count).repeat_interleave(length)
        positions = window.positions.flatten()
        # Also finds a position beyond the context, before the kernel would write there.
        cosines, sines = rotations.at(positions, cache.ctx)
        self._pass = _Pass(
            *(tensor.data_ptr() for tensor in (rows, positions, cosines, sines)),
            len(rows),
            heads.count,
            heads.kv_count,
            heads.dim,
            cache.ctx,
            heads.epsilon,
            torch.get_num_threads(),
        )
        # The pointers are good as long as the tensors are there.
        self._tensors = rows, positions, cosines, sines

    def __call__(
        self, joined: torch.Tensor, states: SlotLayer, kind: str, head_norm: torch.Tensor | None
    ) -> torch.Tensor:
        """Attend in one layer."""
        heads = self._heads
        if not states.is_initialized:
            like = joined.new_empty(1, heads.kv_count, 1, heads.dim)
            states.lazy_initialization(like, like)
        output = joined.new_empty(len(joined), heads.count * heads.dim)
        layer = _Layer(
            joined.data_ptr(),
            states.keys.data_ptr(),
            states.values.data_ptr(),
            None if head_norm is None else head_norm.data_ptr(),
            self._windows[kind],
            output.data_ptr(),
        )
        self._library.attend(ctypes.byref(self._pass), ctypes.byref(layer))
        return output
