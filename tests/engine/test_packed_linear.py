from __future__ import annotations

import platform

import pytest
import torch
from torch import nn

from engine.packed_linear import PackedLinear, pack_linears
from tests.engine.tiny_models import tiny_model


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 8, 70])
@torch.inference_mode()
def test_packed_layer_computes_what_the_plain_one_does(bias: bool, rows: int) -> None:
    linear = nn.Linear(48, 33, bias=bias)
    inputs = torch.randn(2, rows, 48)
    torch.testing.assert_close(PackedLinear(linear)(inputs), linear(inputs), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("width", [576, 1536, 4096])
@torch.inference_mode()
def test_row_does_not_depend_on_its_batch_mates(width: int) -> None:
    packed = PackedLinear(nn.Linear(width, 192))
    inputs = torch.randn(16, width)
    together = packed(inputs)
    for row in range(16):
        assert packed(inputs[row : row + 1]).equal(together[row : row + 1])


def test_weight_can_still_be_read() -> None:
    linear = nn.Linear(5, 7)
    assert PackedLinear(linear).weight.equal(linear.weight.detach())


@torch.inference_mode()
def test_packed_model_keeps_its_logits() -> None:
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    model = tiny_model("llama")
    expected = model(input_ids=ids).logits
    pack_linears(model)
    assert not any(type(module) is nn.Linear for module in model.modules())
    torch.testing.assert_close(model(input_ids=ids).logits, expected, atol=1e-4, rtol=1e-4)


def test_other_precisions_are_left_alone() -> None:
    model = tiny_model("llama").to(torch.bfloat16)
    pack_linears(model)
    assert not any(isinstance(module, PackedLinear) for module in model.modules())


def test_other_machines_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    model = tiny_model("llama")
    pack_linears(model)
    assert not any(isinstance(module, PackedLinear) for module in model.modules())
