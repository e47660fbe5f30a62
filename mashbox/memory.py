"""What fits: free memory against a model's estimate, before any weight is read."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from engine.errors import ModelError
from engine.memory_estimate import WORKER_BYTES, MemoryEstimate, estimate_memory
from engine.model_files import DTYPE_BYTES, ModelHeader
from mashbox.wording import counted

# What so many tokens in so many slots take.
Need = Callable[[int, int], MemoryEstimate]

_CTX_STEP = 256
# Bytes; far more than the conversations of a few people at a time need.
_CACHE_RAM = 2**31
_PARAMETERS = re.compile(r"(\d+(?:\.\d+)?)([BM])")
_UNITS = {"B": 10**9, "M": 10**6}
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Room:
    """Where a model will live: its free bytes, None when they cannot be told, and whose they are.

    `on_gpu` if they are a graphics card's own.
    """

    free: int | None
    on_gpu: bool

    @property
    def dtype(self) -> str:
        """What a dtype of auto comes to here; the worker's `choose_dtype` asks torch the same."""
        # On the CPU it stays auto, which alone may round to int8.
        return "bfloat16" if self.on_gpu else "auto"


@dataclass(frozen=True, slots=True)
class Demand:
    """What a model asks of memory; `halved` is that in bfloat16, None if the user chose a dtype.

    `longest` is its maximal context in tokens.
    """

    name: str
    longest: int
    need: Need
    halved: Need | None

    @classmethod
    def of(cls, name: str, header: ModelHeader, room: Room, dtype: str, quant: str) -> Demand:
        """Tell it from the header of the model's files."""
        # Graphics cards never round to int8.
        rounding = "none" if room.on_gpu else quant
        need = partial(estimate_memory, header, room.dtype if dtype == "auto" else dtype, rounding)
        halved = partial(estimate_memory, header, "bfloat16", rounding)
        return cls(name, header.max_context, need, halved if dtype == "auto" else None)


def find_room(device: str) -> Room:
    """Find the memory that a model on `device` will live in."""
    if device in ("auto", "cuda") or device.startswith("cuda:"):
        gpu = _gpu_free(device.partition(":")[2] or "0")
        if gpu is not None or device != "auto":
            return Room(gpu, gpu is not None)
    return Room(host_free() if device in ("auto", "cpu") else None, False)


def host_free() -> int:
    """Give the bytes that processes can still take."""
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


def choose_cache_ram(wanted: int | None, model_bytes: int) -> int:
    """Give the bytes for prompts in host memory: `wanted` MiB, or what is left there, in part.

    `model_bytes` are those that the model takes in host memory.
    """
    if wanted is not None:
        return wanted * 2**20
    return min(_CACHE_RAM, max(0, host_free() - model_bytes) // 4)


def choose_ctx(demand: Demand, wanted: int | None, slots: int, free: int | None) -> int:
    """Give the context length to run: the wanted one, or the largest that fits.

    Raises ModelError, with advice, when the wanted one is beyond the model or does not fit.
    """
    name, longest, need = demand.name, demand.longest, demand.need
    if wanted is not None and wanted > longest:
        raise ModelError(
            f"{name} has a context of at most {longest} tokens. Pass --ctx {longest} or less."
        )
    if free is None:
        return wanted or longest
    ctx = wanted or _largest(longest, slots, need, free)
    if not ctx or need(ctx, slots).total_bytes > free:
        ctx = ctx or _CTX_STEP
        raise ModelError(
            f"{name} needs about {_gb(need(ctx, slots).total_bytes)} GB "
            f"({_parts(need(ctx, slots), slots, ctx)}); {_gb(free)} GB is free. "
            f"{_advice(demand, ctx, slots, free)}"
        )
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


def _parts(estimate: MemoryEstimate, slots: int, ctx: int) -> str:
    weights, cache = _gb(estimate.weights_bytes), _gb(estimate.cache_bytes)
    return f"weights {weights}, cache {slots} × {ctx} tokens {cache}"


def _advice(demand: Demand, ctx: int, slots: int, free: int) -> str:
    """Say with which options it would fit: a shorter context, fewer slots, half the precision."""
    need = demand.need
    fewer = next((n for n in range(slots - 1, 0, -1) if need(ctx, n).total_bytes <= free), 0)
    if fit := _largest(demand.longest, slots, need, free):
        other = f" or --slots {fewer}" if fewer else ""
        return f"Try --ctx {fit} (needs {_gb(need(fit, slots).total_bytes)} GB){other}."
    if fewer:
        return f"Try --ctx {ctx} --slots {fewer} (needs {_gb(need(ctx, fewer).total_bytes)} GB)."
    if fit := _largest(demand.longest, 1, need, free):
        return f"Try --ctx {fit} --slots 1 (needs {_gb(need(fit, 1).total_bytes)} GB)."
    if demand.halved and (fit := _largest(demand.longest, slots, demand.halved, free)):
        needs = _gb(demand.halved(min(fit, ctx), slots).total_bytes)
        return f"Try --dtype bfloat16 --ctx {min(fit, ctx)} (needs {needs} GB)."
    return "Take a smaller model."


def rough_bytes(parameters: str, dtype: str) -> int | None:
    """Estimate what a model takes at least from its size as people write it, such as 0.6B.

    A `dtype` of auto counts as float32, for which loading has room even where int8 is kept of it.
    None where `parameters` is not so written.
    """
    found = _PARAMETERS.match(parameters)
    if found is None:
        return None
    return WORKER_BYTES + int(float(found[1]) * _UNITS[found[2]] * DTYPE_BYTES.get(dtype, 4))


def describe_memory(estimate: MemoryEstimate, slots: int, ctx: int, free: int | None) -> str:
    """Tell in one line what a model takes; `free` is left out where it cannot be told."""
    needs = f"needs {_gb(estimate.total_bytes)}"
    return (
        f"weights {estimate.weights_bytes / 1e9:.2f} GB · "
        f"cache {counted(slots, 'slot')} × {ctx} tokens {estimate.cache_bytes / 1e9:.2f} GB · "
        + (f"{needs} of {_gb(free)} GB free" if free is not None else f"{needs} GB")
    )


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f}"
