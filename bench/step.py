"""What a decode step of several requests takes outside its matrix products and attention.

    OMP_NUM_THREADS=1 python -m bench.step --quant int8

Runs the default model's scheduler, runner and sampler in this process, without a server. Prints the
median of a step's processor milliseconds, and of its part that no kernel takes: the plan, the
arguments, the choice of the tokens and the message to the server.
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from torch import nn

from bench.compare import machine
from bench.weights import weights
from engine.config import EngineConfig, ModelSource
from engine.loader import load_model
from engine.messages import StepOutput, Submit
from engine.model_runner import TransformersRunner, use_threads
from engine.native_library import native_library
from engine.packed_linear import PackedLinear
from engine.request import SamplingParams
from engine.scheduler import Scheduler

PROMPT, WARM_UP, STEPS = 200, 8, 40
_SETTINGS = {
    "greedy": SamplingParams(temperature=0),
    "drawn": SamplingParams(temperature=0.8, top_p=0.95),
}


class Stopwatch:
    """Sums up the processor time within functions."""

    def __init__(self) -> None:
        self.milliseconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Give the same function, with its time counted."""

        def call(*args: Any) -> Any:
            began = time.process_time()
            result = function(*args)
            self.milliseconds += 1000 * (time.process_time() - began)
            return result

        return call


def time_kernels(watch: Stopwatch) -> None:
    """Count what is within matrix products and attention, natively or by torch."""
    for kind in (PackedLinear, nn.Linear):
        kind.forward = watch.timed(kind.forward)  # type: ignore[method-assign]
    if library := native_library():
        for name in ("int8_linear", "attend"):
            setattr(library, name, watch.timed(getattr(library, name)))


def started(config: EngineConfig, sampling: SamplingParams) -> tuple[Scheduler, TransformersRunner]:
    """A scheduler whose slots all decode."""
    loaded = load_model(config, lambda done, total: None)
    runner = TransformersRunner(loaded.model, config)
    scheduler = Scheduler(config, (), runner.vocab_size, runner)
    for number in range(config.slots):
        prompt = tuple(100 + (number + n) * 7919 % 40_000 for n in range(PROMPT))
        scheduler.submit(Submit(str(number), prompt, WARM_UP + STEPS + 99, sampling))
    while (batch := scheduler.schedule(time.monotonic())).prefill or not batch.decode:
        scheduler.postprocess(batch, runner.run(batch))
    scheduler.postprocess(batch, runner.run(batch))
    return scheduler, runner


def step(scheduler: Scheduler, runner: TransformersRunner) -> None:
    """One step, as the worker does it."""
    batch = scheduler.schedule(time.monotonic())
    outputs = scheduler.postprocess(batch, runner.run(batch))
    pickle.dumps(StepOutput(time.monotonic(), outputs, batch.tokens))


def measure(config: EngineConfig, sampling: SamplingParams, watch: Stopwatch) -> tuple[float, ...]:
    """Median processor milliseconds of a step, and of what is outside the kernels."""
    scheduler, runner = started(config, sampling)
    steps, outside = [], []
    for _ in range(WARM_UP + STEPS):
        watch.milliseconds, began = 0.0, time.process_time()
        step(scheduler, runner)
        steps.append(1000 * (time.process_time() - began))
        outside.append(steps[-1] - watch.milliseconds)
    return median(steps[WARM_UP:]), median(outside[WARM_UP:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quant", default="int8", choices=("none", "int8"))
    parser.add_argument("--batch", type=int, default=8)
    arguments = parser.parse_args()
    source = ModelSource("bench", weights().folder)
    config = EngineConfig(source, 2048, slots=arguments.batch, quant=arguments.quant, threads=1)
    use_threads(1)
    time_kernels(watch := Stopwatch())
    print(f"{machine()}, 1 thread, quant {arguments.quant}, {arguments.batch} requests")
    for name, sampling in _SETTINGS.items():
        whole, outside = measure(config, sampling, watch)
        print(f"{name:>7}: {whole:6.2f} ms a step, {outside / whole:.1%} outside the kernels")


if __name__ == "__main__":
    main()
