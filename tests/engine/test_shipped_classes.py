"""The classes of the catalogue's models as the hub has them: random, small, read from a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from engine.choose_forward import choose_forward
from engine.config import EngineConfig, ModelSource
from engine.loader import load_model
from engine.model_files import read_header
from tests.engine.model_folders import edit_json, write_folder
from tests.engine.tiny_models import CONFIGS, generate

VOCAB = 300
PROMPT = [1, 5, 9, 12, 3]
VISION: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}
QWEN_VISION: dict[str, Any] = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "out_hidden_size": 32,
    "patch_size": 4,
    "num_position_embeddings": 16,
}


def text(name: str) -> dict[str, Any]:
    fields: dict[str, Any] = CONFIGS[name]().to_dict()
    return {**fields, "vocab_size": VOCAB, "eos_token_id": 0}


def with_vision(family: str, config: str, vision: dict[str, Any]) -> Callable[[], PreTrainedModel]:
    """The class that also sees, as the hub has it; only its text is run."""

    def make() -> PreTrainedModel:
        settings = getattr(transformers, f"{family}Config")(
            text_config=text(config), vision_config=vision
        )
        model: PreTrainedModel = getattr(transformers, f"{family}ForConditionalGeneration")(
            settings
        )
        return model

    return make


def smollm3() -> PreTrainedModel:
    fields = {**text("llama"), "model_type": "smollm3", "no_rope_layers": [1, 0, 1]}
    return AutoModelForCausalLM.from_config(transformers.SmolLM3Config(**fields))


MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "qwen3.5": with_vision("Qwen3_5", "qwen3_5", QWEN_VISION),
    "qwen3.5-moe": with_vision("Qwen3_5Moe", "qwen3_5_moe", QWEN_VISION),
    "gemma-3": with_vision("Gemma3", "gemma3", {**VISION, "model_type": "siglip_vision_model"}),
    "mistral-3": with_vision("Mistral3", "llama", {**VISION, "model_type": "pixtral"}),
    "smollm3": smollm3,
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer and no weights."""
    folder = write_folder(tmp_path_factory.mktemp("tokenizer"))
    (folder / "model.safetensors").unlink()
    return folder


def answer(folder: Path, count: int) -> list[int]:
    """What the engine's chosen way answers greedily."""
    config = EngineConfig(ModelSource("tiny", folder), ctx=64, device="cpu", dtype="float32")
    with torch.inference_mode():
        forward = choose_forward(load_model(config, lambda done, total: None).model, config)
        forward.prefill(0, PROMPT[:-1], 0)
        tokens = PROMPT[-1:]
        for position in range(len(PROMPT) - 1, len(PROMPT) - 1 + count):
            logits = forward.decode([0], [tokens[-1:]], [position])
            tokens.append(int(logits.argmax(-1)[0]))
    return tokens[1:]


@pytest.mark.parametrize("name", MODELS)
def test_class_runs_as_its_own_generate(name: str, tmp_path: Path, tokenizer: Path) -> None:
    torch.manual_seed(7)
    folder = tmp_path / name
    shutil.copytree(tokenizer, folder)
    model = MODELS[name]()
    model.save_pretrained(folder)
    assert read_header(folder).parameters == sum(p.numel() for p in model.parameters())
    plain = type(model).from_pretrained(folder, dtype=torch.float32).eval()
    assert answer(folder, 6) == generate(plain, PROMPT, 6)


def test_mxfp4_is_unpacked_and_counted_as_what_it_unpacks_to(
    tmp_path: Path, tokenizer: Path
) -> None:
    folder = tmp_path / "mxfp4"
    shutil.copytree(tokenizer, folder)
    fields = {**text("gpt_oss"), "hidden_size": 64, "intermediate_size": 64}
    model = AutoModelForCausalLM.from_config(transformers.GptOssConfig(**fields))
    model.to(torch.bfloat16).save_pretrained(folder)
    pack_experts(folder / "model.safetensors")
    edit_json(folder / "config.json", quantization_config={"quant_method": "mxfp4"})
    assert read_header(folder).parameters == sum(p.numel() for p in model.parameters())
    assert len(answer(folder, 3)) == 3


def test_fp8_is_unpacked_on_the_cpu(tmp_path: Path, tokenizer: Path) -> None:
    folder = tmp_path / "fp8"
    shutil.copytree(tokenizer, folder)
    fields = {**text("qwen3"), "hidden_size": 64, "intermediate_size": 64}
    fields |= {"num_key_value_heads": 4, "head_dim": 16}
    model = AutoModelForCausalLM.from_config(transformers.Qwen3Config(**fields))
    model.save_pretrained(folder)
    rounded = round_to_fp8(folder / "model.safetensors")
    settings = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    edit_json(folder / "config.json", quantization_config=settings)
    model.load_state_dict(rounded, strict=False)
    assert answer(folder, 6) == generate(model.eval(), PROMPT, 6)


def round_to_fp8(path: Path) -> dict[str, torch.Tensor]:
    """Store the projections `[out, in]` in FP8, scaled by 32 x 32 blocks; return their values."""
    tensors, values = load_file(path), {}
    for name in [n for n in tensors if n.endswith("_proj.weight")]:
        weight = tensors[name]
        scale = weight.abs().max() / torch.finfo(torch.float8_e4m3fn).max
        tensors[name] = (weight / scale).to(torch.float8_e4m3fn)
        values[name] = tensors[name].float() * scale
        blocks = [size // 32 for size in weight.shape]
        tensors[f"{name}_scale_inv"] = scale.expand(*blocks).contiguous()
    save_file(tensors, path, metadata={"format": "pt"})
    return values


def pack_experts(path: Path) -> None:
    """Put random MXFP4 for the experts' matrices `[expert, in, out]`, in blocks of 32 weights."""
    tensors = load_file(path)
    for name in [n for n in tensors if n.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = tensors.pop(name).shape
        shape = (experts, outputs, inputs // 32)
        tensors[f"{name}_blocks"] = torch.randint(0, 256, (*shape, 16), dtype=torch.uint8)
        tensors[f"{name}_scales"] = torch.full(shape, 124, dtype=torch.uint8)
    save_file(tensors, path, metadata={"format": "pt"})


def test_fields_that_gemma_3_leaves_to_its_class_are_filled_in(
    tmp_path: Path, tokenizer: Path
) -> None:
    folder = tmp_path / "gemma-3"
    shutil.copytree(tokenizer, folder)
    MODELS["gemma-3"]().save_pretrained(folder)
    text_config = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34}
    config = json.loads((folder / "config.json").read_text())
    edit_json(folder / "config.json", **dict.fromkeys(config))
    edit_json(
        folder / "config.json",
        architectures=["Gemma3ForConditionalGeneration"],
        text_config=text_config,
    )
    header, default = read_header(folder), transformers.Gemma3TextConfig()
    assert header.max_context == default.max_position_embeddings
    assert header.vocab_size == default.vocab_size
    assert header.kv_heads == default.num_key_value_heads
    assert header.head_dim == default.head_dim
