"""Drawing tokens from rows of logits in float32 on the CPU by `engine/native/draw.cpp`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from engine.native_library import native_library
from engine.request import SamplingParams


class _Draw(ctypes.Structure):
    """`Draw` of the kernel."""

    _fields_ = (
        ("logits", ctypes.c_void_p),
        ("key", ctypes.c_uint64),
        ("top_k", ctypes.c_int64),
        *((name, ctypes.c_float) for name in ("temperature", "top_p", "min_p")),
        ("id", ctypes.c_int32),
    )


def native_draw(
    logits: torch.Tensor, rows: Sequence[int], params: Sequence[SamplingParams], keys: Sequence[int]
) -> list[int] | None:
    """Return the ids for `rows` of `logits` `[n, vocab]`, or None where the kernel cannot draw.

    `params` and `keys` are those of `rows`; a key is the 64 bits of seed and position.
    """
    is_plain = logits.is_cpu and logits.dtype == torch.float32 and logits.stride(-1) == 1
    library = native_library() if is_plain else None
    if library is None:
        return None
    start, step = logits.data_ptr(), logits.stride(0) * logits.element_size()
    draws = (_Draw * len(rows))(
        *(
            _Draw(start + row * step, key, p.top_k, max(p.temperature, 1e-30), p.top_p, p.min_p)
            for row, p, key in zip(rows, params, keys, strict=True)
        )
    )
    library.draw(
        draws,
        ctypes.c_int64(len(rows)),
        ctypes.c_int64(logits.shape[-1]),
        ctypes.c_int32(torch.get_num_threads()),
    )
    return [draw.id for draw in draws]
