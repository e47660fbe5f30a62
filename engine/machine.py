"""What a worker would compute with on this machine, as a process of its own tells."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from engine.errors import ModelError


@dataclass(frozen=True, slots=True)
class Machine:
    """What torch and the native kernels find; `why_not_native` is empty where those run.

    `gpus` are names of graphics cards, `threads` those of arithmetic on the CPU.
    """

    torch: str
    gpus: list[str]
    threads: int
    int8: bool
    why_not_native: str
    compiler: str | None


def ask_machine() -> Machine:
    """Look in a new process, which takes seconds and may compile; raises ModelError."""
    # Only so does whoever asks stay without torch.
    command = [sys.executable, "-m", "engine.probe"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        raise ModelError(f"torch cannot be used: {last}. Install mashbox again.")
    return Machine(**json.loads(done.stdout))
