from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.model_files import read_header
from tests.engine.model_folders import CONTEXT, edit_json, write_folder, write_gguf


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_header(path)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    # Somebody at the other end, so that without the check this test fails instead of hanging.
    end = os.open(tmp_path / "pipe.gguf", os.O_RDWR)
    assert refusal(tmp_path / "pipe.gguf").endswith(
        "is no file. Pass a .gguf file or a folder with safetensors."
    )
    os.close(end)


def test_a_device_is_refused() -> None:
    assert refusal(Path(os.devnull)).startswith(f"{os.devnull} is no file.")


def test_gguf_and_folder_of_one_shape_have_one_header(tmp_path: Path, folder: Path) -> None:
    ours, theirs = read_header(write_gguf(tmp_path / "m.gguf")), read_header(folder)
    assert ours.architecture == "llama"
    assert theirs.architecture == "LlamaForCausalLM"
    for name in ("max_context", "cache_layers", "kv_heads", "head_dim", "vocab_size"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.max_context == CONTEXT
    assert ours.parameters == theirs.parameters
    assert ours.embedding == theirs.embedding
    assert ours.is_tied == theirs.is_tied
    assert ours.is_lean and theirs.is_lean


def test_text_config_of_a_multimodal_model_is_used(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    nested = {k: v for k, v in config.items() if k not in ("architectures", "model_type")}
    outer = {"architectures": ["TinyForConditionalGeneration"], "text_config": nested}
    (folder / "config.json").write_text(json.dumps(outer))
    assert read_header(folder).cache_layers == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"layer_types": ["linear_attention", "full_attention"]},
        {"full_attention_interval": 2},
    ],
)
def test_linear_layers_keep_no_cache(folder: Path, changes: dict[str, Any]) -> None:
    edit_json(folder / "config.json", layer_types=None)
    edit_json(folder / "config.json", **changes)
    assert read_header(folder).cache_layers == 1


def test_gguf_heads_per_layer_are_read(tmp_path: Path) -> None:
    fields = {"llama.attention.head_count_kv": [0, 2]}
    header = read_header(write_gguf(tmp_path / "m.gguf", fields))
    assert (header.kv_heads, header.cache_layers) == (2, 1)


def test_gguf_with_linear_layers_at_an_interval(tmp_path: Path) -> None:
    header = read_header(write_gguf(tmp_path / "m.gguf", {"llama.full_attention_interval": 2}))
    assert header.cache_layers == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"split.count": 3}, "is one of 3 parts. Join them with llama-gguf-split --merge."),
        ({"general.type": "adapter"}, "is not a model but of type 'adapter'"),
        ({"general.architecture": "bert"}, "is an embedding model (bert); it writes no text."),
        ({"llama.pooling_type": 1}, "is an embedding model (llama); it writes no text."),
        ({"llama.block_count": None}, "is not a usable model: its block_count is missing."),
        ({"llama.block_count": 0}, "its block_count is 0"),
        ({"llama.context_length": "long"}, "its context_length is 'long'"),
        ({"llama.attention.head_count": [0, 0]}, "its attention.head_count is 0"),
    ],
)
def test_unusable_gguf_is_explained(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    assert said in refusal(write_gguf(tmp_path / "m.gguf", fields))


def test_missing_path_is_named() -> None:
    assert refusal(Path("/x/y.gguf")) == "/x/y.gguf does not exist."


def test_folder_without_config_points_at_its_gguf(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    assert refusal(tmp_path) == f"{tmp_path} has no config.json. Pass the file itself: {path}"


def test_folder_without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert refusal(folder) == (
        f"{folder} holds no weights (*.safetensors). "
        "Pass a folder with config.json and *.safetensors, or a .gguf file."
    )


def test_pickled_weights_are_never_read(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "holds pickled weights only (pytorch_model.bin)" in refusal(folder)


def test_embedding_model_is_refused(folder: Path) -> None:
    edit_json(folder / "config.json", architectures=["BertModel"])
    assert refusal(folder) == (
        f"{folder} is not a text-generation model (BertModel); it writes no text."
    )


def test_missing_shard_is_named(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert refusal(folder) == f"{folder} lacks model-2.safetensors. Download the model again."


def test_cut_weights_are_noticed(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    said = f"{path} is cut short: {len(whole) - 1} of {len(whole)} bytes. Download it again."
    assert refusal(folder) == said


def safetensors(head: Any) -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version https://git-lfs.github.com/spec/v1",
        struct.pack("<Q", 1 << 60),
        safetensors([]),
        safetensors({"a": 1}),
        safetensors({"a": {"shape": ["x"], "data_offsets": [0, 1]}}),
        safetensors({"a": {"shape": [1e999], "data_offsets": [0, 1]}}),
        safetensors({"a": {"shape": [1], "data_offsets": [0]}}),
        safetensors(b"[" * 100_000),
    ],
)
def test_broken_safetensors_header_is_refused(folder: Path, data: bytes) -> None:
    (folder / "model.safetensors").write_bytes(data)
    assert "model.safetensors is not a safetensors file" in refusal(folder)


@pytest.mark.parametrize("text", ["", "{", "[1]", "\udcff"])
def test_broken_config_is_refused(folder: Path, text: str) -> None:
    (folder / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "config.json is not" in refusal(folder)


def test_reading_headers_imports_no_torch() -> None:
    code = "import sys, engine.catalog, engine.model_files; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
