from __future__ import annotations

import pytest
import torch
from torch import nn

from engine.int8_linear import Int8Embedding, Int8Linear, int8_is_supported, quantise_rows

pytestmark = pytest.mark.skipif(not int8_is_supported(), reason="torch has no FBGEMM here")
SHAPES = [(576, 960), (1536, 576), (48, 33), (575, 577)]


def outlying(rows: int, width: int) -> torch.Tensor:
    """Rows of very different sizes, one channel of each far above the rest."""
    inputs = torch.randn(rows, width) * 10 ** torch.linspace(-3, 3, rows)[:, None]
    inputs[:, 3] *= 20
    return inputs


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize(("width", "outputs"), SHAPES)
@torch.inference_mode()
def test_row_is_bit_for_bit_the_same_alone_among_others_and_in_chunks(
    width: int, outputs: int, fine: bool
) -> None:
    layer = Int8Linear(nn.Linear(width, outputs), fine)
    inputs = outlying(256, width)
    whole = layer(inputs)
    for rows in (1, 2, 3, 7, 16, 31, 64, 100):
        for start in (0, 37, 150):
            part = slice(start, start + rows)
            assert layer(inputs[part]).equal(whole[part])


@pytest.mark.parametrize(("width", "outputs"), SHAPES)
@torch.inference_mode()
def test_products_are_summed_exactly(width: int, outputs: int) -> None:
    linear = nn.Linear(width, outputs, bias=False)
    layer = Int8Linear(linear)
    levels = layer._levels
    inputs = torch.randint(-levels, levels + 1, (9, width)).float()
    inputs[:, 0] = levels
    rows, scales = quantise_rows(linear.weight)
    expected = (inputs.double() @ rows.double().T) * scales.double()
    torch.testing.assert_close(layer(inputs).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("fine", "error"), [(False, 0.02), (True, 0.01)])
@torch.inference_mode()
def test_result_is_close_to_the_unrounded_one(bias: bool, fine: bool, error: float) -> None:
    linear = nn.Linear(576, 192, bias=bias)
    inputs = torch.randn(20, 576)
    expected = linear(inputs)
    got = Int8Linear(linear, fine)(inputs)
    assert (got - expected).norm() < error * expected.norm()


@torch.inference_mode()
def test_fine_layer_rounds_outlying_activations_less() -> None:
    linear = nn.Linear(576, 192)
    inputs = outlying(20, 576)
    rows, scales = quantise_rows(linear.weight)
    expected = inputs @ (rows * scales[:, None]).T + linear.bias
    error, coarse = ((Int8Linear(linear, f)(inputs) - expected).norm() for f in (True, False))
    assert error < coarse / 50


@torch.inference_mode()
def test_row_of_zeros_gives_the_bias() -> None:
    linear = nn.Linear(8, 5)
    assert Int8Linear(linear)(torch.zeros(2, 8)).equal(linear.bias.expand(2, -1))


@torch.inference_mode()
def test_embedding_row_is_within_half_a_level() -> None:
    embedding = nn.Embedding(11, 16)
    ids = torch.tensor([3, 0, 10])
    expected = embedding(ids)
    levels = expected.abs().amax(1, keepdim=True) / 127
    assert ((Int8Embedding(embedding)(ids) - expected).abs() <= 0.501 * levels).all()


@torch.inference_mode()
def test_packed_bytes_are_a_byte_for_each_weight_and_a_scale_for_each_output() -> None:
    assert Int8Linear(nn.Linear(48, 33)).packed_bytes == 48 * 33 + 4 * 33
