"""The worker's way from a `ModelSource` to a model on its device, through transformers."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
)
from transformers.utils.logging import set_tqdm_hook

from engine.config import EngineConfig
from engine.errors import ModelError
from engine.fetch import Progress, cache_dir, scratch_dir
from engine.gguf_header import read_gguf_header
from engine.messages import Ready
from engine.model_files import DTYPE_BYTES, ModelHeader, read_header
from engine.packed_linear import stored_weights
from engine.quiet import quiet

# Raised when what gguf_convert writes changes, so that old conversions are not used.
_CONVERSION = 1
_UNUSED_SECONDS = 60 * 24 * 3600
_POLL_SECONDS = 0.2
_TEMPLATE_VARIABLES = ("bos_token", "eos_token", "unk_token", "pad_token")
# Tokens that end a turn where the chat template uses them, and those that end any text.
_END_OF_TURN = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|end|>", "<end_of_turn>", "<turn|>"),
    *("<|END_OF_TURN_TOKEN|>", "<|return|>", "<|call|>"),
)
_END_OF_TEXT = ("<|endoftext|>", "<|end_of_text|>", "<\uff5cend\u2581of\u2581sentence\uff5c>")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in eval mode on its device, and what the server is told of it."""

    model: Any
    ready: Ready


def load_model(
    config: EngineConfig, on_progress: Progress, on_conversion: Progress = lambda done, total: None
) -> LoadedModel:
    """Load `config.model`; a GGUF file is converted first, once, into the cache.

    `on_progress` gets bytes of loaded weights, `on_conversion` of written ones. "auto" means CUDA
    where there is one, else the CPU, and bfloat16 on CUDA, else float32. Raises ModelError in
    words for the user.
    """
    quiet()
    path = config.model.path
    header = read_header(path)
    device, dtype = choose_device(config.device), choose_dtype(config.dtype, config.device)
    folder = path if path.is_dir() else converted(path, header, dtype, on_conversion)
    with _watched(on_progress, header.parameters * DTYPE_BYTES[dtype]):
        model = _load_weights(folder, config.model.id, device, dtype)
    tokenizer = _load_tokenizer(folder, config.model.id)
    weights = stored_weights([model])
    on_progress(weights.nbytes, weights.nbytes)
    template = _chat_template(tokenizer)
    ready = Ready(
        tokenizer_json=tokenizer.backend_tokenizer.to_str(),
        chat_template=template,
        special_tokens=_special_tokens(tokenizer),
        eos_token_ids=_end_ids(model, tokenizer, template or ""),
        weight_bytes=weights.nbytes,
        bits_per_weight=weights.bits_per_weight,
        device=str(model.device),
        dtype=dtype,
    )
    return LoadedModel(model, ready)


def choose_device(wanted: str) -> str:
    """Return the torch device for `wanted`: "auto" is CUDA where there is one, else the CPU.

    Raises ModelError for a device that is unknown or not there.
    """
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise ModelError(f"There is no device {wanted!r}. Use auto, cpu, cuda or mps.") from error
    there = {
        "cpu": True,
        "cuda": (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not there.get(device.type, False):
        raise ModelError(f"torch finds no device {wanted} on this machine. Use --device cpu.")
    return wanted


def choose_dtype(wanted: str, device: str) -> str:
    """Return the name of the torch dtype for `wanted` on `device`, both of which may be "auto"."""
    if wanted == "auto":
        return "bfloat16" if choose_device(device).startswith("cuda") else "float32"
    if wanted not in DTYPE_BYTES:
        raise ModelError(f"There is no dtype {wanted!r}. Use auto, {', '.join(DTYPE_BYTES)}.")
    if wanted == "float16" and choose_device(device) == "cpu":
        # torch's half-precision matrices are five times slower than float32's there.
        raise ModelError("float16 is for graphics cards. Use --dtype bfloat16 for half the memory.")
    return wanted


def converted(path: Path, header: ModelHeader, dtype: str, on_progress: Progress) -> Path:
    """Return the safetensors folder for a GGUF file, made at the first call.

    The cache key is the file (size, time, header), the dtype and who converted it.
    """
    parent = cache_dir() / "converted"
    folder = parent / f"{path.stem}-{dtype}-{_identity(path)}"
    if folder.is_dir():
        # Its last use, for _prune; the cache may be shared and not ours to write.
        with contextlib.suppress(OSError):
            os.utime(folder)
        return folder
    _prune(parent)
    total = header.parameters * DTYPE_BYTES[dtype]
    try:
        with scratch_dir(parent) as scratch:
            _check_space(scratch, total)
            target = scratch / "model"
            target.mkdir()
            _convert(path, target, dtype, total, on_progress)
            _publish(target, folder)
    except OSError as error:
        raise ModelError(
            f"{parent} cannot be written: {error.strerror or error}. "
            "Make room there, or set MASHBOX_CACHE_DIR to another folder."
        ) from error
    return folder


def _prune(parent: Path) -> None:
    """Remove the conversions that nobody has used for long; a server that runs keeps its files."""
    for folder in parent.glob("[!.]*"):
        if time.time() - folder.stat().st_mtime > _UNUSED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _identity(path: Path) -> str:
    stat = path.stat()
    digest = hashlib.sha256(f"{_CONVERSION} {transformers.__version__} ".encode())
    digest.update(f"{stat.st_size} {stat.st_mtime_ns} ".encode())
    with path.open("rb") as file:
        digest.update(file.read(read_gguf_header(path).data_start))
    return digest.hexdigest()[:16]


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed * 1.05:
        raise ModelError(
            f"Converting the model needs {needed / 1e9:.1f} GB in {folder.parent}; "
            f"{free / 1e9:.1f} GB is free. Set MASHBOX_CACHE_DIR to another disk."
        )


def _convert(path: Path, target: Path, dtype: str, total: int, on_progress: Progress) -> None:
    """Run gguf_convert, reporting the bytes of weights written so far."""
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.gguf_convert", str(path.resolve()), str(target), dtype],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        while (said := _said(process)) is None:
            written = sum(f.stat().st_size for f in target.glob("*.safetensors"))
            on_progress(min(written, total), total)
    finally:
        process.kill()
        process.communicate()
    if process.returncode < 0:
        said = f"the converter was stopped by signal {-process.returncode}" + (
            " (probably out of memory)" if process.returncode == -signal.SIGKILL else ""
        )
    if process.returncode != 0:
        reason = said.strip().rstrip(".") or "the converter failed"
        raise ModelError(f"{path} cannot be loaded: {reason}.")


def _said(process: subprocess.Popen[str]) -> str | None:
    """Return the process's output once it has ended; its stdin stays open until then."""
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    return process.stdout.read() if process.stdout else ""


def _publish(target: Path, folder: Path) -> None:
    """Move the finished folder to its place; another process may have been first."""
    try:
        target.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


@contextlib.contextmanager
def _watched(on_progress: Progress, total: int) -> Iterator[None]:
    """Report bytes out of `total` as transformers' own bar moves, weight by weight."""

    def bar(factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return _reported(args[0], on_progress, total) if args else factory(*args, **options)

    before = set_tqdm_hook(bar)
    try:
        yield
    finally:
        set_tqdm_hook(before)


def _reported(items: Collection[Any], on_progress: Progress, total: int) -> Iterator[Any]:
    for number, item in enumerate(items):
        on_progress(total * number // len(items), total)
        yield item


def _load_weights(folder: Path, name: str, device: str, dtype: str) -> Any:
    """Load the weights; on the CPU in their own dtype they stay mapped from the file."""
    options = {
        "dtype": getattr(torch, dtype),
        "device_map": _device_map(device),
        "use_safetensors": True,
        "trust_remote_code": False,
        "local_files_only": True,
    }
    try:
        try:
            model = _from_pretrained(folder, **options, attn_implementation="sdpa")
        except ValueError:
            # Classes without SDPA say so with a ValueError before any weight is read.
            model = _from_pretrained(folder, **options, attn_implementation="eager")
    except Exception as error:
        # Whatever a foreign model class raises: the user needs one sentence, not its traceback.
        raise ModelError(f"{name} cannot be loaded: {_first_line(error)}.") from error
    return model.eval()


def _from_pretrained(folder: Path, **options: Any) -> Any:
    config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
    # Some classes that also see, as Mistral3's, are not listed as writers of text.
    writes = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
    auto = AutoModelForCausalLM if writes else AutoModelForImageTextToText
    return auto.from_pretrained(str(folder), **options)


def _device_map(device: str) -> str | dict[str, str]:
    """Spread over all GPUs where there are several, else put everything on the one device."""
    several = device == "cuda" and torch.cuda.device_count() > 1
    return "auto" if several else {"": device}


def _load_tokenizer(folder: Path, name: str) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
    except Exception as error:
        raise ModelError(f"{name}'s tokenizer cannot be loaded: {_first_line(error)}.") from error
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise ModelError(f"{name}'s tokenizer ({type(tokenizer).__name__}) has no fast form.")
    return tokenizer


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".: ")[:300]


def _chat_template(tokenizer: Any) -> str | None:
    """Return the template for plain chats where a model has several."""
    template = tokenizer.chat_template
    return template.get("default") if isinstance(template, dict) else template


def _special_tokens(tokenizer: Any) -> dict[str, str]:
    tokens = {name: getattr(tokenizer, name, None) for name in _TEMPLATE_VARIABLES}
    return {name: str(token) for name, token in tokens.items() if token is not None}


def _end_ids(model: Any, tokenizer: Any, template: str) -> tuple[int, ...]:
    """Collect every id that ends an answer; files often name only some of them."""
    text_config = model.config.get_text_config()
    stated = (model.generation_config, model.config, text_config, tokenizer)
    ids = {i for source in stated for i in _as_ids(getattr(source, "eos_token_id", None))}
    added = {token.content: i for i, token in tokenizer.added_tokens_decoder.items()}
    if "<|return|>" in added:
        # Here <|end|> ends a message, and the answer goes on with the next one.
        added.pop("<|end|>", None)
    ids |= {added[t] for t in _END_OF_TURN if t in added and t in template}
    ids |= {added[t] for t in _END_OF_TEXT if t in added}
    return tuple(sorted(ids))


def _as_ids(value: Any) -> list[int]:
    return [value] if isinstance(value, int) else list(value or ())
