"""What the engine is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PREFILL_CHUNK = 256


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model found on this machine.

    `path` is a GGUF file or a folder with config.json and safetensors. `id` is what clients call
    it.
    """

    id: str
    path: Path


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Frozen settings of one engine.

    `ctx` is the tokens of one slot (prompt and answer together), `slots` the requests decoded
    together, `prefill_chunk` the most prompt tokens one device call computes.
    """

    model: ModelSource
    ctx: int
    slots: int = 4
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    prefill_chunk: int = PREFILL_CHUNK
