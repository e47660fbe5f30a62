"""Freed memory goes back to the system."""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

import psutil

from engine.allocator import release_pages

_PROGRAM = """
import ctypes, psutil
from engine.allocator import trim_memory
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
# Blocks below the mmap threshold, the last one kept: the heap cannot shrink by itself.
blocks = [libc.malloc(100_000) for _ in range(500)]
for block in blocks:
    ctypes.memset(block, 1, 100_000)
for block in blocks[:-1]:
    libc.free(block)
process = psutil.Process()
before = process.memory_info().rss
trim_memory()
assert before - process.memory_info().rss > 30_000_000, (before, process.memory_info().rss)
"""


def test_memory_freed_under_a_block_in_use_is_returned() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pages_of_mapped_weights_are_let_go_and_read_again(tmp_path: Path) -> None:
    path, size = tmp_path / "model.safetensors", 50_000_000
    path.write_bytes(b"w" * size)
    process = psutil.Process()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert mapped[:].count(b"w") == size
        before = process.memory_info().rss
        release_pages()
        assert before - process.memory_info().rss > 0.8 * size
        assert mapped[:].count(b"w") == size
