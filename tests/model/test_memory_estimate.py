"""What is estimated before loading is what a worker takes at its peak, with all slots full."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.catalog import resolve
from engine.memory_estimate import estimate_memory
from engine.model_files import read_header

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
    ("quant", "ctx", "slots"), [("none", 2048, 4), ("auto", 2048, 4), ("int8", 2048, 16)]
)
def test_the_estimate_is_within_a_tenth_of_the_peak(quant: str, ctx: int, slots: int) -> None:
    estimate = estimate_memory(read_header(resolve(None).path), "auto", quant, ctx, slots)
    peak, weights = _run(quant, ctx, slots)
    assert estimate.weights_bytes == pytest.approx(weights, rel=0.02)
    assert estimate.total_bytes == pytest.approx(peak, rel=0.1)


def _run(quant: str, ctx: int, slots: int) -> tuple[int, int]:
    """Load in a process of its own; gives its peak and the bytes of the weights."""
    command = (sys.executable, "-c", _PROGRAM, quant, str(ctx), str(slots))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    peak, weights = map(int, done.stdout.split())
    return peak, weights
