"""Looking at the machine through torch, in a process of its own (see `engine.machine`).

Run as `python -m engine.probe`; prints JSON.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict

import torch

from engine.int8_linear import int8_is_supported
from engine.machine import Machine
from engine.native_compiler import compiler_version
from engine.native_library import native_library


def probe() -> Machine:
    """Find what a worker would compute with; compiles the kernels where that is still to do."""
    reasons = _Messages()
    logging.getLogger("engine.native_library").addHandler(reasons)
    is_native = native_library() is not None
    return Machine(
        torch=torch.__version__,
        gpus=[torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        threads=torch.get_num_threads(),
        int8=int8_is_supported(),
        why_not_native="" if is_native else " ".join(reasons.messages),
        compiler=compiler_version(),
    )


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


if __name__ == "__main__":
    print(json.dumps(asdict(probe())))
