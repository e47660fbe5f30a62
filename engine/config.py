"""What the engine is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PREFILL_CHUNK = 256
DEFAULT_SLOTS = 4


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model found on this machine.

    `path` is a GGUF file, a folder with config.json and safetensors, or, if `scripted`, a script
    that is followed instead of weights. `id` is what clients call it. `tool_format` is the name of
    a `model_format` that the catalogue gives, None where the chat template tells.
    """

    id: str
    path: Path
    scripted: bool = False
    tool_format: str | None = None


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Frozen settings of one engine.

    `ctx` is the tokens of one slot (prompt and answer together), `slots` the requests decoded
    together, `prefill_chunk` the most prompt tokens one device call computes. `quant` is none, int8
    (weights and activations), or auto: int8 where native kernels run and `dtype` is auto.
    `threads` compute on the CPU, 0 for one on each physical core. `tool_format` is the name of a
    `model_format`, None the one that the chat template shows. `cache_ram` is the most bytes of host
    memory for prompts that no slot holds any more. A worker that has work and gives no sign for
    `step_seconds`, or longer where its warm-up had long steps, is taken to hang. `restarts` counts
    how often the worker has been started again; a scripted model may heed it.
    """

    model: ModelSource
    ctx: int
    slots: int = DEFAULT_SLOTS
    device: str = "auto"
    dtype: str = "auto"
    quant: str = "none"
    threads: int = 0
    prefill_chunk: int = PREFILL_CHUNK
    tool_format: str | None = None
    cache_ram: int = 0
    step_seconds: float = 120.0
    restarts: int = 0
