"""Turning a model's hidden state so that no channel stands out, which int8 activations need.

A few channels of the hidden state are tens of times as large as the rest, and set the scale of
their row. In a turned basis every channel holds a little of each (Ashkboos et al. 2024, "QuaRot").
RMSNorm only sees lengths, so once its weights are part of the matrices that follow, turning all
matrices that read and write the hidden state leaves the model what it was, at no cost per token.
"""

from __future__ import annotations

import torch
from torch import nn

_ROWS = 4096


def rotate(rows: torch.Tensor, scale: torch.Tensor | float = 1) -> torch.Tensor:
    """Multiply `[n, dim]` by `scale` `[dim]`, then by an orthogonal `[dim, dim]`.

    That is random signs and a Hartley transform.
    """
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, rows.shape[-1:], generator=generator).mul_(2).sub_(1)
    factors = signs * scale
    turned = torch.empty(rows.shape, dtype=torch.float32)
    # In parts, as an embedding's transform would take hundreds of megabytes.
    for part, result in zip(torch.split(rows, _ROWS), torch.split(turned, _ROWS), strict=True):
        result.copy_(_hartley(part.float() * factors))
    return turned


def _hartley(rows: torch.Tensor) -> torch.Tensor:
    waves: torch.Tensor = torch.fft.fft(rows, norm="ortho")
    return waves.real - waves.imag


def rotate_inputs(linear: nn.Linear, norm: torch.Tensor) -> nn.Linear:
    """Let a layer read the turned hidden state, normalised without the weights `norm` `[in]`."""
    return _with(linear, rotate(linear.weight, norm), linear.bias)


def rotate_outputs(linear: nn.Linear) -> nn.Linear:
    """Let a layer write into the turned hidden state."""
    bias = None if linear.bias is None else rotate(linear.bias[None])[0]
    return _with(linear, rotate(linear.weight.T).T.contiguous(), bias)


def rotate_embedding(embedding: nn.Embedding) -> nn.Embedding:
    """Begin with the turned hidden state."""
    count, dim = embedding.weight.shape
    turned = nn.Embedding(count, dim, device="meta")
    turned.weight = nn.Parameter(rotate(embedding.weight), requires_grad=False)
    return turned


def _with(linear: nn.Linear, weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    turned = nn.Linear(linear.in_features, linear.out_features, bias=False, device="meta")
    turned.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        turned.bias = nn.Parameter(bias, requires_grad=False)
    return turned
