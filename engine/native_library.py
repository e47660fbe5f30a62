"""Compiles the C++ of `engine/native/` once for this CPU, and loads it; without it torch computes.

The functions have a plain C interface and take pointers, so no headers of torch are needed and
compiling takes seconds. Threads are those of torch's own OpenMP library (`native/parallel.h`).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
from pathlib import Path

import torch

from engine.fetch import cache_dir, scratch_dir

_logger = logging.getLogger(__name__)

_SOURCES = Path(__file__).parent / "native"
# Sums keep the order they are written in: no -ffast-math.
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti")
_COMPILERS = ("c++", "g++", "clang++")
_COMPILE_SECONDS = 120


class _NativeError(Exception):
    """Why there is no native library here."""


@functools.cache
def native_library() -> ctypes.CDLL | None:
    """Return the compiled functions, or None, with a line in the log, where they cannot be had."""
    try:
        _share_openmp()
        return ctypes.CDLL(str(_built(cache_dir() / "native")))
    except (_NativeError, OSError, subprocess.SubprocessError) as error:
        _logger.warning("No native kernels, torch computes instead: %s", _reason(error))
        return None


def compiler_version() -> str | None:
    """Return the C++ compiler's name and version, None without one that runs."""
    try:
        compiler = _compiler()
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    except (_NativeError, OSError, subprocess.SubprocessError):
        return None
    return f"{compiler}: {done.stdout.partition(chr(10))[0]}"


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return (
            f"{error.filename} cannot be written: {error.strerror}. "
            "Set MASHBOX_CACHE_DIR to another folder."
        )
    return str(error)


def files_to_compile() -> int:
    """Return how many files `native_library` has to compile: 0 if they are there, or cannot be."""
    try:
        library = _place(cache_dir() / "native", _compiler())
        return 0 if _is_whole(library) else len(_sources())
    except (_NativeError, OSError, subprocess.SubprocessError):
        return 0


def _share_openmp() -> None:
    """Make the symbols of the OpenMP library that torch has loaded visible to ours."""
    if platform.machine() != "x86_64" or not Path("/proc/self/maps").exists():
        raise _NativeError(f"they are for x86-64 Linux, this is {platform.platform()}.")
    mapped = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
    # Wheels hold it in `torch/lib` or in `torch.libs`; other packages bring copies of their own.
    ours = [path for path in mapped if path.startswith(str(Path(torch.__file__).parent))]
    found = [path for path in ours if Path(path).name.startswith(("libgomp", "libiomp"))]
    if not found:
        raise _NativeError("torch has loaded no OpenMP library.")
    ctypes.CDLL(found[0], ctypes.RTLD_GLOBAL)


def _built(parent: Path) -> Path:
    """Return the library for these sources, this compiler and this CPU, made at the first call."""
    compiler = _compiler()
    library = _place(parent, compiler)
    if _is_whole(library):
        return library
    with scratch_dir(parent) as scratch:
        made = scratch / library.name
        _compile([compiler, *_FLAGS, *_sources(), "-o", str(made)])
        _seal(made)
        library.parent.mkdir(exist_ok=True)
        # Another process may have put the same there meanwhile.
        os.replace(made, library)
    return library


def _place(parent: Path, compiler: str) -> Path:
    return parent / _key(compiler) / "kernels.so"


def _sources() -> list[str]:
    return sorted(map(str, _SOURCES.glob("*.cpp")))


def _seal(library: Path) -> None:
    """Append the sum of the file to it, which who loads it ignores."""
    total = hashlib.sha256(library.read_bytes()).digest()
    with library.open("ab") as file:
        file.write(total)


def _is_whole(library: Path) -> bool:
    """Whether it is as it was made: loading what a power cut left of it could end the process."""
    data = library.read_bytes() if library.exists() else b""
    size = hashlib.sha256().digest_size
    return hashlib.sha256(data[:-size]).digest() == data[-size:]


def _compile(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise _NativeError(f"{command[0]} failed: {next(iter(lines), done.returncode)}")


def _compiler() -> str:
    wanted = (os.environ.get("CXX", ""), *_COMPILERS)
    found = next(filter(None, map(shutil.which, filter(None, wanted))), None)
    if found is None:
        raise _NativeError("there is no C++ compiler. Install g++ or set CXX.")
    return found


def _key(compiler: str) -> str:
    """Hash all that the library's code depends on."""
    version = subprocess.run(
        [compiler, "--version"], capture_output=True, check=True, timeout=_COMPILE_SECONDS
    )
    digest = hashlib.sha256(version.stdout)
    digest.update(repr((compiler, _FLAGS, _cpu())).encode())
    for path in sorted(_SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _cpu() -> list[str]:
    """The lines that tell one CPU's instruction set from another's."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return sorted({line for line in lines if line.startswith(("model name", "flags"))})
