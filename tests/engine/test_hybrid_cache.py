from __future__ import annotations

import itertools

import pytest
import torch
from transformers.cache_utils import DummyLayer

from engine.hybrid_cache import HybridCache, is_hybrid
from engine.hybrid_forward import HybridForward
from engine.kv_cache import SlotLayer
from engine.recurrent_layer import HybridLayer, RecurrentLayer
from tests.engine.tiny_models import CONFIGS, tiny_model


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("qwen3_5", [RecurrentLayer, SlotLayer, RecurrentLayer]),
        ("lfm2", [RecurrentLayer, SlotLayer, RecurrentLayer]),
        ("falcon_h1", [HybridLayer, HybridLayer, HybridLayer]),
        ("nemotron_h", [RecurrentLayer, DummyLayer, SlotLayer]),
        ("mamba", [RecurrentLayer, RecurrentLayer]),
    ],
)
def test_each_layer_keeps_what_its_kind_needs(name: str, layers: list[type]) -> None:
    config = CONFIGS[name]()
    assert is_hybrid(config)
    assert [type(layer) for layer in HybridCache(config, 2, 64).layers] == layers


@pytest.mark.parametrize("name", ["llama", "gemma2", "bloom"])
def test_models_of_attention_alone_are_no_hybrids(name: str) -> None:
    assert not is_hybrid(CONFIGS[name]())


def filled(slots: int) -> HybridForward:
    """Slot n holds n + 2 tokens of its own."""
    forward = HybridForward(tiny_model("qwen3_5"), slots, 64, resumes=True)
    for slot in range(slots):
        forward.prefill(slot, prompt(slot), 0)
    return forward


def prompt(slot: int) -> list[int]:
    return [slot + 5, *range(1, slot + 2)]


@torch.inference_mode()
def test_any_choice_of_slots_decodes_as_each_alone() -> None:
    forward, model = filled(4), tiny_model("qwen3_5")
    held = {slot: prompt(slot) for slot in range(4)}
    for slots in itertools.chain(itertools.permutations(range(4), 2), [(3, 1, 0), (2, 3, 0, 1)]):
        logits = forward.decode(slots, [[9]] * len(slots), [len(held[slot]) for slot in slots])
        for slot, row in zip(slots, logits, strict=True):
            held[slot].append(9)
            alone = model(input_ids=torch.tensor([held[slot]])).logits[0, -1]
            torch.testing.assert_close(row, alone, atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_a_saved_state_is_gone_back_to_in_any_slot() -> None:
    forward = filled(3)
    saved = forward.slot_cache.save_state(2)
    assert saved.nbytes == sum(part.nbytes for part in saved.parts) > 0
    first = forward.decode([2], [[9]], [4])
    forward.decode([2, 0], [[8], [8]], [5, 2])
    forward.slot_cache.copy(2, 1, 0, 4)
    for slot in (2, 1):
        forward.slot_cache.load_state(slot, saved)
        torch.testing.assert_close(forward.decode([slot], [[9]], [4]), first)


@torch.inference_mode()
def test_a_prompt_from_its_first_token_on_does_not_see_what_the_slot_held() -> None:
    forward = filled(2)
    again = forward.prefill(1, prompt(0), 0)
    torch.testing.assert_close(again, filled(1).prefill(0, prompt(0), 0))
