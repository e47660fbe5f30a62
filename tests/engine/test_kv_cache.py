from __future__ import annotations

import itertools

import pytest
import torch

from engine.kv_cache import SlotCache, has_only_attention
from tests.engine.tiny_models import CONFIGS


def cache(name: str = "llama", slots: int = 4, ctx: int = 128) -> SlotCache:
    return SlotCache(CONFIGS[name](), slots, ctx)


def write(kv: SlotCache, slots: list[int], positions: list[list[int]], fill: float) -> torch.Tensor:
    """Store `fill` as keys and values of layer 0; returns the view of the keys."""
    kv.open(slots, torch.tensor(positions), [row[-1] + 1 for row in positions])
    states = torch.full((len(slots), 2, len(positions[0]), 8), fill)
    keys: torch.Tensor
    keys, values = kv.update(states, states + 1, 0)
    torch.testing.assert_close(values[keys != 0], keys[keys != 0] + 1)
    return keys


def test_written_tokens_are_seen_in_a_view_without_a_copy() -> None:
    kv = cache()
    first = write(kv, [1], [[0, 1, 2]], 1.0)
    again = write(kv, [1], [[3]], 2.0)
    assert again[0, 0, :5, 0].tolist() == [1, 1, 1, 2, 0]
    assert first.data_ptr() == again.data_ptr()


def test_rows_of_different_lengths_are_written_at_their_own_positions() -> None:
    kv = cache()
    keys = write(kv, [0, 1, 2], [[4], [0], [2]], 3.0)
    assert [row[0, :, 0].nonzero().item() for row in keys] == [4, 0, 2]


def test_view_ends_at_a_block_and_never_beyond_the_context() -> None:
    kv = cache(ctx=100)
    assert write(kv, [0], [[63]], 1.0).shape == (1, 2, 64, 8)
    assert write(kv, [0], [[64]], 1.0).shape == (1, 2, 128, 8)
    assert write(kv, [0], [[99]], 1.0).shape == (1, 2, 128, 8)


def test_unwritten_tokens_read_as_zero() -> None:
    assert write(cache(), [2], [[5]], 1.0)[0].count_nonzero() == 2 * 8


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_any_choice_of_slots_ends_up_in_neighbouring_rows_with_its_contents(count: int) -> None:
    kv = cache(slots=4)
    for slot in range(4):
        write(kv, [slot], [[0, 1]], 10.0 + slot)
    for slots in itertools.permutations(range(4), count):
        ordered = kv.align(slots)
        assert sorted(ordered) == sorted(slots)
        keys = write(kv, ordered, [[2]] * count, 1.0)
        assert keys[:, 0, 0, 0].tolist() == [10.0 + slot for slot in ordered]


def test_neighbouring_slots_are_not_moved() -> None:
    kv = cache(slots=4)
    assert kv.align([3, 2]) == [2, 3]
    assert kv.align([1]) == [1]
    assert kv._row_of == [0, 1, 2, 3]


def test_mask_hides_what_lies_beyond_each_row() -> None:
    kv = cache()
    masks = kv.masks(kv.open([0, 1], torch.tensor([[2], [4]]), [3, 5]))
    assert masks["full_attention"][:, 0, 0].sum(-1).tolist() == [3, 5]
    assert masks["full_attention"].shape == (2, 1, 1, 64)


def test_prefill_mask_is_causal_from_its_offset() -> None:
    kv = cache()
    mask = kv.masks(kv.open([0], torch.tensor([[3, 4, 5]]), [6]))["full_attention"][0, 0]
    assert [row.nonzero().flatten().tolist() for row in mask] == [
        list(range(4)),
        list(range(5)),
        list(range(6)),
    ]


def test_sliding_mask_keeps_only_the_window() -> None:
    kv = cache("gemma2")
    masks = kv.masks(kv.open([0, 1], torch.tensor([[9], [2]]), [10, 3]))
    rows = masks["sliding_attention"][:, 0, 0]
    assert [row.nonzero().flatten().tolist() for row in rows] == [list(range(4, 10)), [0, 1, 2]]
    assert set(masks) == {"sliding_attention", "full_attention"}


@pytest.mark.parametrize(("name", "fits"), [("llama", True), ("gemma3", True), ("mamba", False)])
def test_only_plain_attention_layers_fit(name: str, fits: bool) -> None:
    assert has_only_attention(CONFIGS[name]()) is fits


def test_memory_is_taken_only_when_written() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    kv = cache(slots=16, ctx=65536)
    before = resident()
    keys = write(kv, [0], [[0]], 1.0)
    keys.sum()
    whole = 2 * 16 * 2 * 65536 * 8 * 4
    assert resident() - before < whole / 8


def test_rows_that_find_no_memory_to_change_places_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kv = cache(slots=3)
    for layer in kv.layers:
        layer.lazy_initialization(torch.zeros(1, 2, 1, 8), torch.zeros(1, 2, 1, 8))
        for room in (layer.keys, layer.values):
            room[:] = torch.arange(3.0)[:, None, None, None]
    kv._lengths = [5, 5, 5]
    clone, calls = torch.Tensor.clone, 0

    def failing(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == 3:  # in the second layer
            raise torch.OutOfMemoryError
        return clone(tensor)

    monkeypatch.setattr(torch.Tensor, "clone", failing)
    with pytest.raises(torch.OutOfMemoryError):
        kv.align([0, 2])
    for slot in range(3):
        assert all((view == slot).all() for view in kv._views(slot, 0, 5))
    kv.align([0, 2])
    for slot in range(3):
        assert all((view == slot).all() for view in kv._views(slot, 0, 5))
