from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine.rotation import rotate, rotate_embedding, rotate_inputs, rotate_outputs


@pytest.mark.parametrize("dim", [1, 32, 33, 576])
def test_turn_is_orthogonal(dim: int) -> None:
    turn = rotate(torch.eye(dim))
    torch.testing.assert_close(turn @ turn.T, torch.eye(dim), atol=1e-5, rtol=0)


def test_one_large_channel_is_spread_over_all() -> None:
    row = torch.zeros(1, 576)
    row[0, 17] = 1.0
    assert rotate(row).abs().max() <= 2**0.5 / 24 + 1e-6


@torch.no_grad()
def test_turned_layers_compute_what_the_plain_ones_do() -> None:
    embedding, writer = nn.Embedding(7, 33), nn.Linear(12, 33)
    reader, norm = nn.Linear(33, 20), torch.rand(33) + 0.5
    ids, inputs = torch.tensor([2, 6]), torch.randn(2, 12)

    expected = reader(F.rms_norm(embedding(ids) + writer(inputs), (33,), norm, 1e-6))
    hidden = rotate_embedding(embedding)(ids) + rotate_outputs(writer)(inputs)
    got = rotate_inputs(reader, norm)(F.rms_norm(hidden, (33,), None, 1e-6))
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
