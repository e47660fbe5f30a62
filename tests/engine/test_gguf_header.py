from __future__ import annotations

import random
import struct
from pathlib import Path

import gguf
import pytest

from engine.errors import ModelError
from engine.gguf_header import BLOCK_SIZES, read_gguf_header
from tests.engine.model_folders import MERGES, write_gguf


def pair(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


def header(pairs: list[bytes], tensors: bytes = b"", count: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, count, len(pairs)) + b"".join(pairs) + tensors


def refusal(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    with pytest.raises(ModelError) as caught:
        read_gguf_header(path)
    return str(caught.value).replace(str(path), "x.gguf")


def test_header_agrees_with_the_gguf_library(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    ours, theirs = read_gguf_header(path), gguf.GGUFReader(path)
    assert ours.metadata["llama.block_count"] == 2
    assert ours.metadata["general.architecture"] == "llama"
    assert [(t.name, list(t.shape), t.nbytes) for t in ours.tensors] == [
        (t.name, t.shape.tolist(), t.n_bytes) for t in theirs.tensors
    ]
    first = ours.data_start + ours.tensors[0].offset
    assert path.read_bytes()[first : first + 16] == theirs.tensors[0].data.tobytes()[:16]


def test_only_wanted_string_arrays_are_kept(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    kept = read_gguf_header(path, keep=["tokenizer.ggml.merges"])
    assert kept.metadata["tokenizer.ggml.merges"] == tuple(MERGES)
    assert "tokenizer.ggml.tokens" not in kept.metadata
    assert kept.lengths["tokenizer.ggml.tokens"] == 256 + 3 + len(MERGES)


def test_block_sizes_are_those_of_ggml() -> None:
    theirs = {int(kind): size for kind, size in gguf.GGML_QUANT_SIZES.items()}
    assert {kind: theirs[kind] for kind in BLOCK_SIZES} == BLOCK_SIZES


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"PK\x03\x04rest", "x.gguf is not a GGUF file (first bytes 504b0304: a zip)."),
        (b"<!DOCTYPE html>", "an HTML page"),
        (b"version https://git-lfs", "a Git LFS pointer: run git lfs pull"),
        (b"\x01\x02\x03\x04", "x.gguf is not a GGUF file (first bytes 01020304)."),
        (b"", "x.gguf is empty. Download it again."),
        (b"GGUF", "ends in the middle of its header"),
    ],
)
def test_what_is_no_gguf_is_named(tmp_path: Path, start: bytes, said: str) -> None:
    assert said in refusal(tmp_path, start)


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf").read_bytes()
    for length in [*range(1, 2500, 37), *range(2500, len(whole), 997), len(whole) - 1]:
        refusal(tmp_path, whole[:length])


def test_flipped_bytes_never_crash_the_reader(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf").read_bytes()
    path, dice = tmp_path / "x.gguf", random.Random(1)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(3):
            data[dice.randrange(4, 6000)] = dice.choice((0, 1, 255, dice.randrange(256)))
        path.write_bytes(data)
        try:
            read_gguf_header(path)
        except ModelError:
            continue


@pytest.mark.parametrize(
    "data",
    [
        header([pair("k", 8, struct.pack("<Q", 1 << 62))]),
        header([pair("k", 9, struct.pack("<IQ", 8, 1 << 62))]),
        header([pair("k", 9, struct.pack("<IQ", 0, 1 << 62))]),
        header([pair("k", 9, struct.pack("<IQ", 4, 1 << 19))]),
        b"GGUF" + struct.pack("<IQQ", 3, 1 << 63, 1 << 63),
    ],
)
def test_huge_counts_cost_nothing(tmp_path: Path, data: bytes) -> None:
    assert "in the middle of its header" in refusal(tmp_path, data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (header([], version=1), "its version is 0x1"),
        (header([], version=0x03000000), "its version is 0x3000000"),
        (header([pair("k", 77, b"")]), "unknown type 77"),
        (header([pair("k", 9, struct.pack("<IQ", 9, 1))]), "an array of unknown type 9"),
        (header([]), "it holds no weights"),
        (header([], struct.pack("<QI", 0, 9), 1), "has 9 dimensions"),
        (header([], struct.pack("<QIQIQ", 0, 1, 4, 99, 0), 1), "of unknown type 99"),
        (
            header([pair("general.alignment", 4, struct.pack("<I", 0))], bytes(24), 1),
            "its alignment is 0",
        ),
    ],
)
def test_nonsense_is_explained(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refusal(tmp_path, data)
