"""Giving memory back to the operating system: what is freed, and what a file can give again."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from pathlib import Path

_MAPPINGS = Path("/proc/self/maps")
_MADV_DONTNEED = 4


def trim_memory() -> None:
    """Collect garbage, then `release_pages`."""
    gc.collect()
    release_pages()


def release_pages() -> None:
    """Give back what is freed, which glibc keeps, and the pages of mapped weight files.

    Mapped pages are read again where they are used again; nothing may have been written into them.
    Elsewhere than on Linux nothing happens.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.malloc_trim(0)
        for line in _MAPPINGS.read_text().splitlines():
            if line.endswith(".safetensors"):
                start, end = (int(address, 16) for address in line.split()[0].split("-"))
                libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)
