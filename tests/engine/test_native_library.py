from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import native_compiler
from engine import native_library as module
from engine.native_linear import native_int8

needs_compiler = pytest.mark.skipif(
    module.native_library() is None, reason="no C++ compiler or another CPU"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own, and nothing remembered from or for other tests."""
    monkeypatch.setenv("MASHBOX_CACHE_DIR", str(tmp_path))
    caches = module.native_library, native_compiler.int8_kernels_expected
    for cached in caches:
        cached.cache_clear()
    yield tmp_path
    for cached in caches:
        cached.cache_clear()


@needs_compiler
def test_second_call_finds_what_the_first_has_compiled(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert native_compiler.files_to_compile() > 1
    assert module.native_library() is not None
    assert native_compiler.files_to_compile() == 0
    module.native_library.cache_clear()
    monkeypatch.setattr(native_compiler, "_compile", lambda command: pytest.fail("compiled again"))
    assert module.native_library() is not None
    assert len(list(cache.glob("native/*/kernels.so"))) == 1


def test_int8_is_expected_where_the_library_has_it() -> None:
    assert native_compiler.int8_kernels_expected() == bool(native_int8())


@needs_compiler
def test_just_one_openmp_library_is_loaded() -> None:
    code = """
import torch
from engine.native_library import native_library
assert native_library()
lines = open("/proc/self/maps").read().splitlines()
print(*{line.split()[-1] for line in lines if "gomp" in line or "iomp" in line}, sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(done.stdout.split()) == 1


def test_without_a_compiler_there_is_a_line_in_the_log(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert native_compiler.files_to_compile() == 0
    assert not native_compiler.int8_kernels_expected()
    assert module.native_library() is None
    assert module.native_library() is None
    assert len(caplog.records) == 1


def test_compiler_that_fails_is_told(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiler = cache / "c++"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] || { echo "bad flag" >&2; exit 1; }\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert module.native_library() is None
    assert "bad flag" in caplog.text
    assert not list(cache.glob("native/*/*"))


def test_cache_that_cannot_be_written_is_told(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (cache / "native").write_text("a file where the folder belongs")
    assert module.native_library() is None
    assert caplog.messages == [
        f"No native kernels, torch computes instead: {cache}/native cannot be written: "
        "File exists. Set MASHBOX_CACHE_DIR to another folder."
    ]


def test_another_kind_of_cpu_is_told(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native_compiler.platform, "machine", lambda: "arm64")
    assert module.native_library() is None
    assert "x86-64" in caplog.text


@needs_compiler
def test_a_damaged_library_is_made_again(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert module.native_library() is not None
    (library,) = cache.glob("native/*/kernels.so")
    whole = library.read_bytes()
    library.unlink()
    for left in (b"", whole[: len(whole) // 2]):
        library.write_bytes(left)
        assert not native_compiler._is_whole(library)
    # Loading half of a library would end this process with a bus error.
    module.native_library.cache_clear()
    assert module.native_library() is not None
    assert library.stat().st_size == len(whole)
    assert not caplog.records
