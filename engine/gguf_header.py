"""The header of a GGUF file, read without trusting it (format: ggml's gguf.md)."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from engine.errors import ModelError

Scalar = int | float | bool | str
Value = Scalar | tuple[Scalar, ...]

# A real header is below 20 MiB; what lies beyond this is never looked at, so that no header,
# however large its counts, costs more than a few seconds or this much memory.
_HEADER_LIMIT = 128 << 20
_KEPT_NUMBERS = 1 << 20
_STRING, _ARRAY = 8, 9
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))

# ggml type id -> (weights in a block, bytes of a block)
BLOCK_SIZES = {
    **{0: (1, 4), 1: (1, 2), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8)},
    **{30: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210)},
    **{15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18)},
    **{21: (256, 110), 22: (256, 82), 23: (256, 136), 29: (256, 56), 34: (256, 54), 35: (256, 66)},
    **{39: (32, 17)},
}

_KNOWN_STARTS = {
    b"PK\x03\x04": "a zip",
    b"\x1f\x8b": "a gzip",
    b"vers": "a Git LFS pointer: run git lfs pull",
    b"<!": "an HTML page: the download failed",
    b"<h": "an HTML page: the download failed",
    b"\x80": "a pickle",
    b"ggml": "the format before GGUF",
    b"ggjt": "the format before GGUF",
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor: `shape` as ggml has it, fastest dimension first; `offset` from the data start."""

    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int

    @property
    def weights(self) -> int:
        """Return how many weights the tensor holds."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Return how many bytes they take in the file."""
        per_block, block_bytes = BLOCK_SIZES[self.type_id]
        return self.weights // per_block * block_bytes


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata and tensor table; arrays that were not kept appear in `lengths` only."""

    metadata: dict[str, Value] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    tensors: tuple[TensorInfo, ...] = ()
    data_start: int = 0


def read_gguf_header(path: Path, keep: Collection[str] = ()) -> GgufHeader:
    """Read the header of `path`, with the string arrays named in `keep`.

    Raises ModelError for a file that is no GGUF, is cut short, or has a header that makes no sense.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            _check_start(path, file.read(8), size)
            with mmap.mmap(
                file.fileno(), min(size, _HEADER_LIMIT), access=mmap.ACCESS_READ
            ) as view:
                header = _Reader(view).header(keep)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from error
    except struct.error as error:
        raise ModelError(f"{path} ends in the middle of its header. Download it again.") from error
    except ValueError as error:
        raise ModelError(f"{path} is not a usable GGUF file: {error}.") from error
    _check_end(path, header, size)
    return header


def _check_start(path: Path, start: bytes, size: int) -> None:
    if size == 0:
        raise ModelError(f"{path} is empty. Download it again.")
    if not start.startswith(b"GGUF"):
        kind = next((name for magic, name in _KNOWN_STARTS.items() if start.startswith(magic)), "")
        found = start[:4].hex() + (f": {kind}" if kind else "")
        raise ModelError(f"{path} is not a GGUF file (first bytes {found}).")


def _check_end(path: Path, header: GgufHeader, size: int) -> None:
    end = header.data_start + max(t.offset + t.nbytes for t in header.tensors)
    if end > size:
        raise ModelError(f"{path} is cut short: {size} of {end} bytes. Download it again.")


class _Reader:
    """A cursor over the header's bytes; `struct.error` means that they ended too early."""

    def __init__(self, view: mmap.mmap) -> None:
        self._view = view
        self._at = 4

    def header(self, keep: Collection[str]) -> GgufHeader:
        version = self._number("I")
        if version not in (2, 3):
            raise ValueError(f"its version is {version:#x}, and versions 2 and 3 are known")
        tensor_count, pair_count = self._number("Q"), self._number("Q")
        metadata: dict[str, Value] = {}
        lengths: dict[str, int] = {}
        for _ in range(pair_count):
            key = self._string()
            kind = self._number("I")
            if kind == _ARRAY:
                self._array(key, key in keep, metadata, lengths)
            else:
                metadata[key] = self._scalar(kind)
        tensors = tuple(self._tensor() for _ in range(tensor_count))
        if not tensors:
            raise ValueError("it holds no weights")
        return GgufHeader(metadata, lengths, tensors, self._data_start(metadata))

    def _data_start(self, metadata: dict[str, Value]) -> int:
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
            raise ValueError(f"its alignment is {alignment}")
        return -(-self._at // alignment) * alignment

    def _number(self, code: str) -> int:
        (value,) = struct.unpack_from("<" + code, self._view, self._at)
        self._at += struct.calcsize(code)
        return value  # type: ignore[no-any-return]

    def _string(self) -> str:
        length = self._number("Q")
        end = self._at + length
        if end > len(self._view):
            raise struct.error("string past the end")
        text = self._view[self._at : end].decode("utf-8", "replace")
        self._at = end
        return text

    def _scalar(self, kind: int) -> Scalar:
        if kind == _STRING:
            return self._string()
        if kind not in _SCALARS:
            raise ValueError(f"it has a metadata value of unknown type {kind}")
        return self._number(_SCALARS[kind])

    def _array(
        self, key: str, keep: bool, metadata: dict[str, Value], lengths: dict[str, int]
    ) -> None:
        kind, count = self._number("I"), self._number("Q")
        lengths[key] = count
        if kind == _STRING and keep:
            metadata[key] = tuple(self._string() for _ in range(count))
        elif kind == _STRING:
            for _ in range(count):
                self._skip(self._number("Q"))
        elif kind not in _SCALARS:
            raise ValueError(f"{key} is an array of unknown type {kind}")
        elif count <= _KEPT_NUMBERS:
            layout = f"<{count}{_SCALARS[kind]}"
            metadata[key] = struct.unpack_from(layout, self._view, self._at)
            self._skip(struct.calcsize(layout))
        else:
            self._skip(count * struct.calcsize(_SCALARS[kind]))

    def _skip(self, length: int) -> None:
        self._at += length
        if self._at > len(self._view):
            raise struct.error("array past the end")

    def _tensor(self) -> TensorInfo:
        name, dimensions = self._string(), self._number("I")
        if dimensions > 4:
            raise ValueError(f"tensor {name[:80]} has {dimensions} dimensions")
        shape = tuple(self._number("Q") for _ in range(dimensions))
        type_id, offset = self._number("I"), self._number("Q")
        if type_id not in BLOCK_SIZES:
            raise ValueError(f"tensor {name[:80]} is of unknown type {type_id}")
        return TensorInfo(name, shape, type_id, offset)
