"""Tiny model files for tests: a GGUF with a byte vocabulary, and a safetensors folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ċ Ċ", "Ġ Ġ", "a b"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LAYERS, HEADS, KV_HEADS, HEAD_DIM, HIDDEN, INNER, CONTEXT = 2, 4, 2, 8, 32, 48, 128


def vocabulary(extra: list[str]) -> list[str]:
    """Return control tokens, the byte alphabet, merged tokens and `extra`."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return [*CONTROL, *alphabet, *(m.replace(" ", "") for m in MERGES), *extra]


def write_gguf(
    path: Path,
    fields: dict[str, Any] | None = None,
    extra: list[str] | None = None,
    tensors: dict[str, np.ndarray] | None = None,
) -> Path:
    """Write a random two-layer Llama; `fields` are more (or other) metadata, None leaves one out.

    `extra` are control tokens behind the vocabulary.
    """
    tokens = vocabulary(extra or [])
    kinds = [3 if i < len(CONTROL) or t in (extra or []) else 1 for i, t in enumerate(tokens)]
    settings: dict[str, Any] = {
        "general.type": "model",
        "llama.block_count": LAYERS,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.rope.freq_base": 10000.0,
        "llama.rope.dimension_count": HEAD_DIM,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": TEMPLATE,
        **(fields or {}),
    }
    writer = gguf.GGUFWriter(path, str(settings.pop("general.architecture", "llama")))
    for key, value in settings.items():
        _add(writer, key, value)
    for name, tensor in {**llama_tensors(len(tokens)), **(tensors or {})}.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif value is not None:
        writer.add_array(key, value)


def llama_tensors(vocab: int) -> dict[str, np.ndarray]:
    """Return random float32 weights under llama.cpp's names, embeddings tied."""
    noise = np.random.default_rng(0)
    kv = KV_HEADS * HEAD_DIM
    layer = {
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (kv, HIDDEN),
        "attn_v": (kv, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_gate": (INNER, HIDDEN),
        "ffn_up": (INNER, HIDDEN),
        "ffn_down": (HIDDEN, INNER),
        "attn_norm": (HIDDEN,),
        "ffn_norm": (HIDDEN,),
    }
    shapes = {"token_embd.weight": (vocab, HIDDEN), "output_norm.weight": (HIDDEN,)}
    for i in range(LAYERS):
        shapes |= {f"blk.{i}.{name}.weight": shape for name, shape in layer.items()}
    return {n: noise.normal(0, 0.1, s).astype(np.float32) for n, s in shapes.items()}


def write_folder(path: Path, **config: Any) -> Path:
    """Write a random two-layer Llama with config, safetensors and tokenizer."""
    tokens = vocabulary([])
    settings = LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=CONTEXT,
        eos_token_id=0,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(settings).save_pretrained(path)
    backend = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|endoftext|>", bos_token="<|im_start|>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(path)
    edit_json(path / "config.json", **config)
    return path


def edit_json(path: Path, **changes: Any) -> None:
    """Set fields of a JSON file; None removes one."""
    data = json.loads(path.read_text("utf-8")) | changes
    path.write_text(json.dumps({k: v for k, v in data.items() if v is not None}), "utf-8")
