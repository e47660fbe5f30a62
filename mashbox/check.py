"""`mashbox check`: what this machine is, and which models fit into it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import psutil

from engine.catalog import entries, find
from engine.catalog_file import Entry
from engine.config import DEFAULT_SLOTS, ModelSource
from engine.errors import ModelError
from engine.fetch import cache_dir
from engine.machine import Machine, ask_machine
from engine.model_files import read_header
from mashbox import __version__
from mashbox.columns import columns
from mashbox.memory import (
    Demand,
    Room,
    choose_ctx,
    describe_memory,
    find_room,
    host_free,
    rough_bytes,
)
from mashbox.models import refuse_mock
from mashbox.wording import counted, size

# What the kernels are written for, the slowest first.
_FEATURES = ("avx", "avx2", "avx512f", "avx512bw", "avx512dq", "avx_vnni", "avx512_vnni")
_CPU_INFO = Path("/proc/cpuinfo")


def machine_report() -> Iterator[str]:
    """Give the lines about the machine, then a table of what fits; raises ModelError."""
    machine = ask_machine()
    name, flags = _cpu()
    yield f"mashbox    {__version__}, torch {machine.torch}"
    yield f"device     {_device(machine)}"
    yield f"cpu        {name}, {counted(machine.threads, 'thread')}"
    yield f"features   {', '.join(f for f in _FEATURES if f in flags) or 'none that kernels use'}"
    yield f"kernels    {_kernels(machine)}"
    yield f"compiler   {machine.compiler or 'none'}"
    room = find_room("auto")
    yield f"memory     {_memory(room)}"
    yield f"cache      {cache_dir()}, {size(_folder_bytes(cache_dir()))}"
    yield ""
    rows = [(entry.id, entry.parameters or "-", *_fit(entry, room)) for entry in entries()]
    yield from columns([("MODEL", "PARAMETERS", "NEEDS ABOUT", "FITS"), *rows])


def model_report(name: str) -> str:
    """Say what the model would take as `mashbox run` would run it.

    Raises ModelError, with advice, when it does not fit or is not known.
    """
    refuse_mock(name)
    found = find(name)
    room = find_room("auto")
    if isinstance(found, ModelSource):
        demand = Demand.of(found.id, read_header(found.path), room, "auto", "auto")
        ctx = choose_ctx(demand, None, DEFAULT_SLOTS, room.free)
        took = describe_memory(demand.need(ctx, DEFAULT_SLOTS), DEFAULT_SLOTS, ctx, room.free)
        return f"{found.id}: {took}"
    needs, fits = _fit(found, room)
    need = f"What {name} needs is not known" if needs == "-" else f"{name} needs about {needs}"
    told = f"{need}, {size(room.free)} is free. It is not on this machine yet"
    if fits == "no":
        raise ModelError(f"{told}, and will not fit. Take a smaller model.")
    advice = "" if fits in ("yes", "?") else f"; it will fit {fits}"
    download = "" if found.size_bytes is None else f" ({size(found.size_bytes)} to fetch)"
    return f"{told}{download}{advice}. Fetch it: mashbox pull {name}"


def _device(machine: Machine) -> str:
    return f"cuda ({', '.join(machine.gpus)})" if machine.gpus else "cpu"


def _kernels(machine: Machine) -> str:
    if machine.why_not_native:
        return machine.why_not_native
    return "native" if machine.int8 else "native, but without int8"


def _memory(room: Room) -> str:
    line = f"{size(host_free())} of {size(psutil.virtual_memory().total)} free"
    return f"{line}; {size(room.free)} free on the graphics card" if room.on_gpu else line


def _fit(entry: Entry, room: Room) -> tuple[str, str]:
    """What an entry needs at least, from its parameters alone, and whether that is there."""
    needs = rough_bytes(entry.parameters, room.dtype)
    half = rough_bytes(entry.parameters, "bfloat16")
    if needs is None or half is None or room.free is None:
        return size(needs), "?"
    fits = "yes" if needs <= room.free else "with --dtype bfloat16" if half <= room.free else "no"
    return size(needs), fits


def _cpu() -> tuple[str, set[str]]:
    """The processor's name and features, as Linux tells them."""
    text = _CPU_INFO.read_text() if _CPU_INFO.exists() else ""
    found = {
        key: re.search(rf"^{key}\s*: (.*)$", text, re.MULTILINE) for key in ("model name", "flags")
    }
    name, flags = (match[1] if match else "" for match in found.values())
    return name or "unknown", set(flags.split())


def _folder_bytes(folder: Path) -> int:
    files = (Path(parent) / name for parent, _, names in os.walk(folder) for name in names)
    # A link counts as itself: what it leads to lies elsewhere.
    return sum(file.lstat().st_size for file in files if file.exists())
