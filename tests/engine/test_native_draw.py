from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.native_draw import native_draw
from engine.native_library import native_library
from engine.request import SamplingParams
from engine.sampler import exponential_noise, keep_min_p, keep_top_k, keep_top_p, noise_key

CPU = torch.device("cpu")
DRAWS = 100
# Of what is compared, relatively: sums of 50,000 floats in another order, two exponentials and a
# logarithm.
ROUNDING = 2e-5
# Logits this near the least one that top_p keeps may stay or not.
BISECTION = 2e-4
pytestmark = pytest.mark.skipif(native_library() is None, reason="no native kernels here")


def drawn(logits: torch.Tensor, params: list[SamplingParams], positions: list[int]) -> list[int]:
    keys = [noise_key(p.seed, position) for p, position in zip(params, positions, strict=True)]
    ids = native_draw(logits, range(len(logits)), params, keys)
    assert ids is not None
    return ids


def draw_of(row: torch.Tensor, count: int = DRAWS, **settings: Any) -> list[int]:
    """Ids of one row at `count` positions."""
    params = SamplingParams(**{"temperature": 1.0, "seed": 11, **settings})
    return drawn(row.expand(count, -1), [params] * count, list(range(count)))


def weights(logits: torch.Tensor, p: SamplingParams, side: int = 0) -> torch.Tensor:
    """What torch's filters leave of e^logit, `[n, vocab]` in double precision.

    With `side` 1 what top_p nearly keeps stays as well, with -1 only what it keeps for sure.
    """
    count = len(logits)
    logits = (logits - logits.max(-1, keepdim=True).values) / max(p.temperature, 1e-30)
    if p.top_k > 0:
        logits = keep_top_k(logits, [p.top_k] * count)
    if p.top_p < 1:
        kept = keep_top_p(logits, [p.top_p * (1 + side * ROUNDING)] * count)
        least = kept.masked_fill(kept.isneginf(), 0).min(-1, keepdim=True).values
        logits = logits.masked_fill((logits < least - side * BISECTION) & (logits < 0), -torch.inf)
    if p.min_p > 0:
        logits = keep_min_p(logits, [p.min_p] * count)
    return logits.double().exp()


CASES = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([1e-45, 0.1, 0.7, 1.0, 1.3, 5.0, 1e30]),
        "top_k": st.sampled_from([0, 0, 1, 2, 40, 999, 1_000_000]),
        "top_p": st.sampled_from([1.0, 1.0, 0.0, 1e-9, 0.3, 0.9, 0.99]),
        "min_p": st.sampled_from([0.0, 0.0, 1e-4, 0.05, 0.5, 1.0]),
        "seed": st.integers(-(2**63), 2**64 - 1),
    }
)


@settings(max_examples=80, deadline=None)
@given(
    case=CASES,
    vocab=st.sampled_from([1, 2, 15, 16, 17, 1000, 5003]),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 4.0]),
    hidden=st.sampled_from([0.0, 0.5, 0.99]),
    number=st.integers(0, 2**32),
)
def test_it_draws_as_torch_does_but_for_rounding(
    case: dict[str, Any], vocab: int, spread: float, hidden: float, number: int
) -> None:
    generator = torch.Generator().manual_seed(number)
    logits = spread * torch.randn(DRAWS, vocab, generator=generator) + 10
    logits[torch.rand(logits.shape, generator=generator) < hidden] = -torch.inf
    logits[:, -1] = 10.0
    params, positions = SamplingParams(**case), list(range(DRAWS))
    ids = torch.tensor(drawn(logits, [params] * DRAWS, positions))[:, None]
    noise = exponential_noise([params.seed] * DRAWS, positions, vocab, CPU).double()
    loose, strict = (weights(logits, params, side) / noise for side in (1, -1))
    won, best = loose.gather(-1, ids)[:, 0], strict.max(-1).values
    assert (won >= best * (1 - ROUNDING)).all()


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, {0, 1, 2, 3, 5, 6}),
        ({"top_k": 1}, {2}),
        ({"top_k": 2}, {1, 2, 5}),
        ({"top_k": 3}, {1, 2, 5}),
        ({"top_k": 4}, {1, 2, 3, 5}),
        ({"top_k": 6}, {0, 1, 2, 3, 5, 6}),
        ({"top_k": 8}, {0, 1, 2, 3, 5, 6}),
        ({"top_k": 2**40}, {0, 1, 2, 3, 5, 6}),
        ({"top_p": 0.0}, {2}),
        ({"top_p": 0.29}, {2}),
        ({"top_p": 0.31}, {1, 2, 5}),
        ({"top_p": 0.71}, {1, 2, 3, 5}),
        ({"top_p": 0.84}, {1, 2, 3, 5}),
        ({"top_p": 0.86}, {0, 1, 2, 3, 5, 6}),
        ({"min_p": 1.0}, {2}),
        ({"min_p": 0.6}, {1, 2, 5}),
        ({"min_p": 0.5}, {1, 2, 3, 5}),
        ({"min_p": 0.2}, {0, 1, 2, 3, 5, 6}),
        ({"top_k": 4, "top_p": 0.34}, {2}),
        ({"top_k": 4, "top_p": 0.36}, {1, 2, 5}),
        ({"top_p": 0.95, "min_p": 0.55}, {1, 2, 5}),
        ({"temperature": 1e-30}, {2}),
        ({"temperature": 1e-45}, {2}),
        ({"temperature": 1e30, "top_k": 3}, {1, 2, 5}),
        ({"temperature": 0.25, "top_p": 0.7}, {1, 2, 5}),
    ],
)
def test_filters_keep_what_torch_keeps(settings: dict[str, Any], kept: set[int]) -> None:
    # Two pairs are equal, and a grammar has hidden two.
    row = torch.tensor([0.075, 0.2, 0.3, 0.15, 0.0, 0.2, 0.075, 0.0]).log()
    assert set(draw_of(row, 2000, **settings)) == kept
    by_torch = weights(row[None], SamplingParams(**{"temperature": 1.0, **settings}))[0]
    assert set(by_torch.nonzero().flatten().tolist()) == kept


@pytest.mark.parametrize("top_k", [1, 3, 100, 1000, 20_000, 49_151])
def test_top_k_of_a_long_row_is_exact(top_k: int) -> None:
    row = torch.randn(49_152, generator=torch.Generator().manual_seed(3))
    allowed = set(row.argsort(descending=True)[:top_k].tolist())
    ids = draw_of(row, 300, temperature=1e6, top_k=top_k)
    assert set(ids) <= allowed
    assert len(set(ids)) > min(top_k, 300) / 2


@pytest.mark.parametrize("settings", [{}, {"top_k": 3}, {"top_p": 0.2}, {"min_p": 0.5}])
@pytest.mark.parametrize("temperature", [1e-45, 1.0, 1e30])
def test_the_one_allowed_id_is_drawn(settings: dict[str, Any], temperature: float) -> None:
    row = torch.full((100,), -torch.inf)
    row[98] = -7.0
    assert set(draw_of(row, temperature=temperature, **settings)) == {98}


@pytest.mark.parametrize(
    ("row", "drawn"), [([1.0, torch.inf, 2.0], 1), ([torch.nan] * 3, 0), ([-torch.inf] * 3, 0)]
)
def test_rows_that_are_no_numbers_give_an_id_all_the_same(row: list[float], drawn: int) -> None:
    for more in ({}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.5}):
        assert set(draw_of(torch.tensor(row), 3, **more)) == {drawn}


def test_draws_follow_the_probabilities() -> None:
    # 40 ids in 3 vectors, so that winners come from each of them and from the rest.
    probs = torch.rand(40, generator=torch.Generator().manual_seed(1)).double()
    probs /= probs.sum()
    count = 40_000
    observed = torch.tensor(draw_of(probs.float().log(), count)).bincount(minlength=40)
    chi_square = ((observed - count * probs) ** 2 / (count * probs)).sum()
    # The 99.9th percentile of chi-square with 39 degrees of freedom.
    assert chi_square < 72.1


def test_improbable_ids_keep_their_share_in_a_long_row() -> None:
    # One id has half of the mass, 50,000 share the rest: skipping must not lose any.
    row = torch.zeros(50_001)
    row[7] = torch.tensor(50_000.0).log()
    ids = torch.tensor(draw_of(row, 4000))
    assert abs((ids == 7).float().mean() - 0.5) < 0.03
    assert abs(ids[ids != 7].float().mean() / 25_000 - 1) < 0.05


@pytest.mark.usefixtures("threads")
def test_row_draws_the_same_alone_and_beside_others() -> None:
    logits, positions = 3 * torch.randn(9, 3001), list(range(9))
    params = [
        SamplingParams(temperature=0.8, top_p=1 - n / 20, top_k=n * 50, seed=n) for n in range(9)
    ]
    together = drawn(logits, params, positions)
    for row in range(9):
        assert drawn(logits[row : row + 1], params[row : row + 1], [row]) == [together[row]]


def test_only_the_rows_asked_for_are_drawn_and_logits_stay() -> None:
    logits = torch.full((4, 20), -1e4)
    for row in range(4):
        logits[row, 5 + row] = 0
    before = logits.clone()
    params = [SamplingParams(temperature=1.0)] * 2
    assert native_draw(logits, [3, 1], params, [1, 2]) == [8, 6]
    assert logits.equal(before)


@pytest.mark.parametrize("logits", [torch.zeros(2, 8, dtype=torch.bfloat16), torch.zeros(8, 2).t()])
def test_logits_of_another_kind_are_left_to_torch(logits: torch.Tensor) -> None:
    assert native_draw(logits, [0], [SamplingParams(temperature=1.0)], [1]) is None
