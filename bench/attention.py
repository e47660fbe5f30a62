"""Attention by torch and by the native kernel, inside whole steps of the default model.

    OMP_NUM_THREADS=1 python -m bench.attention

Prints processor milliseconds of a step, the median of several runs in turn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from bench.weights import weights
from engine.forward import LeanForward
from engine.lean_attention import TorchAttention
from engine.lean_model import build_lean, heads_of
from engine.weight_format import Int8Format, PlainFormat, WeightFormat

_CTX = 6144
_SLOTS = 8
_CHUNK = 512


@dataclass(frozen=True, slots=True)
class Step:
    """`count` new tokens in each of `rows` slots that hold `depth` tokens; taken `runs` times."""

    rows: int
    count: int
    depth: int
    runs: int

    def __str__(self) -> str:
        rows = f"{self.rows} x " if self.rows > 1 else ""
        return f"{rows}{self.count} at {self.depth}"

    def take(self, forward: LeanForward) -> None:
        """Run it once, in chunks as a prompt is."""
        if self.rows == 1:
            for start in range(0, self.count, _CHUNK):
                length = min(_CHUNK, self.count - start)
                forward.prefill(0, [7] * length, self.depth + start)
        else:
            forward.decode(range(self.rows), [[7]] * self.rows, [self.depth] * self.rows)


STEPS = (
    Step(1, 512, 0, 3),
    Step(1, 4000, 0, 1),
    Step(1, 600, 5400, 3),
    Step(1, 1, 300, 15),
    Step(1, 1, 4000, 15),
    Step(8, 1, 300, 15),
    Step(8, 1, 4000, 9),
)


@torch.inference_mode()
def main() -> None:
    """Print a table for each precision."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(weights().folder, dtype=torch.float32).eval()
    for name, store in (("float32", PlainFormat()), ("int8", Int8Format())):
        print(f"{name}: tokens at depth, ms by torch, ms by the kernel", flush=True)
        forwards = list(_forwards(model, store))
        for step in STEPS:
            took = measure(forwards, step)
            print(f"{step!s:>16}", *(f"{milliseconds:8.1f}" for milliseconds in took), flush=True)


def measure(forwards: list[LeanForward], step: Step) -> list[float]:
    """Take a step with each in turn; gives each one's median processor milliseconds."""
    times: list[list[float]] = [[] for _ in forwards]
    for _ in range(step.runs):
        for forward, taken in zip(forwards, times, strict=True):
            began = time.process_time()
            step.take(forward)
            taken.append(1000 * (time.process_time() - began))
    return [median(taken) for taken in times]


def _forwards(model: PreTrainedModel, store: WeightFormat) -> Iterator[LeanForward]:
    """One that uses torch, and the usual one, over slots that are written."""
    lean = build_lean(model, store)
    for each in (replace(lean, attention=TorchAttention(heads_of(model))), lean):
        forward = LeanForward(each, model.config, _SLOTS, _CTX)
        forward.prefill(0, [7], 0)
        for layer in forward.slot_cache.layers:
            layer.keys.normal_()
            layer.values.normal_()
        yield forward


if __name__ == "__main__":
    main()
