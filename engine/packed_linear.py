"""Linear layers for small batches on x86: weights reordered once into oneDNN's blocked layout.

Half the time at 2 to 16 rows, and less at every other number: `python -m bench.linears`, whose
table is in `engine/int8_linear.py`. A row's result does not depend on the other rows, which
`torch.nn.functional.linear` does not grant.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import nn
from transformers import PreTrainedModel

from engine.allocator import release_pages

# oneDNN picks the layout for this many rows.
_ROWS = 8
# Of a longer row that is alone oneDNN adds the products in another order than among others, so it
# gets a companion.
_LONG = 1024


class PackedLinear(nn.Module):
    """Stands in for an `nn.Linear` of float32 weights on the CPU, without gradients."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.packed_count, self.packed_bytes = linear.weight.numel(), linear.weight.nbytes
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)

    @property
    def weight(self) -> torch.Tensor:
        """A plain copy `[out, in]`, for the rare class that reads the weight itself."""
        return self._packed.to_dense()  # type: ignore[no-any-return]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map `[..., in]` to `[..., out]`."""
        if inputs.numel() == self.in_features > _LONG:
            return self._multiply(inputs.flatten().expand(2, -1))[0].view(*inputs.shape[:-1], -1)
        return self._multiply(inputs)

    def _multiply(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise(  # type: ignore[no-any-return]
            inputs, self._packed, self.bias, "none", [], ""
        )


def pack_linear(linear: nn.Linear) -> nn.Module:
    """Give a packed layer where that pays, else the same one."""
    on_cpu = linear.weight.device.type == "cpu"
    return PackedLinear(linear) if on_cpu and _is_supported() and _is_packable(linear) else linear


@torch.no_grad()
def pack_linears(model: PreTrainedModel) -> None:
    """Replace the model's linear layers in place where that pays; elsewhere do nothing."""
    if not _is_supported() or model.device.type != "cpu":
        return
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if _is_packable(child):
                setattr(parent, name, PackedLinear(child))
                release_pages()
    # What is left may be views of the mapped weights file: a copy lets go of the whole mapping.
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """How many weights lie in memory, and their bytes.

    A weight with two names counts once, or twice where it is stored twice.
    """

    count: int
    nbytes: int

    @property
    def bits_per_weight(self) -> float:
        """What one takes on average, scales included."""
        return 8 * self.nbytes / self.count if self.count else 0.0

    def __add__(self, other: StoredWeights) -> StoredWeights:
        return StoredWeights(self.count + other.count, self.nbytes + other.nbytes)


def stored_weights(modules: Iterable[nn.Module]) -> StoredWeights:
    """Count the weights of modules, packed ones as they are packed."""
    parts = [part for module in modules for part in module.modules()]
    tensors = {t.data_ptr(): t for part in parts for t in part.parameters(recurse=False)}
    return StoredWeights(
        count=sum(t.numel() for t in tensors.values()) + _packed(parts, "packed_count"),
        nbytes=sum(t.nbytes for t in tensors.values()) + _packed(parts, "packed_bytes"),
    )


def _packed(parts: Iterable[nn.Module], what: str) -> int:
    return sum(getattr(part, what, 0) for part in parts)


def _is_supported() -> bool:
    on_x86 = platform.machine() in ("x86_64", "AMD64")
    return on_x86 and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def _is_packable(module: nn.Module) -> TypeGuard[nn.Linear]:
    # Subclasses (adapters, quantised layers) compute something else.
    if type(module) is not nn.Linear or module._forward_hooks or module._forward_pre_hooks:
        return False
    weight = module.weight
    return weight.device.type == "cpu" and weight.dtype == torch.float32
