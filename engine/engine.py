"""The engine's facade: start it, ask it, look at it, close it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from engine.admission import Admission
from engine.config import EngineConfig
from engine.errors import EngineError, NotReady, PromptRefused, ServerStopped, WorkerFailed
from engine.events import Event
from engine.generation import Generation
from engine.messages import Cancel, Failed, Progress, Ready, SequenceOutput, StepOutput, Submit
from engine.request import ChatPrompt, GenerationRequest, TextPrompt
from engine.stats import EngineStats
from engine.supervisor import StartWorker, WorkerSupervisor
from engine.text_side import PreparedPrompt, TextSide
from engine.worker_process import WorkerProcess

P = ParamSpec("P")
T = TypeVar("T")

# Rendering and tokenising hold the interpreter lock for long stretches; more threads only thrash.
_TEXT_THREADS = 2


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """What the engine is doing now; `held_tokens` are those of running requests in their slots."""

    ready: bool
    running: int
    waiting: int
    worker_pid: int | None
    worker_restarts: int
    held_tokens: int = 0


class Answer:
    """One running request: an iterator of its events, ended by `Finished` or an exception."""

    def __init__(self, generation: Generation, on_close: Callable[[Answer], None]) -> None:
        self._generation = generation
        self._on_close = on_close
        self._events: asyncio.Queue[Event | EngineError] = asyncio.Queue()
        self.started_at: float | None = None

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield the events; raises WorkerFailed or ServerStopped when the request is lost."""
        while not (self._generation.finished and self._events.empty()):
            event = await self._events.get()
            if isinstance(event, EngineError):
                raise event
            yield event

    def close(self) -> None:
        """Free the request's slot; must be called however the answer ends, harmless when over."""
        self._on_close(self)

    @property
    def finished(self) -> bool:
        """Whether the last event is out; a stop string may end the text before the worker knows."""
        return self._generation.finished

    def push(self, at: float, output: SequenceOutput) -> None:
        """Turn what one step gave into events."""
        for event in self._generation.push(at, output):
            self._events.put_nowait(event)

    def fail(self, error: EngineError) -> None:
        """End the iterator with `error`."""
        self._events.put_nowait(error)


class Engine:
    """Runs one model; every method belongs to the event loop's thread."""

    def __init__(self, config: EngineConfig, start_worker: StartWorker = WorkerProcess) -> None:
        self.config = config
        self.stats = EngineStats(config.ctx)
        self._supervisor = WorkerSupervisor(config, self, start_worker)
        self._admission = Admission(config.slots)
        self._pool = ThreadPoolExecutor(_TEXT_THREADS, thread_name_prefix="text")
        self._text: TextSide | None = None
        self._ready = asyncio.Event()
        self._idle = asyncio.Event()
        self._draining = False
        self._answers: dict[str, Answer] = {}
        self._progress_listener: Callable[[Progress], None] = lambda progress: None

    # Life

    async def start(self, on_progress: Callable[[Progress], None] | None = None) -> None:
        """Load the model; raises ModelError when that fails."""
        if on_progress:
            self._progress_listener = on_progress
        await self._supervisor.start()

    async def drain(self, timeout: float) -> None:
        """Take no more requests and send the waiting ones away.

        Returns when the running ones are over or after `timeout` seconds.
        """
        self._draining = True
        for answer in list(self._answers.values()):
            if answer.started_at is None:
                self._lose(answer, self._stopping())
        if self._answers:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), timeout)

    async def close(self) -> None:
        """Stop the worker; running answers fail."""
        self._lose_all(ServerStopped("the server stopped before the answer was complete."))
        await self._supervisor.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def health(self) -> EngineHealth:
        """Describe the present state."""
        return EngineHealth(
            ready=self._ready.is_set() and not self._draining,
            running=self._admission.running,
            waiting=self._admission.waiting,
            worker_pid=self._supervisor.pid,
            worker_restarts=self._supervisor.restarts,
        )

    @property
    def loaded(self) -> Ready | None:
        """What the worker told of the model, None before it has been ready once."""
        return self._text.ready if self._text else None

    async def wait_until_ready(self, timeout: float) -> None:
        """Return once the worker is ready; raises NotReady after `timeout` seconds."""
        try:
            await asyncio.wait_for(self._ready.wait(), timeout)
        except TimeoutError:
            raise self._not_ready() from None

    # Requests

    async def generate(self, request: GenerationRequest) -> Answer:
        """Admit a request and send it to the worker.

        Raises NotReady, BadPrompt, ContextOverflow and QueueFull, in this order of checks. The
        answer must be closed by whoever takes it.
        """
        text = self._require_ready()
        try:
            prepared = await self._in_pool(text.prepare, request.prompt, self._room)
        except PromptRefused as refusal:
            refusal.field = request.prompt_field
            raise
        text = self._require_ready()
        self._admission.enter(request.id, request.tenant)
        generation = text.generation(request, prepared, time.monotonic())
        answer = Answer(generation, partial(self._close_request, request.id))
        self._answers[request.id] = answer
        self._idle.clear()
        self._supervisor.send(self._submit(request, prepared))
        return answer

    async def count_tokens(self, prompt: ChatPrompt | TextPrompt) -> int:
        """The number of a prompt's tokens, however many; raises NotReady and BadPrompt."""
        return await self._in_pool(self._require_ready().count, prompt)

    @property
    def _room(self) -> int:
        return self.config.ctx - 1  # room for one token of the answer

    async def _in_pool(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(work, *args, **kwargs))

    def _submit(self, request: GenerationRequest, prepared: PreparedPrompt) -> Submit:
        encoded, wanted = prepared.encoded, request.sampling.max_tokens
        room = self.config.ctx - encoded.total
        return Submit(
            request_id=request.id,
            prompt_ids=encoded.ids,
            max_tokens=room if wanted is None else min(wanted, room),
            sampling=request.sampling,
            constraint=prepared.constraint,
            thinking=prepared.thinking,
        )

    def _require_ready(self) -> TextSide:
        if self._draining:
            raise self._stopping()
        if self._text is None or not self._ready.is_set():
            raise self._not_ready()
        return self._text

    def _stopping(self) -> NotReady:
        return NotReady("The server is stopping; send the request to another one.")

    def _not_ready(self) -> NotReady:
        supervisor = self._supervisor
        remaining = supervisor.load_seconds - (time.monotonic() - supervisor.started_at)
        return NotReady("The model is still loading; retry later.", max(1, math.ceil(remaining)))

    def _close_request(self, request_id: str, answer: Answer) -> None:
        if self._answers.pop(request_id, None) is None:
            return
        now = time.monotonic()
        self._admission.leave(request_id, now - (answer.started_at or now))
        self._supervisor.send(Cancel(request_id))
        if not self._answers:
            self._idle.set()

    # What the supervisor tells

    def on_ready(self, ready: Ready) -> None:
        """Requests may come; raises ModelError when the chat template is broken."""
        # A restarted worker serves the same model: its text side stays.
        self._text = self._text or TextSide.of(ready, self.config.tool_format)
        self._ready.set()

    def on_progress(self, progress: Progress) -> None:
        """Tell whoever started the engine."""
        self._progress_listener(progress)

    def on_step(self, step: StepOutput) -> None:
        """Hand each request what the step gave it; requests that are over are passed by."""
        for output in step.outputs:
            answer = self._answers.get(output.request_id)
            if answer is None:
                continue
            if output.started_at is not None:
                answer.started_at = output.started_at
                self._admission.started(output.request_id)
            answer.push(step.at, output)
            if answer.finished:
                answer.close()

    def on_request_failed(self, failed: Failed) -> None:
        """One request is lost."""
        if answer := self._answers.get(failed.request_id or ""):
            self._lose(answer, WorkerFailed(failed.message))

    def on_death(self, reason: str) -> None:
        """All requests are lost."""
        self._ready.clear()
        self._lose_all(WorkerFailed(reason))

    def _lose_all(self, error: EngineError) -> None:
        for answer in list(self._answers.values()):
            self._lose(answer, error)

    def _lose(self, answer: Answer, error: EngineError) -> None:
        answer.fail(error)
        answer.close()
