"""Giving memory back to the operating system: what is freed, and what a file can give again."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from pathlib import Path

_MAPPINGS = Path("/proc/self/maps")
_MADV_DONTNEED = 4


def trim_memory() -> None:
    """Return what loading has freed; glibc would keep it. Elsewhere nothing happens."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def drop_mapped_weights() -> None:
    """Let go of the pages of mapped weight files; elsewhere than on Linux nothing happens.

    They are read again where they are used again. Nothing may have been written into them.
    """
    with contextlib.suppress(OSError, AttributeError):
        madvise = ctypes.CDLL(None).madvise
        for line in _MAPPINGS.read_text().splitlines():
            if line.endswith(".safetensors"):
                start, end = (int(address, 16) for address in line.split()[0].split("-"))
                madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)
