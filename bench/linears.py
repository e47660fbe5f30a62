"""The linear layers of one decode step of a 135M model, in each of the ways to compute them.

    OMP_NUM_THREADS=1 python -m bench.linears

Prints processor milliseconds, the median of nine runs in turn, for numbers of rows.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import nn

from engine.int8_linear import Int8Linear
from engine.native_linear import NativeInt8Linear, native_int8
from engine.packed_linear import PackedLinear

ROWS = (1, 2, 4, 8, 16, 64, 256)
_RUNS = 9
# In and out of a layer's fused query, key and value, its output, gate and up, and down.
_LAYER = ((576, 960), (576, 576), (576, 3072), (1536, 576))
_LAYERS = 30
_HEAD = (576, 49152)
_SHAPES = (*_LAYER * _LAYERS, _HEAD)
WAYS: dict[str, Callable[[nn.Linear], nn.Module]] = {
    "float32, F.linear": lambda linear: linear,
    "float32, packed": PackedLinear,
    "int8, FBGEMM": Int8Linear,
}
if _native := native_int8():
    WAYS["int8, native"] = functools.partial(NativeInt8Linear, _native)


def main() -> None:
    """Print a row of the table for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    torch.manual_seed(0)
    linears = [nn.Linear(*shape, bias=False) for shape in _SHAPES]
    ways = {name: [make(linear) for linear in linears] for name, make in WAYS.items()}
    print("rows".ljust(20), *(f"{rows:5}" for rows in ROWS))
    table = [measure(ways, rows) for rows in ROWS]
    for name in WAYS:
        print(name.ljust(20), *(f"{row[name]:5.0f}" for row in table))


@torch.inference_mode()
def measure(ways: dict[str, list[nn.Module]], rows: int) -> dict[str, float]:
    """Run each way in turn; gives its median processor milliseconds for `rows` rows."""
    inputs = [torch.randn(rows, width) for width, _ in _SHAPES]
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(_RUNS + 1):
        for name, modules in ways.items():
            began = time.process_time()
            for module, rows_in in zip(modules, inputs, strict=True):
                module(rows_in)
            times[name].append(1000 * (time.process_time() - began))
    # The first run of each prepares its kernels.
    return {name: median(taken[1:]) for name, taken in times.items()}


if __name__ == "__main__":
    main()
