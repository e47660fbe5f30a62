from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine import choose_forward as module
from engine.choose_forward import choose_forward, wants_int8
from engine.config import EngineConfig, ModelSource
from engine.errors import ModelError
from engine.forward import LeanForward, SlotForward
from engine.int8_linear import int8_is_supported
from engine.messages import Ready
from engine.model_runner import TransformersRunner
from engine.native_library import native_library
from tests.engine.tiny_models import tiny_model

CPU = torch.device("cpu")
needs_int8 = pytest.mark.skipif(
    not int8_is_supported() or native_library() is None,
    reason="no FBGEMM or no kernels here",
)


def config(**settings: Any) -> EngineConfig:
    return EngineConfig(ModelSource("tiny", Path("tiny")), ctx=64, **settings)


@needs_int8
@pytest.mark.parametrize(
    ("quant", "dtype", "wanted"),
    [
        ("auto", "auto", True),
        ("auto", "float32", False),
        ("int8", "float32", True),
        ("none", "auto", False),
    ],
)
def test_int8_is_for_cpus_where_no_other_precision_is_asked_for(
    quant: str, dtype: str, wanted: bool
) -> None:
    assert wants_int8(config(quant=quant, dtype=dtype), CPU) is wanted
    assert not wants_int8(config(quant=quant, dtype=dtype), torch.device("cuda"))


def test_int8_is_not_taken_unasked_without_native_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "native_library", lambda: None)
    assert not wants_int8(config(quant="auto"), CPU)


@needs_int8
def test_lean_class_runs_in_int8_and_says_so() -> None:
    loaded = Ready(
        "", None, {}, (), weight_bytes=0, bits_per_weight=4.5, device="", dtype="float32"
    )
    runner = TransformersRunner(tiny_model("llama"), config(quant="auto"))
    ready = runner.describe(loaded)
    assert (ready.dtype, ready.weight_bytes) == ("int8", runner.forward.weights.nbytes)
    assert ready.runtime["forward"] == "LeanForward"
    assert ready.keeps_prompts
    assert not TransformersRunner(tiny_model("bloom"), config()).describe(loaded).keeps_prompts
    plain = TransformersRunner(tiny_model("llama"), config()).describe(loaded)
    assert plain.dtype == "float32"
    assert plain.weight_bytes > 2 * ready.weight_bytes
    assert plain.bits_per_weight == 32
    assert 8 < ready.bits_per_weight < 10


def test_other_classes_run_as_they_are_unless_int8_is_demanded() -> None:
    assert isinstance(choose_forward(tiny_model("gemma2"), config(quant="auto")), SlotForward)
    with pytest.raises(ModelError, match="Gemma2ForCausalLM cannot run in int8 here"):
        choose_forward(tiny_model("gemma2"), config(quant="int8"))


@needs_int8
def test_model_that_loses_too_much_in_int8_keeps_its_precision(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_INT8_TOLERANCE", 1e-4)
    forward = choose_forward(tiny_model("llama"), config(quant="auto"))
    assert isinstance(forward, LeanForward)
    assert not forward.model.is_int8
    assert "loses too much in int8" in caplog.text
    with pytest.raises(ModelError, match=r"loses too much in int8. Use --quant none"):
        choose_forward(tiny_model("llama"), config(quant="int8"))


def test_the_class_s_own_weights_are_let_go() -> None:
    model = tiny_model("llama")
    choose_forward(model, config())
    assert sum(parameter.nbytes for parameter in model.parameters()) == 0


@pytest.mark.parametrize("name", ["llama", "gemma2", "qwen3_5"])
def test_weights_in_memory_are_counted(name: str) -> None:
    model = tiny_model(name)
    total = sum(parameter.nbytes for parameter in model.parameters())
    assert total <= choose_forward(model, config()).weights.nbytes < 1.01 * total
