"""Turning a GGUF file into a folder with safetensors, once, through transformers.

Run as `python -m engine.gguf_convert SOURCE TARGET DTYPE` in a process of its own, whose memory
(the weights twice) goes back to the system when it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
import threading
from math import pi
from pathlib import Path
from typing import Any

from engine import gguf_tokenizer
from engine.errors import ModelError
from engine.gguf_header import GgufHeader, read_gguf_header

_KEPT_ARRAYS = ("tokenizer.ggml.tokens",)
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
# Llama 3.1's own constants (its config.json); only the factor differs among its siblings.
_LLAMA3 = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def convert(source: Path, target: Path, dtype: str) -> None:
    """Write `source`'s weights as `dtype`, its config and its corrected tokenizer into `target`.

    Raises ModelError when the file holds something that would be converted wrongly, and whatever
    transformers raises.
    """
    header = read_gguf_header(source, keep=_KEPT_ARRAYS)
    _convert_tokenizer(source, target, header)
    _convert_weights(source, target, header, dtype)
    for file in target.iterdir():
        with file.open("rb") as written:
            os.fsync(written.fileno())


def _convert_weights(source: Path, target: Path, header: GgufHeader, dtype: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        str(source.parent),
        gguf_file=source.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=getattr(torch, dtype),
        trust_remote_code=False,
    )
    scaling = _rope_scaling(source, header, model.config)
    if scaling:
        model.config.rope_parameters = {**model.config.rope_parameters, **scaling}
    ends = [header.metadata.get(f"tokenizer.ggml.{key}") for key in _END_KEYS]
    model.generation_config.eos_token_id = [e for e in ends if isinstance(e, int)] or None
    model.save_pretrained(str(target))


def _convert_tokenizer(source: Path, target: Path, header: GgufHeader) -> None:
    from transformers import AutoTokenizer
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    adds_bos = gguf_tokenizer.adds_bos(header.metadata)
    options = {} if adds_bos is None else {"add_bos_token": adds_bos}
    tokenizer = AutoTokenizer.from_pretrained(
        str(source.parent), gguf_file=source.name, trust_remote_code=False, **options
    )
    tokenizer.save_pretrained(str(target))
    path = target / "tokenizer.json"
    spec = json.loads(path.read_text("utf-8"))
    gguf_tokenizer.correct(spec, header.metadata, GGUF_PRE_TOKENIZER_SPLITS)
    path.write_text(json.dumps(spec, ensure_ascii=False), "utf-8")


def _rope_scaling(source: Path, header: GgufHeader, config: Any) -> dict[str, Any]:
    """Return the position scaling that transformers leaves out of the config, if there is any."""
    architecture = header.metadata.get("general.architecture")

    def get(name: str) -> Any:
        return header.metadata.get(f"{architecture}.rope.scaling.{name}")

    if any(t.name.startswith("rope_factors_") for t in header.tensors):
        raise ModelError("its long-context position factors are not supported")
    factors = _read_floats(source, header, "rope_freqs.weight")
    if factors:
        return _llama3_scaling(factors, config)
    if get("type") == "linear":
        return {"rope_type": "linear", "factor": get("factor")}
    if get("type") == "yarn":
        original = get("original_context_length")
        yarn = {"rope_type": "yarn", "factor": get("factor")}
        return {**yarn, "original_max_position_embeddings": original} if original else yarn
    return {}


def _read_floats(source: Path, header: GgufHeader, name: str) -> tuple[float, ...]:
    tensor = next((t for t in header.tensors if t.name == name and t.type_id == 0), None)
    if tensor is None:
        return ()
    with source.open("rb") as file:
        file.seek(header.data_start + tensor.offset)
        return struct.unpack(f"<{tensor.weights}f", file.read(tensor.nbytes))


def _llama3_scaling(factors: tuple[float, ...], config: Any) -> dict[str, Any]:
    """Return Llama 3's scaling with the largest factor, checked against every factor of the file.

    The formula is the one of Llama 3.1: long waves are divided by the factor, short ones kept,
    those in between interpolated.
    """
    scaling = {"rope_type": "llama3", "factor": max(factors), **_LLAMA3}
    theta = config.rope_parameters["rope_theta"]
    for i, found in enumerate(factors):
        wave = 2 * pi * theta ** (i / len(factors))
        if abs(_llama3_factor(wave, scaling) - found) > 1e-2 * found:
            raise ModelError("its position factors are not Llama 3's and are not supported")
    return scaling


def _llama3_factor(wave: float, scaling: dict[str, Any]) -> float:
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] / wave
    share = min(max((turns - low) / (high - low), 0.0), 1.0)
    return float(1 / ((1 - share) / scaling["factor"] + share))


def _leave_with_parent() -> None:
    """End this process when the one that started it is gone: its end of our stdin closes."""

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """Convert, or print one line that says why not."""
    source, target, dtype = sys.argv[1:]
    _leave_with_parent()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            from engine.quiet import quiet

            quiet()
            convert(Path(source), Path(target), dtype)
    except Exception as error:
        print(f"{error or type(error).__name__}".strip().splitlines()[0])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
