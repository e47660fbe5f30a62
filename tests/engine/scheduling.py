"""A scheduler over a runner that needs no model, for tests of what it decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.batch import Batch
from engine.config import EngineConfig, ModelSource
from engine.messages import SequenceOutput, Submit
from engine.request import SamplingParams
from engine.scheduler import Scheduler
from tests.engine.slot_stores import NoStore

EOS = 99
VOCAB = 100


class CountingRunner:
    """Answers 1, 2, 3 ... in every sequence, or what `script` says, and records its batches."""

    vocab_size = VOCAB

    def __init__(self, script: dict[str, list[int]] | None = None) -> None:
        self.script = script or {}
        self.batches: list[Batch] = []

    def run(self, batch: Batch) -> list[int]:
        self.batches.append(batch)
        ids = []
        for sequence in batch.sampled:
            done = len(sequence.answer_ids)
            ids.append(self.script.get(sequence.request_id, list(range(1, 50)))[done])
        return ids


def scheduler(guesses: bool = False, **changes: Any) -> Scheduler:
    settings: dict[str, Any] = {"ctx": 64, "slots": 2, "prefill_chunk": 4, **changes}
    source = ModelSource("m", Path("m"))
    config = EngineConfig(source, **settings)
    return Scheduler(config, (EOS,), VOCAB, NoStore(), guesses=guesses)


def submit(request_id: str, prompt: int = 3, max_tokens: int = 4) -> Submit:
    ids = tuple(range(1, prompt + 1))
    # A tenant of its own: all begin alike, and none shall know what another one has computed.
    return Submit(request_id, ids, max_tokens, SamplingParams(), tenant=request_id)


def step(s: Scheduler, runner: CountingRunner, now: float = 0.0) -> tuple[SequenceOutput, ...]:
    batch = s.schedule(now)
    return s.postprocess(batch, runner.run(batch))


def shape(batch: Batch) -> tuple[str | None, list[str]]:
    prefill = batch.prefill
    name = f"{prefill.sequence.request_id}[{prefill.start}:{prefill.end}]" if prefill else None
    return name, [row.sequence.request_id for row in batch.decode]


def run_all(s: Scheduler, runner: CountingRunner) -> dict[str, list[SequenceOutput]]:
    outputs: dict[str, list[SequenceOutput]] = {}
    while s.has_work:
        for output in step(s, runner):
            outputs.setdefault(output.request_id, []).append(output)
    return outputs
