from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from engine.errors import ModelError
from engine.gguf_convert import convert
from tests.engine.model_folders import HEAD_DIM, TEMPLATE, write_gguf


def converted(tmp_path: Path, **contents: Any) -> Path:
    target = tmp_path / "out"
    target.mkdir()
    convert(write_gguf(tmp_path / "m.gguf", **contents), target, "float32")
    return target


def config(folder: Path, name: str = "config.json") -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / name).read_text())
    return data


def llama3_factors(factor: float) -> np.ndarray:
    """rope_freqs as llama.cpp's converter writes them for Llama 3.1's constants."""
    found = []
    for i in range(HEAD_DIM // 2):
        wave = 2 * math.pi * 500000.0 ** (2 * i / HEAD_DIM)
        if wave < 8192 / 4:
            found.append(1.0)
        elif wave > 8192:
            found.append(factor)
        else:
            smooth = (8192 / wave - 1) / 3
            found.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(found, np.float32)


def test_weights_tokenizer_and_template_come_over(tmp_path: Path) -> None:
    folder = converted(tmp_path)
    assert (folder / "chat_template.jinja").read_text() == TEMPLATE
    backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert backend.encode("\n\n1").tokens == ["ĊĊ", "1"]
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert config(folder)["rope_parameters"]["rope_type"] == "default"


def test_every_end_token_of_the_file_ends_an_answer(tmp_path: Path) -> None:
    folder = converted(tmp_path, fields={"tokenizer.ggml.eot_token_id": 0})
    assert config(folder, "generation_config.json")["eos_token_id"] == [2, 0]


def test_linear_position_scaling_is_kept(tmp_path: Path) -> None:
    fields = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    rope = config(converted(tmp_path, fields=fields))["rope_parameters"]
    assert (rope["rope_type"], rope["factor"]) == ("linear", 4.0)


def test_yarn_position_scaling_is_kept(tmp_path: Path) -> None:
    fields = {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 2.0,
        "llama.rope.scaling.original_context_length": 64,
    }
    rope = config(converted(tmp_path, fields=fields))["rope_parameters"]
    assert (rope["rope_type"], rope["factor"]) == ("yarn", 2.0)
    assert rope["original_max_position_embeddings"] == 64


def test_llama3_position_factors_become_llama3_scaling(tmp_path: Path) -> None:
    fields = {"llama.rope.freq_base": 500000.0}
    folder = converted(tmp_path, fields=fields, tensors={"rope_freqs.weight": llama3_factors(8.0)})
    rope = config(folder)["rope_parameters"]
    assert (rope["rope_type"], rope["factor"]) == ("llama3", 8.0)
    plain = 500000.0 ** -(np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    frequencies = AutoModelForCausalLM.from_pretrained(folder).model.rotary_emb.inv_freq
    np.testing.assert_allclose(frequencies.numpy(), plain / llama3_factors(8.0), rtol=1e-5)


def test_other_position_factors_are_refused(tmp_path: Path) -> None:
    odd = np.array([1.0, 5.0, 2.0, 8.0], np.float32)
    with pytest.raises(ModelError, match="position factors are not Llama 3's"):
        converted(tmp_path, tensors={"rope_freqs.weight": odd})


def test_long_context_factors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="long-context position factors"):
        converted(tmp_path, tensors={"rope_factors_long.weight": np.ones(4, np.float32)})


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "engine.gguf_convert", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stderr
        code = process.wait(120)
        said, noise = process.stdout.read(), process.stderr.read()
    return subprocess.CompletedProcess(command, code, said, noise)


def test_failure_is_one_line(tmp_path: Path) -> None:
    source = write_gguf(tmp_path / "m.gguf", {"tokenizer.ggml.pre": "bloom"})
    done = run(str(source), str(tmp_path), "float32")
    assert done.returncode == 1
    assert done.stdout.count("\n") == 1
    assert "('bloom') is not known here" in done.stdout
    assert "Traceback" not in done.stderr


def test_converter_ends_when_its_parent_is_gone(tmp_path: Path) -> None:
    source = write_gguf(tmp_path / "m.gguf")
    command = [sys.executable, "-m", "engine.gguf_convert", str(source), str(tmp_path), "float32"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.communicate()  # closes its stdin, as the end of the parent would
    assert process.returncode == 1
    assert not (tmp_path / "model.safetensors").exists()
