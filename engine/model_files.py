"""What a model's files say about it before any weight is read; never imports torch."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.gguf_header import GgufHeader, Value, read_gguf_header

_PASS = "Pass a folder with config.json and *.safetensors, or a .gguf file."
# The classes that `lean_model` writes out.
LEAN_CLASSES = frozenset(
    {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
)
_LEAN_GGUF = frozenset({"llama", "qwen2", "qwen3"})
DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

_JSON_LIMIT = 100 << 20
# What taking apart a safetensors header that is none may raise.
_BROKEN = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    struct.error,
)
_NO_DECODERS = (
    "bert",
    "modern-bert",
    "nomic-bert",
    "jina-bert",
    "clip",
    "t5encoder",
    "wavtokenizer",
)
_HEADS = ("lm_head.weight", "embed_out.weight", "output.weight")
# What hub models leave to their class: fields of Gemma3TextConfig that gemma-3-4b-it lacks.
_CLASS_DEFAULTS: dict[str, dict[str, int]] = {
    "gemma3_text": {
        "vocab_size": 262208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
    }
}
_DECODERS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


@dataclass(frozen=True, slots=True)
class ModelHeader:
    """A model's shape: what the context limit and the memory estimate need.

    `cache_layers` are the layers that keep keys and values: all but linear (recurrent) ones.
    `kv_heads` and `head_dim` are the largest of any layer; `embedding` are the weights of the
    token embedding, which `is_tied` to the head where the files have it once for both. `is_lean`
    if by its name it is one that `lean_model` can run, which also looks at its layers.
    """

    architecture: str
    max_context: int
    cache_layers: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    parameters: int
    embedding: int
    is_tied: bool
    is_lean: bool = False


def read_header(path: Path) -> ModelHeader:
    """Read the header of a GGUF file or of a folder with config.json and safetensors.

    Raises ModelError, in words for the user, for anything that is not a text-generation model.
    """
    if not path.exists():
        raise ModelError(f"{path} does not exist.")
    # A pipe or a device would be waited for, or never end.
    if not (path.is_dir() or path.is_file()):
        raise ModelError(f"{path} is no file. Pass a .gguf file or a folder with safetensors.")
    read = _read_folder if path.is_dir() else _read_gguf
    try:
        header = read(path)
    except _FieldError as error:
        raise ModelError(f"{path} is not a usable model: {error}.") from error
    if header.parameters < 1:
        raise ModelError(f"{path} holds no weights.")
    return header


class _FieldError(Exception):
    """A field is missing or makes no sense."""


def _whole(value: object, name: str) -> int:
    """Return `value` if it is a plausible count."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40:
        return value
    raise _FieldError(f"its {name} is {'missing' if value is None else repr(value)[:40]}")


def _read_gguf(path: Path) -> ModelHeader:
    gguf = read_gguf_header(path)
    architecture = str(gguf.metadata.get("general.architecture", ""))
    _check_gguf_kind(path, architecture, gguf)

    def get(name: str) -> Value | None:
        return gguf.metadata.get(f"{architecture}.{name}")

    layers = _whole(get("block_count"), "block_count")
    hidden = _whole(get("embedding_length"), "embedding_length")
    heads = _whole(_largest(get("attention.head_count")), "attention.head_count")
    per_layer_kv = get("attention.head_count_kv")
    vocab = gguf.lengths.get("tokenizer.ggml.tokens") or get("vocab_size")
    return ModelHeader(
        architecture=architecture,
        max_context=_whole(get("context_length"), "context_length"),
        cache_layers=_gguf_cache_layers(layers, per_layer_kv, get("full_attention_interval")),
        kv_heads=_whole(_largest(per_layer_kv) or heads, "attention.head_count_kv"),
        head_dim=_whole(get("attention.key_length") or hidden // heads, "attention.key_length"),
        vocab_size=_whole(vocab, "vocab_size"),
        parameters=sum(t.weights for t in gguf.tensors),
        embedding=hidden * _whole(vocab, "vocab_size"),
        is_tied=all(t.name != "output.weight" for t in gguf.tensors),
        is_lean=architecture in _LEAN_GGUF and not get("expert_count"),
    )


def _check_gguf_kind(path: Path, architecture: str, gguf: GgufHeader) -> None:
    """Refuse GGUF files that are not one whole decoder."""
    parts = gguf.metadata.get("split.count", 1)
    if isinstance(parts, int) and parts > 1:
        raise ModelError(
            f"{path} is one of {parts} parts. Join them with llama-gguf-split --merge."
        )
    kind = gguf.metadata.get("general.type", "model")
    if kind != "model":
        raise ModelError(f"{path} is not a model but of type {str(kind)[:40]!r}.")
    pooled = f"{architecture}.pooling_type" in gguf.metadata
    if pooled or architecture.startswith(_NO_DECODERS):
        raise ModelError(f"{path} is an embedding model ({architecture}); it writes no text.")


def _largest(value: Value | None) -> Value | None:
    """Return the largest entry of a per-layer array, or the value itself."""
    if isinstance(value, tuple):
        return max((v for v in value if isinstance(v, int)), default=None)
    return value


def _gguf_cache_layers(layers: int, kv_heads: Value | None, interval: Value | None) -> int:
    """Count the layers with attention: those with key heads, or every `interval`-th."""
    if isinstance(kv_heads, tuple):
        return sum(1 for heads in kv_heads if heads)
    if isinstance(interval, int) and interval > 0:
        return layers // interval
    return layers


def _read_folder(path: Path) -> ModelHeader:
    weights = _weight_files(path)
    config = _read_json(path / "config.json")
    names = config.get("architectures") or [config.get("model_type", "unknown")]
    if not isinstance(names, list) or not names:
        raise _FieldError("its architectures are not a list")
    _check_decoder(path, str(names[0]), "architectures" in config)
    text = _text_config(config)
    tensors = [tensor for file in weights for tensor in _safetensors(file).items()]
    return _folder_header(str(names[0]), text, dict(tensors))


def _folder_header(name: str, text: dict[str, Any], tensors: dict[str, int]) -> ModelHeader:
    layers = _field(text, "num_hidden_layers", "n_layer", "num_layers")
    hidden = _field(text, "hidden_size", "n_embd", "d_model")
    heads = _field(text, "num_attention_heads", "n_head", "num_heads")
    return ModelHeader(
        architecture=name,
        max_context=_field(text, "max_position_embeddings", "n_positions", "max_seq_len"),
        cache_layers=_folder_cache_layers(layers, text),
        kv_heads=_whole(text.get("num_key_value_heads") or heads, "num_key_value_heads"),
        head_dim=_whole(text.get("head_dim") or hidden // heads, "head_dim"),
        vocab_size=_field(text, "vocab_size"),
        parameters=sum(tensors.values()),
        embedding=hidden * _field(text, "vocab_size"),
        is_tied=not any(name.endswith(_HEADS) for name in tensors),
        is_lean=name in LEAN_CLASSES and text.get("hidden_act") == "silu",
    )


def _folder_cache_layers(layers: int, text: dict[str, Any]) -> int:
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return sum(1 for kind in kinds if "linear" not in str(kind))
    interval = text.get("full_attention_interval")
    return layers // interval if isinstance(interval, int) and interval > 0 else layers


def _field(config: dict[str, Any], *names: str) -> int:
    """Return the first of the field's names that the config has."""
    return _whole(next((config[n] for n in names if config.get(n) is not None), None), names[0])


def _text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the language model's part of a multimodal config, or the config itself."""
    for name in ("text_config", "llm_config", "language_config"):
        text = config.get(name)
        if isinstance(text, dict):
            return {**_CLASS_DEFAULTS.get(str(text.get("model_type")), {}), **config, **text}
    return config


def _check_decoder(path: Path, name: str, stated: bool) -> None:
    if stated and not name.endswith(_DECODERS):
        raise ModelError(f"{path} is not a text-generation model ({name[:80]}); it writes no text.")


def _weight_files(path: Path) -> list[Path]:
    """Return the folder's safetensors files, or say what is there instead."""
    if not (path / "config.json").is_file():
        found = sorted(path.glob("*.gguf"))
        hint = f"Pass the file itself: {found[0]}" if found else _PASS
        raise ModelError(f"{path} has no config.json. {hint}")
    files = sorted(path.glob("*.safetensors"))
    pickles = [f for suffix in ("bin", "pt", "pth", "ckpt") for f in path.glob(f"*.{suffix}")]
    if not files and pickles:
        raise ModelError(
            f"{path} holds pickled weights only ({pickles[0].name}), which can run code when read. "
            "Convert them to safetensors."
        )
    if not files:
        raise ModelError(f"{path} holds no weights (*.safetensors). {_PASS}")
    _check_shards(path, files)
    return files


def _check_shards(path: Path, files: Iterable[Path]) -> None:
    """Raise ModelError when the index names a file that is not there."""
    index = path / "model.safetensors.index.json"
    if index.is_file():
        names = _read_json(index).get("weight_map", {})
        wanted = set(map(str, names.values())) if isinstance(names, dict) else set()
        missing = sorted(wanted - {f.name for f in files})
        if missing:
            raise ModelError(f"{path} lacks {missing[0]}. Download the model again.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _JSON_LIMIT:
            raise ValueError("too large")
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON.") from error
    if not isinstance(data, dict):
        raise ModelError(f"{path} is not a JSON object.")
    return data


def _safetensors(path: Path) -> dict[str, int]:
    """Return how many weights each tensor has, from the header of a safetensors file."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
            (length,) = struct.unpack("<Q", start)
            if length > _JSON_LIMIT:
                raise ValueError("header too large")
            tensors = json.loads(file.read(length))
        tensors.pop("__metadata__", None)
        weights = {name: _weight_count(name, t) for name, t in tensors.items()}
        data = max((int(t["data_offsets"][1]) for t in tensors.values()), default=0)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from error
    except _BROKEN as error:
        raise ModelError(f"{path} is not a safetensors file. Download it again.") from error
    _check_size(path, 8 + length + data)
    return weights


def _weight_count(name: str, tensor: dict[str, Any]) -> int:
    """Return a tensor's weights; MXFP4, as gpt-oss has it, are two a byte, beside their scales."""
    count = prod(map(int, tensor["shape"]))
    if tensor.get("dtype") != "U8":
        return count
    return 2 * count if name.endswith("_blocks") else 0 if name.endswith("_scales") else count


def _check_size(path: Path, expected: int) -> None:
    size = path.stat().st_size
    if size < expected:
        raise ModelError(f"{path} is cut short: {size} of {expected} bytes. Download it again.")
