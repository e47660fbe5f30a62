"""The peers' programs, each installed once from PyPI into the cache."""

from __future__ import annotations

import platform
import subprocess
import sys
import tarfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from engine.fetch import cache_dir, scratch_dir

# Its source archive carries llama.cpp whole; wheels are built for every x86-64 and lack AVX-512.
LLAMA_CPP = "llama-cpp-python==0.3.36"
_CMAKE = (
    *("-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DGGML_NATIVE=ON"),
    *("-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF"),
    *("-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF"),
)


def transformers_program() -> Path:
    """The `transformers` command in an environment of its own, in the versions that run here."""
    folder = _programs() / f"transformers-{version('transformers')}"
    program = folder / "bin" / "transformers"
    if not program.exists():
        # An environment cannot be moved, so that this one is made in its place.
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        torch = f"torch=={version('torch').partition('+')[0]}"
        packages = (torch, f"transformers[serving]=={version('transformers')}", "accelerate")
        _run(str(folder / "bin" / "python"), "-m", "pip", "install", *packages)
    return program


def llama_server_program() -> Path:
    """`llama-server`, built for this machine; needs cmake and a C++ compiler."""
    name = LLAMA_CPP.replace("==", "-") + f"-{platform.machine()}"
    return _made(_programs() / name, _build_llama_server)


def _build_llama_server(scratch: Path) -> Path:
    _run(sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(scratch), LLAMA_CPP)
    (archive,) = scratch.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(scratch, filter="data")
    (source_folder,) = scratch.glob("*/vendor/llama.cpp")
    build = scratch / "build"
    _run("cmake", "-S", str(source_folder), "-B", str(build), *_CMAKE)
    _run("cmake", "--build", str(build), "--target", "llama-server", "--parallel", "2")
    return build / "bin" / "llama-server"


def _programs() -> Path:
    return cache_dir() / "bench"


def _made(target: Path, make: Callable[[Path], Path]) -> Path:
    """`target`, made at the first call; `make` gets a folder and gives what is moved there."""
    if not target.exists():
        with scratch_dir(target.parent) as scratch:
            make(scratch).rename(target)
    return target


def _run(*command: str) -> None:
    print("$", *command, file=sys.stderr)
    subprocess.run(command, check=True, stdout=sys.stderr)
