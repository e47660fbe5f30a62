from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from engine.int8_linear import Int8Linear, quantise_rows
from engine.native_linear import Inputs, NativeInt8Linear, native_int8

LIBRARY = native_int8()
pytestmark = [
    pytest.mark.skipif(LIBRARY is None, reason="no C++ compiler or another CPU"),
    pytest.mark.usefixtures("threads"),
]
SHAPES = [(576, 960), (1536, 576), (48, 33), (575, 577), (5, 3)]
EPSILON = 1e-5


def native(
    linear: nn.Linear, inputs: Inputs = Inputs.PLAIN, adds: bool = False
) -> NativeInt8Linear:
    assert LIBRARY
    return NativeInt8Linear(LIBRARY, linear, inputs, EPSILON, adds)


def outlying(rows: int, width: int) -> torch.Tensor:
    """Rows of very different sizes, one channel of each far above the rest."""
    inputs = torch.randn(rows, width) * 10 ** torch.linspace(-3, 3, rows)[:, None]
    inputs[:, width // 3] *= 20
    return inputs


def gated(inputs: torch.Tensor) -> torch.Tensor:
    gate, up = inputs.chunk(2, -1)
    return F.silu(gate) * up


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 40),
    width=st.integers(1, 150),
    outputs=st.integers(1, 70),
    seed=st.integers(0),
)
@torch.inference_mode()
def test_products_are_summed_exactly(rows: int, width: int, outputs: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed % 2**63)
    levels = torch.randint(-127, 128, (rows, width), generator=generator)
    levels[:, 0] = 127
    weights = torch.randint(-127, 128, (outputs, width), generator=generator)
    weights[:, 0] = -127
    linear = nn.Linear(width, outputs, bias=False)
    # Scales of exactly one on both sides: what comes out is the sum itself.
    linear.weight.copy_(weights)
    got = native(linear)(levels.float())
    torch.testing.assert_close(got.double(), (levels @ weights.T).double(), rtol=3e-7, atol=0)


@pytest.mark.parametrize("sign", [-1, 1])
@torch.inference_mode()
def test_largest_products_do_not_overflow(sign: int) -> None:
    linear = nn.Linear(4096, 40, bias=False)
    linear.weight.fill_(127)
    got = native(linear)(torch.full((13, 4096), 127.0 * sign))
    assert got.equal(torch.full_like(got, sign * 4096.0 * 127 * 127))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("width", "outputs"), SHAPES)
@torch.inference_mode()
def test_result_is_that_of_fbgemm_to_the_bit(width: int, outputs: int, bias: bool) -> None:
    linear = nn.Linear(width, outputs, bias=bias)
    fallback = Int8Linear(linear)
    if fallback._levels != 127:
        pytest.skip("FBGEMM rounds to fewer levels on this CPU")
    inputs = outlying(300, width)
    assert native(linear)(inputs).equal(fallback(inputs))


@pytest.mark.parametrize("kind", Inputs)
@pytest.mark.parametrize(("width", "outputs"), SHAPES)
@torch.inference_mode()
def test_row_is_bit_for_bit_the_same_alone_among_others_and_in_chunks(
    width: int, outputs: int, kind: Inputs
) -> None:
    layer = native(nn.Linear(width, outputs), kind)
    inputs = outlying(256, width * (2 if kind == Inputs.GATED else 1))
    torch_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    whole = layer(inputs)
    torch.set_num_threads(torch_threads)
    for rows in (*range(1, 15), 31, 64, 100):
        for start in (0, 37, 150):
            part = slice(start, start + rows)
            assert layer(inputs[part]).equal(whole[part])


@pytest.mark.parametrize(("width", "outputs"), SHAPES)
@torch.inference_mode()
def test_norm_is_rms_norm_without_weights(width: int, outputs: int) -> None:
    linear = nn.Linear(width, outputs)
    inputs = torch.randn(20, width) * 10 ** torch.linspace(-3, 3, 20)[:, None]
    expected = native(linear)(F.rms_norm(inputs, (width,), eps=EPSILON))
    torch.testing.assert_close(native(linear, Inputs.NORMED)(inputs), expected, rtol=0, atol=2e-2)
    error = (native(linear, Inputs.NORMED)(inputs) - expected).norm()
    assert error < 1e-3 * expected.norm()


@pytest.mark.parametrize("peak", [1, 1000])
@torch.inference_mode()
def test_gate_is_that_of_swiglu_and_an_outlier_spoils_its_neighbours_alone(peak: float) -> None:
    linear = nn.Linear(512, 64, bias=False)
    linear.weight[:, :32] = 0
    rows, scales = quantise_rows(linear.weight)
    inputs = torch.randn(20, 1024) * 3
    inputs[:, 3] = 5.0
    inputs[:, 512 + 3] *= peak
    expected = gated(inputs) @ (rows * scales[:, None]).T
    error = (native(linear, Inputs.GATED)(inputs) - expected).norm()
    assert error < 0.01 * expected.norm()


@torch.inference_mode()
def test_gate_holds_over_the_whole_range_of_numbers() -> None:
    linear = nn.Linear(1, 1, bias=False)
    linear.weight.fill_(1)
    gates = torch.cat((torch.linspace(-110, 110, 5001), torch.tensor([0.0, 1e-38, -1e-38, 1e30])))
    inputs = torch.stack((gates, torch.ones_like(gates)), 1)
    expected = F.silu(gates.double()).float()
    torch.testing.assert_close(
        native(linear, Inputs.GATED)(inputs)[:, 0], expected, rtol=1e-6, atol=1e-35
    )


@pytest.mark.parametrize("kind", Inputs)
@torch.inference_mode()
def test_result_is_added_to_the_hidden_state(kind: Inputs) -> None:
    linear = nn.Linear(48, 33)
    inputs = torch.randn(20, 96 if kind == Inputs.GATED else 48)
    hidden = torch.randn(20, 33)
    expected = hidden + native(linear, kind)(inputs)
    assert native(linear, kind, adds=True)(inputs, hidden) is hidden
    torch.testing.assert_close(hidden, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", Inputs)
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@torch.inference_mode()
def test_number_that_is_none_stays_in_its_row(odd: float, kind: Inputs) -> None:
    layer = native(nn.Linear(48, 33), kind)
    inputs = torch.randn(20, 96 if kind == Inputs.GATED else 48)
    expected = layer(inputs)
    inputs[7, 3] = odd
    got = layer(inputs)
    assert not got[7].isfinite().all()
    others = [row for row in range(20) if row != 7]
    assert got[others].equal(expected[others])


@pytest.mark.parametrize("kind", Inputs)
@torch.inference_mode()
def test_row_of_zeros_gives_the_bias(kind: Inputs) -> None:
    linear = nn.Linear(8, 5)
    inputs = torch.zeros(2, 16 if kind == Inputs.GATED else 8)
    assert native(linear, kind)(inputs).equal(linear.bias.expand(2, -1))


@torch.inference_mode()
def test_rows_that_do_not_lie_together_and_no_rows_are_taken() -> None:
    layer = native(nn.Linear(8, 5))
    inputs = torch.randn(8, 6).T
    assert layer(inputs).equal(layer(inputs.contiguous()))
    assert layer(inputs[:0]).shape == (0, 5)


@torch.inference_mode()
def test_packed_bytes_are_a_byte_for_each_weight_and_a_scale_for_each_output() -> None:
    assert native(nn.Linear(48, 64)).packed_bytes == 48 * 64 + 4 * 64


@torch.inference_mode()
def test_outputs_are_padded_to_whole_panels_and_that_is_counted() -> None:
    layer = native(nn.Linear(48, 33, bias=False))
    assert layer.packed_count == 48 * 33
    assert 48 * 33 < layer.packed_bytes - 4 * 33 <= 48 * 64
