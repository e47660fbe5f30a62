"""How a lean model's weights are stored: as they come, or in int8."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn
from torch.nn import functional as F

from engine.gated_linear import GatedLinear
from engine.int8_linear import Int8Embedding, Int8Linear
from engine.native_linear import Inputs, NativeInt8Linear, native_int8
from engine.packed_linear import pack_linear
from engine.rotation import rotate_embedding, rotate_inputs, rotate_outputs


class WeightFormat(Protocol):
    """Stores an embedding, and the layers that read and write the hidden state."""

    def embedding(self, embedding: nn.Embedding) -> nn.Module:
        """Store the tokens' rows."""

    def reader(self, norm: torch.Tensor, epsilon: float, *parts: nn.Linear) -> nn.Module:
        """Store layers that all read what RMSNorm with weights `norm` `[in]` gives, as one."""

    def writer(self, linear: nn.Linear) -> nn.Module:
        """Store a layer that maps `[n, in]` and adds to a hidden state `[n, out]`, in place."""

    def gated_writer(self, linear: nn.Linear) -> nn.Module:
        """Store such a layer that reads `silu(gate) * up`, given `[gate, up]`."""


class PlainFormat:
    """The weights in their own precision, packed where that pays."""

    def embedding(self, embedding: nn.Embedding) -> nn.Module:
        """Copy the rows on the CPU, as they may lie in a mapped file."""
        weight = embedding.weight
        count, dim = weight.shape
        copy = nn.Embedding(count, dim, device="meta")
        copy.weight = nn.Parameter(weight.clone() if weight.is_cpu else weight, requires_grad=False)
        return copy

    def reader(self, norm: torch.Tensor, epsilon: float, *parts: nn.Linear) -> nn.Module:
        """Join and pack."""
        return NormedLinear(norm.clone(), epsilon, pack_linear(_join(*parts)))

    def writer(self, linear: nn.Linear) -> nn.Module:
        """Pack."""
        return AddedLinear(pack_linear(_join(linear)))

    def gated_writer(self, linear: nn.Linear) -> nn.Module:
        """Pack."""
        return AddedLinear(GatedLinear(pack_linear(_join(linear))))


class Int8Format:
    """Int8, after a turn of the hidden state that makes rounding its channels harmless.

    Multiplied by the native kernel if there is one.
    """

    def __init__(self) -> None:
        self._native = native_int8()

    def embedding(self, embedding: nn.Embedding) -> nn.Module:
        """Turn and round the rows."""
        return Int8Embedding(rotate_embedding(embedding))

    def reader(self, norm: torch.Tensor, epsilon: float, *parts: nn.Linear) -> nn.Module:
        """Take the norm's weights into the layers', turn and round them."""
        turned = rotate_inputs(_join(*parts), norm)
        if self._native:
            return NativeInt8Linear(self._native, turned, Inputs.NORMED, epsilon)
        return NormedLinear(None, epsilon, Int8Linear(turned))

    def writer(self, linear: nn.Linear) -> nn.Module:
        """Turn and round."""
        turned = rotate_outputs(linear)
        if self._native:
            return NativeInt8Linear(self._native, turned, adds=True)
        return AddedLinear(Int8Linear(turned))

    def gated_writer(self, linear: nn.Linear) -> nn.Module:
        """Turn and round; the product has peaks that no turn of the hidden state reaches."""
        turned = rotate_outputs(linear)
        if self._native:
            return NativeInt8Linear(self._native, turned, Inputs.GATED, adds=True)
        return AddedLinear(GatedLinear(Int8Linear(turned, fine=True)))


class NormedLinear(nn.Module):
    """RMSNorm with weights `[in]`, if any, and a linear layer."""

    def __init__(self, norm: torch.Tensor | None, epsilon: float, linear: nn.Module) -> None:
        super().__init__()
        self._norm = None if norm is None else nn.Parameter(norm, requires_grad=False)
        self._epsilon = epsilon
        self._linear = linear

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map `[n, in]` to `[n, out]`."""
        normed = F.rms_norm(hidden, hidden.shape[-1:], self._norm, self._epsilon)
        return self._linear(normed)  # type: ignore[no-any-return]


class AddedLinear(nn.Module):
    """A linear layer whose output is added to the hidden state."""

    def __init__(self, linear: nn.Module) -> None:
        super().__init__()
        self._linear = linear

    def forward(self, inputs: torch.Tensor, hidden: torch.Tensor) -> None:
        """Map `[n, in]` and add to `hidden` `[n, out]`."""
        hidden += self._linear(inputs)


def _join(*parts: nn.Linear) -> nn.Linear:
    """One layer with the outputs of all; on an accelerator the parts become views of it."""
    weights = parts[0].weight if len(parts) == 1 else torch.cat([part.weight for part in parts])
    joined = nn.Linear(weights.shape[1], weights.shape[0], bias=False, device="meta")
    joined.weight = nn.Parameter(weights.detach(), requires_grad=False)
    if parts[0].bias is not None:
        joined.bias = nn.Parameter(torch.cat([part.bias for part in parts]), requires_grad=False)
    if not weights.is_cpu:
        views = torch.split(weights, [part.out_features for part in parts])
        for part, view in zip(parts, views, strict=True):
            part.weight.data = view
    return joined
