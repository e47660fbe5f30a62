from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import EngineConfig, ModelSource
from engine.identity import Identity, hash_components, identify
from engine.messages import Ready

READY = Ready("{}", "template", {}, (0,), 1, 8.0, "cpu", "float32", {"torch": "2", "threads": "2"})


def folder(path: Path, weights: bytes = b"weights") -> EngineConfig:
    path.mkdir(exist_ok=True)
    (path / "model-1.safetensors").write_bytes(weights)
    (path / "config.json").write_text("{}")
    return EngineConfig(ModelSource("m", path), ctx=64)


def components(config: EngineConfig, ready: Ready = READY) -> Identity:
    identity = Identity("deployed")
    hash_components(identity, config, ready)
    return identity


def deployment(config: EngineConfig, ready: Ready = READY) -> str:
    return identify(config, ready).deployment_id


def test_the_same_has_the_same_fingerprints_wherever_it_lies(tmp_path: Path) -> None:
    first, second = (components(folder(tmp_path / name)) for name in "ab")
    assert first == second
    assert first.component_set_sha and first.cache_namespace


@pytest.mark.parametrize("field", ["tokenizer_json", "chat_template"])
def test_another_component_is_another_set(tmp_path: Path, field: str) -> None:
    config = folder(tmp_path)
    changed = components(config, replace(READY, **{field: "other"}))
    assert changed.component_set_sha != components(config).component_set_sha
    assert changed.cache_namespace != components(config).cache_namespace


def test_other_weights_are_another_set_even_of_the_same_size(tmp_path: Path) -> None:
    before = components(folder(tmp_path))
    assert before.component_set_sha != components(folder(tmp_path, b"WEIGHTS")).component_set_sha


def test_another_arithmetic_is_another_cache_but_the_same_set(tmp_path: Path) -> None:
    config = folder(tmp_path)
    before, after = components(config), components(config, replace(READY, dtype="bfloat16"))
    assert before.component_set_sha == after.component_set_sha
    assert before.cache_namespace != after.cache_namespace


def test_a_lone_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"weights")
    first, second = (
        components(EngineConfig(ModelSource("m", tmp_path / name), ctx=64)).component_set_sha
        for name in ("a.gguf", "b.gguf")
    )
    assert first == second is not None


def test_another_shape_or_runtime_is_another_deployment(tmp_path: Path) -> None:
    config = folder(tmp_path)
    others = {
        deployment(config),
        deployment(replace(config, ctx=128)),
        deployment(replace(config, slots=7)),
        deployment(replace(config, prefill_chunk=7)),
        deployment(config, replace(READY, device="cuda:0")),
        deployment(config, replace(READY, runtime={"torch": "3", "threads": "2"})),
    }
    assert len(others) == 6
    assert deployment(config) == deployment(config)


def test_weights_are_read_in_a_thread_of_their_own(tmp_path: Path) -> None:
    identity = identify(folder(tmp_path), READY)
    for thread in threading.enumerate():
        if thread.name == "identity":
            thread.join()
    other = identify(folder(tmp_path), replace(READY, tokenizer_json="other"))
    for thread in threading.enumerate():
        if thread.name == "identity":
            thread.join()
    assert identity.component_set_sha and other.component_set_sha
    assert identity.component_set_sha != other.component_set_sha


def test_weights_that_are_gone_leave_it_unknown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = components(EngineConfig(ModelSource("m", tmp_path / "gone.gguf"), ctx=64))
    assert (lost.component_set_sha, lost.cache_namespace) == (None, None)
    assert "cannot be read" in caplog.text
