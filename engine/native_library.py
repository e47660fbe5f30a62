"""Loads the compiled C++ of `engine/native/`; without it torch computes.

Its threads are those of torch's own OpenMP library (`native/parallel.h`).
"""

from __future__ import annotations

import ctypes
import functools
import logging
import platform
import subprocess
from pathlib import Path

import torch

from engine.native_compiler import NativeError, build, native_platform

_logger = logging.getLogger(__name__)


@functools.cache
def native_library() -> ctypes.CDLL | None:
    """Return the compiled functions, or None, with a line in the log, where they cannot be had."""
    try:
        _share_openmp()
        return ctypes.CDLL(str(build()))
    except (NativeError, OSError, subprocess.SubprocessError) as error:
        _logger.warning("No native kernels, torch computes instead: %s", _reason(error))
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return (
            f"{error.filename} cannot be written: {error.strerror}. "
            "Set MASHBOX_CACHE_DIR to another folder."
        )
    return str(error)


def _share_openmp() -> None:
    """Make the symbols of the OpenMP library that torch has loaded visible to ours."""
    if not native_platform():
        raise NativeError(f"they are for x86-64 Linux, this is {platform.platform()}.")
    mapped = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
    # Wheels hold it in `torch/lib` or in `torch.libs`; other packages bring copies of their own.
    ours = [path for path in mapped if path.startswith(str(Path(torch.__file__).parent))]
    found = [path for path in ours if Path(path).name.startswith(("libgomp", "libiomp"))]
    if not found:
        raise NativeError("torch has loaded no OpenMP library.")
    ctypes.CDLL(found[0], ctypes.RTLD_GLOBAL)
