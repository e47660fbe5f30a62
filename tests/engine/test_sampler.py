from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from engine.constraint import Mask
from engine.request import SamplingParams
from engine.sampler import (
    Sampler,
    exponential_noise,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    penalise,
)

CPU = torch.device("cpu")
VOCAB = 50


@pytest.fixture(autouse=True, params=["native", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw by the kernel, where there is one, then by torch."""
    if request.param == "torch":
        monkeypatch.setattr("engine.sampler.native_draw", lambda *_: None)


def logits(rows: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


def sampler(*params: SamplingParams, prompt: tuple[int, ...] = (1,), vocab: int = VOCAB) -> Sampler:
    s = Sampler(len(params), vocab, CPU)
    for slot, p in enumerate(params):
        s.begin(slot, p, prompt)
    return s


def draws(probs: list[float], count: int, **settings: Any) -> torch.Tensor:
    """Frequencies of `count` draws at different positions."""
    params = SamplingParams(**{"temperature": 1.0, "seed": 5, **settings})
    s = sampler(params, vocab=len(probs))
    rows = torch.tensor(probs).log().expand(count, -1)
    ids = s.sample(rows, [0] * count, list(range(count)))
    return ids.bincount(minlength=len(probs)) / count


def mask_of(*ids: int, vocab: int = VOCAB) -> Mask:
    bits = np.zeros((vocab + 31) // 32 * 32, np.uint8)
    bits[list(ids)] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)


def kept(filtered: torch.Tensor) -> list[set[int]]:
    return [set(row.isfinite().nonzero().flatten().tolist()) for row in filtered]


def nucleus(row: torch.Tensor, top_p: float) -> set[int]:
    chosen: set[int] = set()
    mass = 0.0
    for token in row.argsort(descending=True).tolist():
        chosen.add(token)
        mass += row.double().softmax(-1)[token].item()
        if mass >= top_p:
            break
    return chosen


def test_greedy_rows_are_the_argmax_and_draw_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.sampler._draw", None)
    rows = logits(3)
    s = sampler(*[SamplingParams()] * 3)
    assert s.sample(rows, [0, 1, 2], [4, 5, 6]).tolist() == rows.argmax(-1).tolist()


def test_draws_follow_the_probabilities() -> None:
    probs = [0.5, 0.25, 0.15, 0.07, 0.03]
    count = 20_000
    observed, expected = draws(probs, count), torch.tensor(probs)
    chi_square = (count * (observed - expected) ** 2 / expected).sum()
    # The 99.9th percentile of chi-square with 4 degrees of freedom.
    assert chi_square < 18.5


def test_draws_of_neighbouring_seeds_are_independent() -> None:
    count = 4000
    rows = torch.zeros(count, 2)
    s = sampler(SamplingParams(temperature=1.0, seed=1), SamplingParams(temperature=1.0, seed=2))
    positions = list(range(count))
    first, second = (s.sample(rows, [slot] * count, positions) for slot in (0, 1))
    assert abs((first == second).float().mean() - 0.5) < 0.04
    assert abs((first[1:] == first[:-1]).float().mean() - 0.5) < 0.04


def test_temperature_sharpens_the_distribution() -> None:
    observed = draws([0.6, 0.3, 0.1], 10_000, temperature=0.5)
    expected = torch.tensor([0.36, 0.09, 0.01]) / 0.46
    assert (observed - expected).abs().max() < 0.02


@pytest.mark.parametrize("temperature", [1e-6, 1e-45])
def test_tiny_temperature_is_greedy(temperature: float) -> None:
    assert draws([0.2, 0.5, 0.3], 200, temperature=temperature).tolist() == [0, 1, 0]


def test_filters_leave_only_what_they_keep() -> None:
    probs = [0.4, 0.3, 0.2, 0.06, 0.04]
    assert draws(probs, 2000, top_k=2)[2:].sum() == 0
    assert draws(probs, 2000, top_p=0.65)[2:].sum() == 0
    assert draws(probs, 2000, min_p=0.45)[3:].sum() == 0
    assert draws(probs, 2000, top_k=4, top_p=0.95, min_p=0.1)[4:].sum() == 0
    assert (draws(probs, 2000, top_k=5) > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_top_k_keeps_the_k_largest_of_each_row(seed: int) -> None:
    rows, sizes = logits(seed=seed), [1, 2, 7, 49, 50, 1000]
    expected = [
        set(row.argsort(descending=True)[:k].tolist()) for row, k in zip(rows, sizes, strict=True)
    ]
    assert kept(keep_top_k(rows, sizes)) == expected


@pytest.mark.parametrize("seed", range(5))
def test_top_p_keeps_the_smallest_nucleus_of_each_row(seed: int) -> None:
    rows, masses = logits(seed=seed), [1e-9, 0.1, 0.5, 0.9, 0.99, 0.999]
    expected = [nucleus(row, p) for row, p in zip(rows, masses, strict=True)]
    assert kept(keep_top_p(rows, masses)) == expected


@pytest.mark.parametrize("seed", range(5))
def test_min_p_keeps_tokens_near_the_likeliest(seed: int) -> None:
    rows, floors = logits(seed=seed), [1.0, 0.5, 0.1, 0.05, 0.01, 1e-6]
    expected = []
    for row, floor in zip(rows.double().softmax(-1), floors, strict=True):
        expected.append(set((row >= floor * row.max() * (1 - 1e-6)).nonzero().flatten().tolist()))
    assert kept(keep_min_p(rows, floors)) == expected


def test_penalties_follow_their_definitions() -> None:
    rows = torch.tensor([[2.0, -2.0, 1.0, 3.0]])
    seen = torch.tensor([[True, True, False, True]])
    counts = torch.tensor([[0.0, 2.0, 0.0, 1.0]])
    params = SamplingParams(repetition_penalty=2.0, frequency_penalty=0.5, presence_penalty=0.25)
    expected = [[1.0, -4.0 - 1.0 - 0.25, 1.0, 1.5 - 0.5 - 0.25]]
    assert penalise(rows, [params], seen, counts).tolist() == expected


def test_repetition_counts_the_prompt_but_frequency_and_presence_do_not() -> None:
    rows = torch.zeros(1, VOCAB)
    rows[0, 1], rows[0, 2] = 1.0, 0.9
    repetition = sampler(SamplingParams(repetition_penalty=2.0))
    frequency = sampler(SamplingParams(frequency_penalty=0.2))
    presence = sampler(SamplingParams(presence_penalty=0.2))
    assert repetition.sample(rows.clone(), [0], [1]).tolist() == [2]
    for answer_only in (frequency, presence):
        answer = [answer_only.sample(rows.clone(), [0], [p]).item() for p in range(3)]
        assert answer[:2] == [1, 2]


def test_penalties_are_forgotten_when_a_slot_begins_anew() -> None:
    params = SamplingParams(presence_penalty=1.9)
    s = sampler(params, params)
    rows = torch.zeros(1, VOCAB)
    rows[0, 3] = 1.0
    assert s.sample(rows.clone(), [1], [1]).item() == 3
    assert s.sample(rows.clone(), [1], [2]).item() != 3
    s.begin(1, params, (1,))
    assert s.sample(rows.clone(), [1], [1]).item() == 3


def test_penalised_row_leaves_its_neighbours_alone() -> None:
    rows = logits(2)
    s = sampler(SamplingParams(), SamplingParams(repetition_penalty=5.0), prompt=tuple(range(40)))
    assert s.sample(rows.clone(), [0, 1], [1, 1])[0] == rows[0].argmax()


def test_same_seed_draws_the_same_alone_and_in_any_batch() -> None:
    mixed = [
        SamplingParams(),
        SamplingParams(temperature=1.0, seed=9),
        SamplingParams(temperature=0.8, top_p=0.9, seed=-(2**63)),
        SamplingParams(temperature=1.2, top_k=5, presence_penalty=0.5, seed=2**64 - 1),
        SamplingParams(temperature=0.9, min_p=0.1, frequency_penalty=1.0, seed=9),
    ]
    rows = logits(5)
    together = sampler(*mixed).sample(rows, [0, 1, 2, 3, 4], [7, 8, 9, 10, 11])
    shuffled = sampler(*mixed).sample(rows[[4, 2, 0]], [4, 2, 0], [11, 9, 7])
    assert shuffled.tolist() == together[[4, 2, 0]].tolist()
    for slot in range(5):
        alone = sampler(*mixed).sample(rows[slot : slot + 1], [slot], [7 + slot])
        assert alone.item() == together[slot]


def test_noise_depends_on_seed_position_and_token_alone() -> None:
    noise = exponential_noise([3, 3, 4], [1, 2, 1], 1000, CPU)
    assert noise[1].equal(exponential_noise([3], [2], 1000, CPU)[0])
    assert noise[:, :10].equal(exponential_noise([3, 3, 4], [1, 2, 1], 10, CPU))
    assert len({tuple(row[:5].tolist()) for row in noise}) == 3


def test_noise_is_exponential_finite_and_never_zero() -> None:
    noise = exponential_noise(list(range(40)), [7] * 40, 5000, CPU)
    assert noise.isfinite().all()
    assert (noise > 0).all()
    assert abs(noise.mean() - 1) < 0.01
    assert abs(noise.var() - 1) < 0.03
    for quantile in (0.1, 0.5, 0.9):
        expected = -torch.log1p(torch.tensor(-quantile))
        assert abs((noise < expected).float().mean() - quantile) < 0.005


@pytest.mark.parametrize("seed", [-(2**63), -1, 0, 2**63, 2**64 - 1])
def test_every_allowed_seed_works(seed: int) -> None:
    assert exponential_noise([seed], [0], 10, CPU).isfinite().all()


@pytest.mark.parametrize("temperature", [0.0, 0.7, 50.0])
@pytest.mark.parametrize("more", [{}, {"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.3}])
def test_masked_rows_get_an_allowed_id_and_the_others_what_they_get_anyway(
    temperature: float, more: dict[str, Any]
) -> None:
    params = [SamplingParams(temperature=temperature, seed=n, **more) for n in range(6)]
    free = sampler(*params).sample(logits(), list(range(6)), [7] * 6).tolist()
    masks = {1: mask_of(0, 31), 4: mask_of(32, 49)}
    ids = sampler(*params).sample(logits(), list(range(6)), [7] * 6, masks).tolist()
    assert ids[1] in (0, 31)
    assert ids[4] in (32, 49)
    assert [ids[row] for row in (0, 2, 3, 5)] == [free[row] for row in (0, 2, 3, 5)]


def test_mask_that_allows_the_id_chosen_anyway_changes_nothing() -> None:
    params = [SamplingParams(temperature=1.0, seed=n) for n in range(6)]
    free = sampler(*params).sample(logits(), list(range(6)), [7] * 6).tolist()
    masks = {row: mask_of(token_id, 3, 17) for row, token_id in enumerate(free)}
    assert sampler(*params).sample(logits(), list(range(6)), [7] * 6, masks).tolist() == free


def test_draws_under_a_mask_keep_the_proportions_of_what_is_allowed() -> None:
    probs, count = torch.tensor([0.1, 0.5, 0.1, 0.3]), 4000
    s = sampler(SamplingParams(temperature=1.0, seed=5), vocab=4)
    masks = {row: mask_of(0, 3, vocab=4) for row in range(count)}
    ids = s.sample(probs.log().repeat(count, 1), [0] * count, list(range(count)), masks)
    assert (ids.bincount(minlength=4) / count).tolist() == pytest.approx(
        [0.25, 0, 0, 0.75], abs=0.03
    )


def test_mask_holds_over_penalties() -> None:
    s = sampler(SamplingParams(presence_penalty=2.0, repetition_penalty=1.3), prompt=(4,))
    for position in range(3):
        assert s.sample(logits(1), [0], [position], {0: mask_of(4)}).tolist() == [4]
