"""A linear layer over the product of SwiGLU."""

from __future__ import annotations

import ctypes

import torch
from torch import nn
from torch.nn import functional as F

from engine.native_library import native_library


class GatedLinear(nn.Module):
    """Reads `silu(gate) * up`, in float32 on the CPU by the native kernel if there is one.

    torch gives each thread an even share of all elements, and what is left over from whole vectors
    there is computed by other instructions: a row would change with its batch mates.
    """

    def __init__(self, linear: nn.Module) -> None:
        super().__init__()
        self._linear = linear

    def forward(self, gate_up: torch.Tensor) -> torch.Tensor:
        """Map `[n, 2 * in]`, gates first, to `[n, out]`."""
        is_plain = gate_up.is_cpu and gate_up.dtype == torch.float32
        library = native_library() if is_plain else None
        return self._linear(  # type: ignore[no-any-return]
            _gate(gate_up, library) if library else _torch_gate(gate_up)
        )


def _gate(gate_up: torch.Tensor, library: ctypes.CDLL) -> torch.Tensor:
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    gated = gate_up.new_empty(rows, width)
    library.gate(
        ctypes.c_void_p(gate_up.data_ptr()),
        ctypes.c_int64(rows),
        ctypes.c_int64(width),
        ctypes.c_void_p(gated.data_ptr()),
        ctypes.c_int32(torch.get_num_threads()),
    )
    return gated


def _torch_gate(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate).mul_(up)
