"""Compiles the C++ of `engine/native/` once for this CPU; never imports torch.

The functions have a plain C interface and take pointers, so no headers of torch are needed and
compiling takes seconds.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

from engine.fetch import cache_dir, scratch_dir

_SOURCES = Path(__file__).parent / "native"
# Sums keep the order they are written in: no -ffast-math.
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti")
_COMPILERS = ("c++", "g++", "clang++")
_COMPILE_SECONDS = 120


class NativeError(Exception):
    """Why there is no native library here."""


def native_platform() -> bool:
    """Whether this is a system that the C++ is for."""
    return platform.machine() == "x86_64" and Path("/proc/self/maps").exists()


def files_to_compile() -> int:
    """Return how many files `build` has to compile: 0 if they are there, or cannot be."""
    try:
        library = _place(_compiler())
        return 0 if _is_whole(library) else len(_sources())
    except (NativeError, OSError, subprocess.SubprocessError):
        return 0


def compiler_version() -> str | None:
    """Return the C++ compiler's name and version, None without one that runs."""
    try:
        compiler = _compiler()
        said = _version(compiler)
    except (NativeError, OSError, subprocess.SubprocessError):
        return None
    return f"{compiler}: {said.partition(chr(10))[0]}"


@functools.cache
def int8_kernels_expected() -> bool:
    """Whether the library, once it is there, will multiply int8 matrices on this CPU."""
    try:
        return native_platform() and bool(_compiler()) and any("avx2" in line for line in _cpu())
    except (NativeError, OSError):
        return False


def build() -> Path:
    """Return the library for these sources, this compiler and this CPU, made at the first call.

    Raises NativeError, OSError or subprocess.SubprocessError where it cannot be had.
    """
    compiler = _compiler()
    library = _place(compiler)
    if _is_whole(library):
        return library
    with scratch_dir(library.parents[1]) as scratch:
        made = scratch / library.name
        _compile([compiler, *_FLAGS, *_sources(), "-o", str(made)])
        _seal(made)
        library.parent.mkdir(exist_ok=True)
        # Another process may have put the same there meanwhile.
        os.replace(made, library)
    return library


def _place(compiler: str) -> Path:
    return cache_dir() / "native" / _key(compiler) / "kernels.so"


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
        raise NativeError(f"{command[0]} failed: {next(iter(lines), done.returncode)}")


def _compiler() -> str:
    wanted = (os.environ.get("CXX", ""), *_COMPILERS)
    found = next(filter(None, map(shutil.which, filter(None, wanted))), None)
    if found is None:
        raise NativeError("there is no C++ compiler. Install g++ or set CXX.")
    return found


def _version(compiler: str) -> str:
    command = [compiler, "--version"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=_COMPILE_SECONDS)
    # A translated one may have any letters; it only has to be the same each time.
    return done.stdout.decode(errors="replace")


def _key(compiler: str) -> str:
    """Hash all that the library's code depends on."""
    digest = hashlib.sha256(_version(compiler).encode())
    digest.update(repr((compiler, _FLAGS, _cpu())).encode())
    for path in sorted(_SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _cpu() -> list[str]:
    """The lines that tell one CPU's instruction set from another's."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return sorted({line for line in lines if line.startswith(("model name", "flags"))})
