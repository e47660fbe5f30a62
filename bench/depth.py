"""What new tokens cost in a slot that has all before them: the least a follow-up turn can take.

    OMP_NUM_THREADS=1 python -m bench.depth --threads 1

Runs the default model's forward path in this process, without server, queue or tokenizer. At turn
10 the conversation of `bench.compare --scenario agent` is 5,400 tokens long and grows by 600: its
"turn 10 TTFT ms" over the milliseconds printed here tells what all else adds.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import torch

from bench.compare import machine
from bench.weights import weights
from engine.config import EngineConfig, ModelSource
from engine.forward import Forward
from engine.loader import load_model
from engine.model_runner import TransformersRunner, use_threads

DEPTH, NEW, RUNS = 5400, 600, 3


def runner(threads: int, quant: str) -> tuple[EngineConfig, Forward]:
    """The default model's forward path, with one slot of 8,192 tokens."""
    source = ModelSource("bench", weights().folder)
    config = EngineConfig(source, 8192, slots=1, quant=quant, threads=threads)
    use_threads(threads)
    loaded = load_model(config, lambda done, total: None)
    return config, TransformersRunner(loaded.model, config).forward


def prefill(forward: Forward, token_ids: list[int], start: int, chunk: int) -> None:
    """Compute tokens from `start` on, in the chunks that the scheduler makes of a prompt."""
    for done in range(0, len(token_ids), chunk):
        forward.prefill(0, token_ids[done : done + chunk], start + done)


@torch.inference_mode()
def measure(forward: Forward, chunk: int) -> tuple[float, float]:
    """Median wall and processor milliseconds of `NEW` tokens behind `DEPTH` others."""
    token_ids = [100 + n * 7919 % 40_000 for n in range(DEPTH + NEW)]
    prefill(forward, token_ids[:DEPTH], 0, chunk)
    walls, cpus = [], []
    for _ in range(RUNS):
        wall, cpu = time.perf_counter(), time.process_time()
        prefill(forward, token_ids[DEPTH:], DEPTH, chunk)
        walls.append(1000 * (time.perf_counter() - wall))
        cpus.append(1000 * (time.process_time() - cpu))
    return median(walls), median(cpus)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quant", default="none", choices=("none", "int8"))
    arguments = parser.parse_args()
    config, forward = runner(arguments.threads, arguments.quant)
    wall, cpu = measure(forward, config.prefill_chunk)
    print(f"{machine()}, {arguments.threads} threads, quant {arguments.quant}")
    print(f"{NEW} new tokens behind {DEPTH}: {wall:.0f} ms, {cpu:.0f} ms of processor time")


if __name__ == "__main__":
    main()
