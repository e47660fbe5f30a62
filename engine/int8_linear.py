"""Linear layers with int8 weights and one activation scale for each row, on x86 by FBGEMM.

Weights are symmetric with one scale for each output channel. A row of activations is divided by
its largest magnitude and rounded to 255 levels, products are summed as integers, and the row is
scaled back: its result is, bit for bit, the same alone, among other rows and in any chunk.
`quantized.linear_dynamic`, the usual call, takes one scale for all rows together.

`python -m bench.linears`: CPU ms for the matrices of one decode step of a 135M model, 1 thread,
AVX512-VNNI (Zen 4):

    rows                    1     2     4     8    16    64   256
    float32, F.linear      48    87    68    79   106   277   850
    float32, packed        47    51    35    46    62   188   693
    int8, FBGEMM           12    12    12    15    24    72   320
    int8, native            7     6     7    10    19    79   323
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
from torch import nn

_ROWS = 4096
_TINY = torch.finfo(torch.float32).tiny


class Int8Linear(nn.Module):
    """Stands in for an `nn.Linear` of float32 weights on the CPU, without gradients."""

    def __init__(self, linear: nn.Linear, fine: bool = False) -> None:
        super().__init__()
        self._fine = fine
        # A byte for each weight, and a scale for each output.
        self.packed_count = linear.weight.numel()
        self.packed_bytes = self.packed_count + 4 * linear.out_features
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())
        self._levels = _activation_levels()
        self._packed = _pack(*quantise_rows(linear.weight.detach()))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map `[n, in]` to `[n, out]`."""
        peaks = inputs.abs().amax(-1, keepdim=True).clamp_(min=_TINY)
        multiply = self._multiply_finely if self._fine else self._multiply
        outputs = multiply(inputs / peaks).mul_(peaks)
        return outputs if self.bias is None else outputs.add_(self.bias)

    def _multiply(self, rows: torch.Tensor) -> torch.Tensor:
        """Round `[n, in]` in [-1, 1] to `2 * levels + 1` levels and multiply."""
        return _multiply(rows, self._packed, self._levels)

    def _multiply_finely(self, rows: torch.Tensor) -> torch.Tensor:
        """Multiply what rounding takes away as well, at twice the levels of levels."""
        rounded = (rows * self._levels).round_().div_(self._levels)
        finer = 2 * self._levels
        both = self._multiply(torch.cat((rounded, (rows - rounded).mul_(finer))))
        coarse, fine = both.chunk(2)
        return coarse.add_(fine, alpha=1 / finer)


class Int8Embedding(nn.Module):
    """Stands in for an `nn.Embedding`: int8 rows with a scale each."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        rows, scales = quantise_rows(embedding.weight.detach())
        self._rows = nn.Parameter(rows, requires_grad=False)
        self._scales = nn.Parameter(scales[:, None], requires_grad=False)

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Map ids `[n]` to float32 rows `[n, dim]`."""
        return self._rows[token_ids] * self._scales[token_ids]


def quantise_rows(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return int8 `[out, in]` and float32 scales `[out]` whose product is close to `weight`."""
    scales = torch.linalg.vector_norm(weight.float(), torch.inf, 1).clamp_(min=_TINY) / 127
    rows = torch.empty(weight.shape, dtype=torch.int8)
    # In parts, as the quotients of a large vocabulary would take hundreds of megabytes.
    parts = (torch.split(whole, _ROWS) for whole in (weight, scales, rows))
    for part, scale, result in zip(*parts, strict=True):
        result.copy_((part / scale[:, None]).round_())
    return rows, scales


def int8_is_supported() -> bool:
    """Whether this torch can multiply int8 matrices on this CPU."""
    return "fbgemm" in torch.backends.quantized.supported_engines


def _pack(weight: torch.Tensor, scales: torch.Tensor) -> Any:
    """Lay int8 rows out as FBGEMM wants them."""
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    torch.backends.quantized.engine = "fbgemm"
    with warnings.catch_warnings():
        # torch announces that its quantised tensors will go; 2.13 has no other way to FBGEMM.
        warnings.simplefilter("ignore", UserWarning)
        rows = torch._make_per_channel_quantized_tensor(weight, scales.double(), zeros, 0)
        return torch.ops.quantized.linear_prepack(rows, None)


def _multiply(rows: torch.Tensor, packed: Any, levels: int) -> torch.Tensor:
    """Round `[n, in]` in [-1, 1] to `2 * levels + 1` levels and multiply."""
    return torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(  # type: ignore[no-any-return]
        rows, 1 / levels, levels + 1, packed
    )


@functools.cache
def _activation_levels() -> int:
    """127; 63 where the CPU adds pairs of products in 16 bits, which overflow with more."""
    largest = torch.full((8, 64), 127, dtype=torch.int8)
    got = _multiply(torch.ones(8, 64), _pack(largest, torch.ones(8)), 127)
    return 127 if bool((got == 127 * 64).all()) else 63
