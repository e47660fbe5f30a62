"""Int8 linear layers in one call each, by `native/int8_linear.cpp`, with what is around them.

A layer's RMSNorm, or the gate of its inputs, is computed in the pass that rounds them, and its
result may be added to the hidden state in place. Rows are rounded, and products summed, as by
`engine/int8_linear.py`, to the same bits where a row has one scale.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

import torch
from torch import nn

from engine.int8_linear import quantise_rows
from engine.native_library import native_library

_LEVELS = 127
# Inputs of a gated layer that share a scale: some of them are far above the rest of their row.
_GROUP = 32
_BLOCK = 16


class Inputs(IntEnum):
    """What happens to a row before it is rounded, as the C++ numbers it."""

    PLAIN = 0
    NORMED = 1
    GATED = 2


class _Layer(ctypes.Structure):
    """`Int8Layer` of the C++."""

    _fields_ = (
        ("weights", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("width", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
        ("group", ctypes.c_int64),
        ("epsilon", ctypes.c_float),
        ("inputs", ctypes.c_int32),
        ("adds", ctypes.c_int32),
    )


class NativeInt8Linear(nn.Module):
    """Stands in for an `nn.Linear` of float32 weights on the CPU, without gradients.

    `NORMED` inputs go through RMSNorm with `epsilon` and without weights; of `GATED` ones, twice
    as wide, the halves `gate` and `up` become `silu(gate) * up`.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        linear: nn.Linear,
        inputs: Inputs = Inputs.PLAIN,
        epsilon: float = 0,
        adds: bool = False,
    ) -> None:
        super().__init__()
        outputs, width = linear.weight.shape
        rows, scales = quantise_rows(linear.weight.detach())
        self._weights = _pack(library, rows)
        self._scales = scales * torch.tensor(1 / _LEVELS)
        self.packed_count = linear.weight.numel()
        self.packed_bytes = self._weights.nbytes + self._scales.nbytes
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())
        self._outputs = outputs
        self._multiply = library.int8_linear
        self._layer = _Layer(
            weights=self._weights.data_ptr(),
            scales=self._scales.data_ptr(),
            bias=None if self.bias is None else self.bias.data_ptr(),
            width=width,
            outputs=outputs,
            group=_GROUP if inputs == Inputs.GATED else -(-width // _BLOCK) * _BLOCK,
            epsilon=epsilon,
            inputs=inputs,
            adds=adds,
        )
        self._pointer = ctypes.byref(self._layer)

    def forward(self, inputs: torch.Tensor, hidden: torch.Tensor | None = None) -> torch.Tensor:
        """Map `[n, in]` to `[n, out]`, or where the layer `adds`, add to `hidden` `[n, out]`."""
        inputs = inputs.contiguous()
        out = inputs.new_empty(len(inputs), self._outputs) if hidden is None else hidden
        assert out.is_contiguous(), "the C++ takes rows that lie together"
        self._multiply(
            self._pointer,
            ctypes.c_void_p(inputs.data_ptr()),
            ctypes.c_int64(len(inputs)),
            ctypes.c_void_p(out.data_ptr()),
            torch.get_num_threads(),
        )
        return out


def native_int8() -> ctypes.CDLL | None:
    """Return the native library where it multiplies int8 matrices on this CPU."""
    library = native_library()
    return library if hasattr(library, "int8_linear") else None


def _pack(library: ctypes.CDLL, rows: torch.Tensor) -> torch.Tensor:
    """Lay int8 rows `[out, in]` out as the C++ wants them."""
    outputs, width = map(ctypes.c_int64, rows.shape)
    library.int8_linear_packed_bytes.restype = ctypes.c_int64
    packed = torch.empty(library.int8_linear_packed_bytes(width, outputs), dtype=torch.uint8)
    library.int8_linear_pack(
        ctypes.c_void_p(rows.data_ptr()), width, outputs, ctypes.c_void_p(packed.data_ptr())
    )
    return packed
