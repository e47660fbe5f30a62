"""What fits into memory, and the advice when it does not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.memory_estimate import WORKER_BYTES, estimate_memory
from engine.model_files import ModelHeader
from mashbox import memory
from mashbox.memory import (
    Demand,
    Room,
    choose_cache_ram,
    choose_ctx,
    describe_memory,
    find_room,
    rough_bytes,
)

# 2 × 10 layers × 2 heads × 50 dims × 4 bytes = 8 kB a token; 4 GB of weights in float32.
HEADER = ModelHeader(
    architecture="LlamaForCausalLM",
    max_context=32768,
    cache_layers=10,
    kv_heads=2,
    head_dim=50,
    vocab_size=1000,
    parameters=10**9,
    embedding=50_000,
    is_tied=False,
)


CPU = Room(None, on_gpu=False)
NEED = partial(estimate_memory, HEADER, "float32", "none")


def needs(ctx: int, slots: int = 4) -> int:
    return NEED(ctx, slots).total_bytes


def choose(wanted: int | None, free: int | None, slots: int = 4) -> int:
    return choose_ctx(Demand("big", HEADER.max_context, NEED, None), wanted, slots, free)


def test_without_a_wish_the_models_maximum_is_taken_where_it_fits() -> None:
    assert choose(None, needs(32768)) == 32768
    assert choose(None, None) == 32768


def test_without_a_wish_less_memory_gives_the_longest_context_that_fits() -> None:
    assert choose(None, needs(32768) - 1) == 32768 - 256
    assert choose(None, needs(5000)) == 4864


def test_what_loading_takes_counts_however_short_the_context() -> None:
    need = partial(estimate_memory, replace(HEADER, embedding=10**9), "float32", "none")
    enough = need(256, 4).total_bytes
    demand = Demand("big", 32768, need, None)
    assert choose_ctx(demand, 256, 4, enough) == 256
    with pytest.raises(ModelError, match="Take a smaller model"):
        choose_ctx(demand, None, 4, enough - 1)


def test_a_wish_that_fits_is_taken_as_it_is() -> None:
    assert choose(1000, needs(1000)) == 1000
    with pytest.raises(ModelError):
        choose(1000, needs(1000) - 1)


def test_a_wish_beyond_the_model_is_refused() -> None:
    with pytest.raises(ModelError, match=r"at most 32768 tokens. Pass --ctx 32768 or less."):
        choose(32769, None)


def test_a_wish_that_does_not_fit_says_what_is_needed_and_what_would_fit() -> None:
    with pytest.raises(ModelError) as refusal:
        choose(32768, needs(8192))
    assert str(refusal.value) == (
        "big needs about 5.4 GB (weights 4.0, cache 4 × 32768 tokens 1.0); 4.6 GB is free. "
        "Try --ctx 8192 (needs 4.6 GB) or --slots 1."
    )


def test_the_estimate_in_one_line() -> None:
    said = "weights 4.00 GB · cache 4 slots × 8192 tokens 0.26 GB · needs 4.6"
    assert describe_memory(NEED(8192, 4), 4, 8192, 21_900_000_000) == f"{said} of 21.9 GB free"
    assert describe_memory(NEED(8192, 4), 4, 8192, None) == f"{said} GB"


@pytest.mark.parametrize(
    ("parameters", "dtype", "weights"),
    [
        ("0.6B", "auto", 2_400_000_000),
        ("30B-A3B", "bfloat16", 60_000_000_000),
        ("135M", "float32", 540_000_000),
    ],
)
def test_a_models_name_gives_a_rough_estimate(parameters: str, dtype: str, weights: int) -> None:
    assert rough_bytes(parameters, dtype) == WORKER_BYTES + weights
    assert rough_bytes("large", dtype) is None


def test_fewer_slots_are_advised_where_only_they_help() -> None:
    with pytest.raises(ModelError, match=r"Try --ctx 256 --slots 1 "):
        choose(None, needs(300, slots=1))


def test_half_the_precision_is_advised_where_only_that_helps() -> None:
    demand = Demand.of("big", HEADER, CPU, "auto", "none")
    enough = estimate_memory(HEADER, "bfloat16", "none", 1024, 4).total_bytes
    with pytest.raises(ModelError, match=r"Try --dtype bfloat16 --ctx 256 \(needs 2\.4 GB\)\.$"):
        choose_ctx(demand, None, 4, enough)
    # Who names a precision wants that one.
    with pytest.raises(ModelError, match=r"Take a smaller model\.$"):
        choose_ctx(Demand.of("big", HEADER, CPU, "float32", "none"), None, 4, enough)


def test_as_many_slots_as_fit_are_advised() -> None:
    with pytest.raises(ModelError, match=r"\) or --slots 3\.$"):
        choose(32768, needs(32768, slots=3))


def test_a_wish_that_fits_with_fewer_slots_keeps_its_length() -> None:
    with pytest.raises(ModelError, match=r"Try --ctx 1000 --slots 2 \(needs 4\.4 GB\)\.$"):
        choose(1000, needs(1000, slots=2), slots=10_000)


def test_a_model_that_never_fits_is_told_so() -> None:
    with pytest.raises(ModelError, match=r"Take a smaller model\.$"):
        choose(None, 10**9)


def test_a_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert (whole := find_room("cpu").free) and whole > 10**7
    (tmp_path / "memory.max").write_text("20000000\n")
    (tmp_path / "memory.current").write_text("5000000\n")
    assert find_room("cpu").free == 15_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert find_room("cpu").free != 15_000_000


def test_a_gpus_free_memory_is_asked_of_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho 1000\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_room("cuda:1") == find_room("auto") == Room(1000 * 2**20, on_gpu=True)


def test_free_memory_of_an_unknown_device_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert find_room("mps") == find_room("cuda") == Room(None, on_gpu=False)
    assert find_room("auto").free


def test_host_memory_for_prompts_is_as_wished_or_a_quarter_of_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "host_free", lambda: 5 * 2**30)
    assert choose_cache_ram(3, 0) == 3 * 2**20
    assert choose_cache_ram(0, 0) == 0
    assert choose_cache_ram(None, 2**30) == 2**30
    assert choose_cache_ram(None, 6 * 2**30) == 0
    monkeypatch.setattr(memory, "host_free", lambda: 100 * 2**30)
    assert choose_cache_ram(None, 2**30) == 2 * 2**30


def test_on_a_graphics_card_auto_is_half_the_precision_and_never_int8() -> None:
    card = Room(10**9, on_gpu=True)
    need = Demand.of("big", replace(HEADER, is_lean=True), card, "auto", "auto").need
    assert need(256, 4).weights_bytes == 2 * HEADER.parameters
    need = Demand.of("big", HEADER, card, "float32", "int8").need
    assert need(256, 4).weights_bytes == 4 * HEADER.parameters
