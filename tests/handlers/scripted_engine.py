"""An engine that plays a script: the fake at the seam between handlers and engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from engine.config import EngineConfig, ModelSource
from engine.engine import EngineHealth
from engine.errors import EngineError, QueueFull, WorkerFailed
from engine.events import (
    Event,
    Finished,
    FinishReason,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    Timings,
    Usage,
)
from engine.identity import Identity
from engine.messages import Ready
from engine.request import ChatPrompt, GenerationRequest
from engine.stats import EngineStats, Outcome, RequestStats

MODEL_ID = "tiny-model"
USAGE = Usage(prompt_tokens=12, cached_tokens=4, completion_tokens=3)
TIMINGS = Timings(queue_ms=1.5, prompt_ms=20.0, predicted_ms=40.0)
STARTED = Started(USAGE.prompt_tokens, USAGE.cached_tokens, TIMINGS.queue_ms)
READY = EngineHealth(ready=True, running=0, waiting=0, worker_pid=77, worker_restarts=0)
LOADING = EngineHealth(ready=False, running=0, waiting=0, worker_pid=None, worker_restarts=0)
LOADED = Ready(
    tokenizer_json="{}",
    chat_template=None,
    special_tokens={},
    eos_token_ids=(2,),
    weight_bytes=270_000_000,
    bits_per_weight=16.0,
    device="cpu",
    dtype="bfloat16",
)


class Hold:
    """A place in a script that is passed only once the test releases it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()


Step = Event | Exception | Hold


def text_events(
    *texts: str, reason: FinishReason = FinishReason.STOP, usage: Usage = USAGE
) -> list[Step]:
    """The whole stream of an answer whose one text comes in pieces."""
    deltas: list[Step] = [PartDelta(0, text) for text in texts]
    part: list[Step] = [PartStart(0, "text"), *deltas, PartEnd(0)] if texts else []
    return [STARTED, *part, Finished(reason, None, usage, TIMINGS)]


class ScriptedAnswer:
    """One request; `closed` tells whether its slot was freed."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self._steps = engine.next_script()
        self._retried = False
        self.stats = RequestStats(0.0, 0.0, USAGE.prompt_tokens, 100, USAGE.cached_tokens)
        self.outcome: Outcome = "abort"
        self.error: EngineError | None = None
        self.closed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[Event]:
        for step in self._steps:
            if isinstance(step, Exception):
                self.error = step if isinstance(step, EngineError) else None
                self.outcome = "error"
                raise step
            if isinstance(step, Hold):
                step.reached.set()
                await step.released.wait()
                continue
            if isinstance(step, Finished):
                self.stats.completion_tokens = step.usage.completion_tokens
                self.outcome = "length" if step.reason is FinishReason.LENGTH else "stop"
            yield step

    def retry(self, error: WorkerFailed) -> None:
        if self._retried:
            raise error
        self._retried = True
        self.outcome, self.error = "abort", None
        self._steps = self._engine.next_script()

    def close(self) -> None:
        self.closed.set()


class ScriptedEngine:
    """Plays one script per attempt, the last one for all that follow; implements ServedEngine.

    A script that is an exception refuses the attempt.
    """

    def __init__(self, *scripts: Sequence[Step] | Exception) -> None:
        self._scripts = scripts or (text_events("Hello"),)
        self.attempts = 0
        self.config = EngineConfig(ModelSource(MODEL_ID, Path("/models/tiny.gguf")), ctx=512)
        self.stats = EngineStats(self.config.ctx)
        self.loaded: Ready | None = LOADED
        self.identity: Identity | None = Identity("deployed", "components", "namespace")
        self.state = READY
        self.requests: list[GenerationRequest] = []
        self.counted: list[ChatPrompt] = []
        self.answers: list[ScriptedAnswer] = []

    async def generate(self, request: GenerationRequest) -> ScriptedAnswer:
        self.requests.append(request)
        self.answers.append(ScriptedAnswer(self))
        return self.answers[-1]

    def next_script(self) -> Sequence[Step]:
        """Give the steps of the next attempt, or refuse it."""
        script = self._scripts[min(self.attempts, len(self._scripts) - 1)]
        self.attempts += 1
        if isinstance(script, Exception):
            raise script
        return script

    async def count_tokens(self, prompt: ChatPrompt, tenant: str) -> int:
        """Count words, or refuse as the first script does; counting never waits in a queue."""
        refusal = self._scripts[0]
        if isinstance(refusal, Exception) and not isinstance(refusal, QueueFull):
            raise refusal
        self.counted.append(prompt)
        return sum(len(message.content.split()) for message in prompt.messages)

    def health(self) -> EngineHealth:
        return self.state

    @property
    def all_closed(self) -> bool:
        return all(answer.closed.is_set() for answer in self.answers)
