from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from engine import weight_format
from engine.choose_forward import choose_forward
from engine.config import EngineConfig, ModelSource
from engine.forward import LeanForward
from engine.int8_linear import int8_is_supported
from engine.lean_model import build_lean, is_lean
from engine.native_library import native_library
from engine.native_linear import native_int8
from engine.weight_format import Int8Format, PlainFormat, WeightFormat
from tests.engine.tiny_models import CONFIGS, VOCAB, tiny_model

LEAN = ["llama", "qwen2", "qwen3", "mistral"]
CTX = 128
needs_native = pytest.mark.skipif(native_library() is None, reason="no native kernels here")
needs_int8 = pytest.mark.skipif(not int8_is_supported(), reason="torch has no FBGEMM here")
ROPE = {"rope_theta": 1e4}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"attention_bias": True, "mlp_bias": True}),
    ("llama", {"tie_word_embeddings": True}),
    ("llama", {"num_key_value_heads": 4}),
    ("llama", {"num_key_value_heads": 1, "head_dim": 16}),
    ("llama", {"rope_parameters": {**ROPE, "rope_type": "linear", "factor": 4.0}}),
    (
        "llama",
        {
            "rope_parameters": {
                **ROPE,
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    (
        "qwen3",
        {
            "rope_parameters": {
                **ROPE,
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    ("mistral", {"sliding_window": 3}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
]


def variant(name: str, changes: dict[str, Any]) -> PreTrainedModel:
    torch.manual_seed(7)
    config = type(CONFIGS[name]())(**{**CONFIGS[name]().to_dict(), "layer_types": None, **changes})
    return AutoModelForCausalLM.from_config(config).eval()


def lean(model: PreTrainedModel, store: WeightFormat, slots: int = 4) -> LeanForward:
    return LeanForward(build_lean(model, store), model.config, slots, CTX)


def prompt(length: int, seed: int = 1) -> list[int]:
    rnd = random.Random(seed)
    return [rnd.randrange(1, VOCAB) for _ in range(length)]


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    yield
    torch.set_num_threads(before)


def own_logits(model: PreTrainedModel, ids: list[int]) -> torch.Tensor:
    return model(input_ids=torch.tensor([ids])).logits[:, -1]


def prefilled(forward: LeanForward, slot: int, ids: list[int], chunk: int) -> torch.Tensor:
    starts = range(0, len(ids), chunk)
    return [forward.prefill(slot, ids[start : start + chunk], start) for start in starts][-1]


@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize(("name", "changes"), [*((name, {}) for name in LEAN), *VARIANTS])
@torch.inference_mode()
def test_logits_are_those_of_the_class(name: str, changes: dict[str, Any], chunk: int) -> None:
    model = variant(name, changes)
    assert is_lean(model)
    forward, ids = lean(model, PlainFormat()), prompt(40)
    got = prefilled(forward, 2, ids[:-1], chunk)
    torch.testing.assert_close(got, own_logits(model, ids[:-1]), atol=1e-4, rtol=1e-4)
    got = forward.decode([2], [ids[-1:]], [39])
    torch.testing.assert_close(got, own_logits(model, ids), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", LEAN)
@torch.inference_mode()
def test_rows_of_different_lengths_decode_together_in_the_order_asked(name: str) -> None:
    model = tiny_model(name)
    forward = lean(model, PlainFormat(), slots=6)
    prompts = {slot: prompt(3 + 9 * slot, slot) for slot in (0, 2, 3, 5)}
    for slot, ids in prompts.items():
        forward.prefill(slot, ids, 0)
    for slots in ([5, 0, 3], [2, 5], [3, 2, 0, 5]):
        logits = forward.decode(slots, [[7]] * len(slots), [len(prompts[s]) for s in slots])
        expected = torch.cat([own_logits(model, [*prompts[s], 7]) for s in slots])
        torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


@pytest.fixture(params=["native", "fbgemm"])
def int8(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Int8Format:
    if request.param == "fbgemm":
        monkeypatch.setattr(weight_format, "native_int8", lambda: None)
    elif native_int8() is None:
        pytest.skip("no native kernels here")
    return Int8Format()


@needs_int8
@pytest.mark.parametrize("name", LEAN)
@torch.inference_mode()
def test_int8_changes_the_logits_by_rounding_only(name: str, int8: Int8Format) -> None:
    model, ids = tiny_model(name), prompt(30)
    expected = own_logits(model, ids)
    got = prefilled(lean(model, int8), 0, ids, 11)
    assert (got - expected).norm() < 0.1 * expected.norm()


# Widths that leave something over from whole vectors, and that oneDNN sums in parts.
WIDE = {
    "hidden_size": 102,
    "intermediate_size": 1100,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}


@needs_native
@pytest.mark.parametrize("store", [PlainFormat, pytest.param(Int8Format, marks=needs_int8)])
@pytest.mark.parametrize(
    ("name", "changes", "threads"),
    [
        ("llama", {**WIDE, "head_dim": 24}, 2),
        ("qwen3", {**WIDE, "head_dim": 80}, 1),
        ("mistral", {**WIDE, "head_dim": 16, "sliding_window": 40}, 1),
    ],
)
@torch.inference_mode()
def test_logits_have_the_same_bits_however_they_are_computed(
    name: str, changes: dict[str, Any], store: type[WeightFormat], threads: int
) -> None:
    forward, ids = lean(variant(name, changes), store(), slots=8), prompt(100)
    with torch_threads(threads):
        expected = forward.prefill(0, ids, 0)
        for chunk in (1, 3, 16, 33, 99):
            assert prefilled(forward, 3, ids, chunk).equal(expected)
        assert forward.decode([3], [ids[99:]], [99]).equal(expected)
        lengths = {slot: 10 + 9 * slot for slot in (7, 0, 4, 2, 6)}
        for slot, length in lengths.items():
            forward.prefill(slot, prompt(length, slot), 0)
        for count in range(1, 1 + len(lengths)):
            mates = list(lengths.items())[:count]
            slots, tokens = [slot for slot, _ in mates], [[5]] * count
            starts = [length for _, length in mates]
            together = forward.decode([*slots, 3], [*tokens, ids[99:]], [*starts, 99])
            assert together[-1:].equal(expected)
        several = forward.decode([2, 3], [[5], ids[95:]], [lengths[2], 95])
        assert several[-1:].equal(expected)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama", {"hidden_act": "gelu"}),
        ("llama", {"rope_parameters": {**ROPE, "rope_type": "dynamic", "factor": 2.0}}),
        ("gemma2", {}),
        ("qwen3_moe", {}),
    ],
)
def test_what_it_does_not_know_is_not_lean(name: str, changes: dict[str, Any]) -> None:
    assert not is_lean(variant(name, changes) if changes else tiny_model(name))


def test_model_with_linears_of_another_kind_is_not_lean() -> None:
    class Adapted(nn.Linear):
        pass

    model = tiny_model("llama")
    model.lm_head.__class__ = Adapted
    assert not is_lean(model)


def test_class_that_computes_something_else_keeps_its_own_forward() -> None:
    model = tiny_model("llama")
    model.model.layers[1].register_forward_hook(lambda module, inputs, output: output * 1.5)
    config = EngineConfig(ModelSource("tiny", Path("tiny")), ctx=CTX)
    assert type(choose_forward(model, config)).__name__ == "SlotForward"


@needs_int8
def test_weights_in_memory_are_counted(int8: Int8Format) -> None:
    model = tiny_model("llama")
    parameters = sum(p.numel() for p in model.parameters())
    assert build_lean(model, PlainFormat()).weights.nbytes >= 4 * parameters
    assert build_lean(model, int8).weights.nbytes < 2 * parameters
