"""Sampling by torch and by the native kernel, at a vocabulary of 49,152 and eight rows.

    OMP_NUM_THREADS=1 python -m bench.draws

Prints processor milliseconds of a step's sampling, the median of several runs in turn.
"""

from __future__ import annotations

import time
from statistics import median
from unittest import mock

import torch

from engine import sampler
from engine.request import SamplingParams
from engine.sampler import Sampler

_VOCAB = 49_152
_ROWS = 8
_RUNS = 31
_CASES = {
    "temperature": SamplingParams(temperature=0.8),
    "top_p 0.95": SamplingParams(temperature=0.8, top_p=0.95),
    "top_k 40": SamplingParams(temperature=0.8, top_k=40),
    "min_p 0.05": SamplingParams(temperature=0.8, min_p=0.05),
    "all three": SamplingParams(temperature=0.8, top_p=0.95, top_k=40, min_p=0.05),
    "top_p 0.95 at temperature 2": SamplingParams(temperature=2.0, top_p=0.95),
    "penalties": SamplingParams(temperature=0.8, repetition_penalty=1.1, presence_penalty=0.5),
}


def main() -> None:
    """Print a line for each kind of settings."""
    torch.manual_seed(0)
    logits = 2.5 * torch.randn(_ROWS, _VOCAB)
    # As models have it: some tokens stand out.
    logits[:, torch.randint(_VOCAB, (40,))] += 12 * torch.rand(40)
    print(f"{_ROWS} rows: ms by torch, ms by the kernel")
    for name, params in _CASES.items():
        times: tuple[list[float], list[float]] = [], []
        for position in range(_RUNS):
            with mock.patch.object(sampler, "native_draw", return_value=None):
                times[0].append(_milliseconds(logits, params, position))
            times[1].append(_milliseconds(logits, params, position))
        print(f"{name:>28}", *(f"{median(taken):8.2f}" for taken in times), flush=True)


def _milliseconds(logits: torch.Tensor, params: SamplingParams, position: int) -> float:
    drawing = Sampler(_ROWS, _VOCAB, logits.device)
    for slot in range(_ROWS):
        drawing.begin(slot, params, range(2000))
    began = time.process_time()
    drawing.sample(logits, range(_ROWS), [position] * _ROWS)
    return 1e3 * (time.process_time() - began)


if __name__ == "__main__":
    main()
