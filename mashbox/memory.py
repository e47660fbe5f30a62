"""What fits: free memory against a model's estimate, before any weight is read."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil

from engine.errors import ModelError
from engine.memory_estimate import WORKER_BYTES, MemoryEstimate, estimate_memory
from engine.model_files import ModelHeader

# What so many tokens in so many slots take.
Need = Callable[[int, int], MemoryEstimate]

_CTX_STEP = 256
# Bytes; far more than the conversations of a few people at a time need.
_CACHE_RAM = 2**31
_PARAMETERS = re.compile(r"(\d+(?:\.\d+)?)([BM])")
_UNITS = {"B": 10**9, "M": 10**6}
_CGROUP = Path("/sys/fs/cgroup")


def free_bytes(device: str) -> int | None:
    """Free memory where the model will live; None when it cannot be told."""
    if device in ("auto", "cuda") or device.startswith("cuda:"):
        gpu = _gpu_free(device.partition(":")[2] or "0")
        if gpu is not None or device != "auto":
            return gpu
    return _host_free() if device in ("auto", "cpu") else None


def _host_free() -> int:
    free = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError):
        # In a container the limit counts, not the machine.
        limit = int((_CGROUP / "memory.max").read_text())
        free = min(free, limit - int((_CGROUP / "memory.current").read_text()))
    return free


def _gpu_free(index: str) -> int | None:
    query = [
        "nvidia-smi",
        f"--id={index}",
        "--query-gpu=memory.free",
        "--format=csv,noheader,nounits",
    ]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
        return int(done.stdout.split()[0]) * 2**20
    return None


def is_gpu(device: str) -> bool:
    """Whether a model on `device` lives in a graphics card's own memory."""
    return device not in ("cpu", "mps") and _gpu_free(device.partition(":")[2] or "0") is not None


def memory_need(header: ModelHeader, device: str, dtype: str, quant: str) -> Need:
    """Estimates for one model on `device`; graphics cards never round to int8."""
    return partial(estimate_memory, header, dtype, "none" if is_gpu(device) else quant)


def choose_cache_ram(wanted: int | None, model_bytes: int) -> int:
    """Give the bytes for prompts in host memory: `wanted` MiB, or what is left there, in part.

    `model_bytes` are those that the model takes in host memory.
    """
    if wanted is not None:
        return wanted * 2**20
    return min(_CACHE_RAM, max(0, _host_free() - model_bytes) // 4)


def choose_ctx(
    name: str, longest: int, wanted: int | None, slots: int, need: Need, free: int | None
) -> int:
    """Give the context length to run: the wanted one, or the largest that fits.

    `longest` is the model's own maximum. Raises ModelError, with advice, when the wanted one is
    beyond it or does not fit.
    """
    if wanted is not None and wanted > longest:
        raise ModelError(
            f"{name} has a context of at most {longest} tokens. Pass --ctx {longest} or less."
        )
    if free is None:
        return wanted or longest
    ctx = wanted or _largest(longest, slots, need, free)
    if not ctx or need(ctx, slots).total_bytes > free:
        raise ModelError(_does_not_fit(name, longest, ctx or _CTX_STEP, slots, need, free))
    return ctx


def _largest(longest: int, slots: int, need: Need, free: int) -> int:
    """The largest context whose estimate fits `free`, in whole steps unless it is the maximum."""
    most = need(longest, slots)
    if most.total_bytes <= free:
        return longest
    left = free - (most.total_bytes - most.cache_bytes)
    steps = max(0, left // need(_CTX_STEP, slots).cache_bytes)
    # Loading may need more than what is left for so short a context.
    return steps * _CTX_STEP if need(steps * _CTX_STEP, slots).total_bytes <= free else 0


def _does_not_fit(name: str, longest: int, ctx: int, slots: int, need: Need, free: int) -> str:
    estimate = need(ctx, slots)
    cache = _gb(estimate.cache_bytes)
    text = (
        f"{name} needs about {_gb(estimate.total_bytes)} GB (weights "
        f"{_gb(estimate.weights_bytes)}, cache {slots} × {ctx} tokens {cache}); "
        f"{_gb(free)} GB is free."
    )
    for fewer in range(slots, 0, -1):
        if fit := _largest(longest, fewer, need, free):
            needs = _gb(need(fit, fewer).total_bytes)
            slots_advice = "" if fewer == slots else f" --slots {fewer}"
            return f"{text} Try --ctx {min(fit, ctx)}{slots_advice} (needs {needs} GB)."
    return f"{text} Take a smaller model."


def rough_bytes(parameters: str, width: int) -> int | None:
    """Estimate what a model takes at least from its size as people write it, such as 0.6B.

    Weights take `width` bytes each. None where `parameters` is not so written.
    """
    found = _PARAMETERS.match(parameters)
    if found is None:
        return None
    return WORKER_BYTES + int(float(found[1]) * _UNITS[found[2]] * width)


def describe_memory(estimate: MemoryEstimate, slots: int, ctx: int, free: int | None) -> str:
    """Tell in one line what a model takes; `free` is left out where it cannot be told."""
    needs = f"needs {_gb(estimate.total_bytes)}"
    return (
        f"weights {estimate.weights_bytes / 1e9:.2f} GB · cache {slots} slots × {ctx} tokens "
        f"{estimate.cache_bytes / 1e9:.2f} GB · "
        + (f"{needs} of {_gb(free)} GB free" if free is not None else f"{needs} GB")
    )


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f}"
