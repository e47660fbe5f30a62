from __future__ import annotations

from dataclasses import replace

import pytest

from engine import memory_estimate
from engine.memory_estimate import estimate_memory
from engine.model_files import ModelHeader

SMOLLM2 = ModelHeader("llama", 8192, 30, 3, 64, 49152, 134_515_008, 49152 * 576, True, True)


def test_memory_is_weights_cache_and_the_rest() -> None:
    estimate = estimate_memory(SMOLLM2, "float32", "none", ctx=8192, slots=4)
    # The embedding, which is the head too, is stored twice.
    assert estimate.weights_bytes == (134_515_008 + 49_152 * 576) * 4
    assert estimate.cache_bytes == 46_080 * 8192 * 4
    assert estimate.total_bytes == (
        estimate.weights_bytes + estimate.cache_bytes + estimate.overhead_bytes
    )
    half = estimate_memory(SMOLLM2, "bfloat16", "none", ctx=8192, slots=4)
    assert half.cache_bytes * 2 == estimate.cache_bytes
    assert estimate_memory(SMOLLM2, "auto", "none", 8192, 4) == estimate
    int8 = estimate_memory(SMOLLM2, "auto", "int8", 8192, 4)
    assert int8.weights_bytes * 4 == estimate.weights_bytes
    assert int8.cache_bytes == estimate.cache_bytes


@pytest.mark.parametrize(
    ("dtype", "is_lean", "kernels", "expected"),
    [
        ("auto", True, True, "int8"),
        ("auto", True, False, "none"),
        ("auto", False, True, "none"),
        ("float32", True, True, "none"),
    ],
)
def test_auto_is_estimated_as_what_it_will_come_to(
    dtype: str, is_lean: bool, kernels: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_estimate, "int8_kernels_expected", lambda: kernels)
    header = replace(SMOLLM2, is_lean=is_lean)
    auto = estimate_memory(header, dtype, "auto", 2048, 4)
    assert auto == estimate_memory(header, dtype, expected, 2048, 4)
