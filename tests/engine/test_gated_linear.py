from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine import gated_linear as module
from engine.gated_linear import GatedLinear
from engine.native_library import native_library

needs_native = pytest.mark.skipif(native_library() is None, reason="no native kernels here")


def expected(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.double().chunk(2, -1)
    return (F.silu(gate) * up).to(gate_up.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [3, 16, 100])
def test_gates_and_multiplies(width: int, dtype: torch.dtype) -> None:
    gate_up = (10 * torch.randn(5, 2 * width)).to(dtype)
    got = GatedLinear(nn.Identity())(gate_up)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(got, expected(gate_up), atol=tolerance, rtol=tolerance)


def test_without_the_native_kernel_torch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "native_library", lambda: None)
    gate_up = torch.randn(5, 14)
    torch.testing.assert_close(GatedLinear(nn.Identity())(gate_up), expected(gate_up))


def test_gates_far_from_zero_are_nothing_or_all() -> None:
    gate_up = torch.tensor([[-1e4, -88.5, 88.5, 1e4, 1.0, 1.0, 1.0, 1.0]])
    got = GatedLinear(nn.Identity())(gate_up)
    torch.testing.assert_close(got, torch.tensor([[0.0, 0.0, 88.5, 1e4]]))


@needs_native
@pytest.mark.usefixtures("threads")
def test_row_does_not_depend_on_its_batch_mates() -> None:
    gate_up, gated = torch.randn(613, 2 * 1000), GatedLinear(nn.Identity())
    together = gated(gate_up)
    for first, last in [(0, 1), (1, 613), (5, 9), (300, 303)]:
        assert gated(gate_up[first:last]).equal(together[first:last])
