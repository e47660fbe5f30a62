from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, MistralConfig

from engine.kv_cache import SlotCache, Window
from engine.lean_attention import Attention, Heads, TorchAttention
from engine.native_attention import NativeAttention
from engine.native_library import native_library

SLOTS = 4
CTX = 320
pytestmark = pytest.mark.skipif(native_library() is None, reason="no native kernels here")


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's inputs for all tokens of all slots."""

    heads: Heads
    kind: str
    window: int
    head_norm: torch.Tensor | None
    joined: torch.Tensor

    def cache(self) -> SlotCache:
        sizes = {"num_hidden_layers": 1, "num_attention_heads": 8, "hidden_size": 64}
        windowed = MistralConfig(sliding_window=self.window, **sizes)
        return SlotCache(windowed if self.window else LlamaConfig(**sizes), SLOTS, CTX)

    def run(self, attention: Attention, cache: SlotCache, rows: list[range]) -> torch.Tensor:
        """Attend with the given tokens, as many in each of the first rows: `[rows, q, -1]`."""
        window = Window(0, CTX, torch.tensor([list(row) for row in rows]))
        cache.layers[0].window = window
        joined = torch.cat([self.joined[slot, list(row)] for slot, row in enumerate(rows)])
        attend = attention.open(cache, window)
        return attend(joined, cache.layers[0], self.kind, self.head_norm).unflatten(
            0, window.positions.shape
        )


def layer(dim: int, kv_heads: int, group: int, window: int = 0, normed: bool = False) -> Layer:
    torch.manual_seed(7)
    count = kv_heads * group
    heads = Heads(count, kv_heads, 1e-6, 1e4 ** -torch.linspace(0, 1, dim // 2), 1.0)
    joined = torch.randn(SLOTS, CTX, (count + 2 * kv_heads) * dim)
    norm = torch.rand(count + kv_heads, dim) if normed else None
    kind = "sliding_attention" if window else "full_attention"
    return Layer(heads, kind, window, norm, joined)


def native(heads: Heads) -> NativeAttention:
    library = native_library()
    assert library
    return NativeAttention(heads, library)


@settings(max_examples=40, deadline=None)
@given(
    dim=st.sampled_from([8, 64, 80, 96, 128]),
    kv_heads=st.sampled_from([1, 2, 3]),
    group=st.integers(1, 8),
    window=st.sampled_from([0, 0, 1, 5, 64, 100]),
    normed=st.booleans(),
    before=st.lists(st.integers(0, 200), min_size=1, max_size=SLOTS),
    length=st.sampled_from([1, 2, 7, 66, 120]),
)
def test_it_attends_as_torch_does(
    dim: int,
    kv_heads: int,
    group: int,
    window: int,
    normed: bool,
    before: list[int],
    length: int,
) -> None:
    case = layer(dim, kv_heads, group, window, normed)
    outputs = []
    for attention in (TorchAttention(case.heads), native(case.heads)):
        cache = case.cache()
        case.run(attention, cache, [range(200)] * len(before))
        outputs.append(case.run(attention, cache, [range(b, b + length) for b in before]))
    torch.testing.assert_close(outputs[1], outputs[0], atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize(
    "case",
    [
        layer(64, 3, 3),
        layer(128, 2, 1, normed=True),
        layer(80, 1, 8, window=70),
        layer(12, 2, 2, window=3, normed=True),
    ],
    ids=["grouped", "normed", "windowed", "short"],
)
@pytest.mark.usefixtures("threads")
def test_token_has_the_same_bits_in_any_chunk_and_batch(case: Layer) -> None:
    attention, whole = native(case.heads), case.cache()
    expected = case.run(attention, whole, [range(CTX)] * SLOTS)
    for chunk in (1, 3, 50, 64, 301):
        cache = case.cache()
        for start in range(0, CTX, chunk):
            part = range(start, min(start + chunk, CTX))
            got = case.run(attention, cache, [part])
            assert got[0].equal(expected[0, part.start : part.stop])
    for rows in ([200, 3], [0, 319, 64, 63], [17, 17, 250]):
        got = case.run(attention, whole, [range(at, at + 1) for at in rows])
        for slot, at in enumerate(rows):
            assert got[slot, 0].equal(expected[slot, at])


def test_what_an_unseen_key_holds_does_not_matter() -> None:
    case = layer(64, 1, 2)
    attention, cache = native(case.heads), case.cache()
    expected = case.run(attention, cache, [range(100)])
    cache.layers[0].keys[:, :, 100:] = torch.nan
    cache.layers[0].values[:, :, 100:] = torch.inf
    assert case.run(attention, cache, [range(100)]).equal(expected)


def test_position_beyond_the_context_is_refused() -> None:
    case = layer(64, 1, 1)
    attention, beyond = native(case.heads), Window(0, CTX, torch.tensor([[CTX]]))
    # What a longer context had room for is of no matter.
    attention.open(SlotCache(LlamaConfig(num_hidden_layers=1), SLOTS, 2 * CTX), beyond)
    with pytest.raises(IndexError):
        attention.open(case.cache(), beyond)
