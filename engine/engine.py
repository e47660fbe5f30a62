"""The engine's facade: start it, ask it, look at it, close it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from engine.answer import Answer
from engine.config import EngineConfig
from engine.dispatcher import Dispatcher
from engine.errors import (
    EngineError,
    NotReady,
    PromptRefused,
    ServerStopped,
    Stopping,
    WorkerFailed,
)
from engine.identity import Identity, identify
from engine.messages import Cancel, Failed, Progress, Ready, SequenceOutput, StepOutput, Submit
from engine.rendering import foreign_renderer
from engine.request import ChatPrompt, GenerationRequest
from engine.stats import EngineStats, RequestStats
from engine.supervisor import StartWorker, WorkerSupervisor
from engine.text_pool import TextPool
from engine.text_side import PreparedPrompt, TextSide, prompt_size
from engine.worker_process import WorkerProcess

# How long admitted requests wait for a worker that starts again.
RESTART_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """What the engine is doing now; `held_tokens` are those of running requests in their slots."""

    ready: bool
    running: int
    waiting: int
    worker_pid: int | None
    worker_restarts: int
    held_tokens: int = 0


class Engine:
    """Runs one model; every method belongs to the event loop's thread."""

    def __init__(self, config: EngineConfig, start_worker: StartWorker = WorkerProcess) -> None:
        self.config = config
        self.stats = EngineStats(config.ctx)
        self.identity: Identity | None = None
        self._supervisor = WorkerSupervisor(config, self, start_worker)
        self._dispatcher = Dispatcher(config.slots, self._send)
        self._pool = TextPool()
        self._text: TextSide | None = None
        self._ready = asyncio.Event()
        self._idle = asyncio.Event()
        self._draining = False
        self._restart_deadline: asyncio.TimerHandle | None = None
        self._progress_listener: Callable[[Progress], None] = lambda progress: None

    # Life

    async def start(self, on_progress: Callable[[Progress], None] | None = None) -> None:
        """Load the model; raises ModelError when that fails."""
        if on_progress:
            self._progress_listener = on_progress
        await self._supervisor.start()

    def import_renderer(self) -> None:
        """Import what renders a model's own template: half a second, while the worker loads."""
        if not self.config.model.scripted:
            foreign_renderer()

    async def drain(self, timeout: float) -> None:
        """Take no more requests and send the waiting ones away.

        Returns when the running ones are over or after `timeout` seconds.
        """
        self._draining = True
        self._lose_waiting(Stopping())
        if self._dispatcher.answers():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), timeout)

    async def close(self) -> None:
        """Stop the worker; running answers fail."""
        self._draining = True
        self._cancel_deadline()
        for answer in self._dispatcher.answers():
            self._lose(answer, ServerStopped("the server stopped before the answer was complete."))
        self._pool.close()
        await self._supervisor.close()

    def health(self) -> EngineHealth:
        """Describe the present state."""
        return EngineHealth(
            ready=self._ready.is_set() and not self._draining,
            running=self._dispatcher.running,
            waiting=self._dispatcher.waiting,
            worker_pid=self._supervisor.pid,
            worker_restarts=self._supervisor.restarts,
            held_tokens=self._dispatcher.held_tokens,
        )

    @property
    def loaded(self) -> Ready | None:
        """What the worker told of the model, None before it has been ready once."""
        return self._text.ready if self._text else None

    # Requests

    async def generate(self, request: GenerationRequest) -> Answer:
        """Admit a request and send it to the worker.

        Raises NotReady, BadPrompt, ContextOverflow and QueueFull, in this order of checks. The
        answer must be closed by whoever takes it.
        """
        text, arrived_at = self._require_ready(), time.monotonic()
        try:
            prepared = await self._pool.run(
                request.tenant,
                prompt_size(request.prompt),
                partial(text.prepare, request.prompt, self._room),
            )
        except PromptRefused as refusal:
            refusal.field = request.prompt_field
            raise
        # Tokenising can take seconds: the drain may have begun meanwhile.
        if self._draining:
            raise Stopping
        submit, admitted_at = self._submit(request, prepared), time.monotonic()
        answer = Answer(
            submit,
            request.tenant,
            RequestStats(arrived_at, admitted_at, len(submit.prompt_ids), submit.max_tokens),
            partial(text.generation, request, prepared, admitted_at),
            self,
        )
        self._dispatcher.enter(answer)
        self._idle.clear()
        return answer

    async def count_tokens(self, prompt: ChatPrompt, tenant: str = "") -> int:
        """The number of a prompt's tokens, however many; raises NotReady and BadPrompt."""
        text = self._require_ready()
        return await self._pool.run(tenant, prompt_size(prompt), partial(text.count, prompt))

    @property
    def _room(self) -> int:
        return self.config.ctx - 1  # room for one token of the answer

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
            tenant=request.tenant,
            opening=prepared.opening,
        )

    def _require_ready(self) -> TextSide:
        if self._draining:
            raise Stopping
        if self._text is None or not self._ready.is_set():
            raise self._not_ready()
        return self._text

    def _not_ready(self) -> NotReady:
        supervisor = self._supervisor
        remaining = supervisor.load_seconds - (time.monotonic() - supervisor.started_at)
        return NotReady("The model is still loading; retry later.", max(1, math.ceil(remaining)))

    # What answers ask for

    def send_again(self, answer: Answer) -> None:
        """Run a lost request from the start; raises Stopping."""
        if self._draining:
            raise Stopping
        self._dispatcher.again(answer)

    def close_answer(self, answer: Answer) -> None:
        """Forget a request and free its slot; harmless when that is done."""
        if self._dispatcher.leave(answer):
            self.stats.ended(answer.stats, answer.outcome, time.monotonic())
            # The worker may have it still, as when its client left or a stop string ended the text.
            self._supervisor.send(Cancel(answer.request_id))
            if not self._dispatcher.answers():
                self._idle.set()

    def _send(self, answer: Answer) -> None:
        # It waits itself until it has a slot.
        behind = self._dispatcher.waiting - 1
        self._supervisor.send(replace(answer.submit, behind=behind))

    # What the supervisor tells

    @property
    def has_work(self) -> bool:
        """Whether the worker has something to do."""
        return self._dispatcher.has_work

    def on_ready(self, ready: Ready) -> None:
        """Requests may come; raises ModelError when the chat template is broken."""
        # A restarted worker serves the same model: its text side stays.
        self._text = self._text or TextSide.of(ready, self.config.tool_format)
        self.identity = self.identity or identify(self.config, ready)
        self._ready.set()
        self._cancel_deadline()
        self._dispatcher.open()

    def on_progress(self, progress: Progress) -> None:
        """Tell whoever started the engine."""
        self._progress_listener(progress)

    def on_step(self, step: StepOutput) -> None:
        """Hand each request what the step gave it; requests that are over are passed by."""
        # What comes before a step only tells who is in it.
        if step.tokens:
            self.stats.step(step.tokens, step.compiles)
        if step.host_cache:
            self.stats.host_cache(step.host_cache)
        for output in step.outputs:
            if answer := self._dispatcher.get(output.request_id):
                self._push(answer, step.at, output)

    def on_failed(self, failed: Failed) -> None:
        """Some requests are lost."""
        for request_id in failed.request_ids:
            if answer := self._dispatcher.get(request_id):
                self._dispatcher.lost(answer, suspect=failed.together)
                answer.fail(WorkerFailed(failed.message))
        for request_id in failed.withdrawn:
            if answer := self._dispatcher.get(request_id):
                self._dispatcher.withdrawn(answer)

    def on_death(self, reason: str) -> None:
        """What ran is lost; what waits goes on waiting."""
        self._ready.clear()
        self.stats.worker_died()
        for answer in self._dispatcher.worker_died():
            self._dispatcher.lost(answer)
            answer.fail(WorkerFailed(reason))
        # Of several deaths in a row the first one starts the clock.
        if self._restart_deadline is None:
            self._start_deadline()

    def _push(self, answer: Answer, at: float, output: SequenceOutput) -> None:
        if output.started_at is not None:
            self._dispatcher.started(answer)
            self.stats.started(answer.stats, output.started_at, output.cached_tokens)
        answer.push(at, output)
        self.stats.tokens(answer.stats, at, answer.completion_tokens)
        self.stats.guessed(output.draft_tokens, output.accepted_tokens)
        self._dispatcher.advanced(answer)
        if answer.finished:
            answer.close()

    def _start_deadline(self) -> None:
        loop = asyncio.get_running_loop()
        self._restart_deadline = loop.call_later(RESTART_SECONDS, self._send_waiting_away)

    def _send_waiting_away(self) -> None:
        self._lose_waiting(self._not_ready())
        # For those whose prompts are being read now.
        self._start_deadline()

    def _cancel_deadline(self) -> None:
        if self._restart_deadline:
            self._restart_deadline.cancel()
            self._restart_deadline = None

    def _lose_waiting(self, error: EngineError) -> None:
        for answer in self._dispatcher.answers():
            if not self._dispatcher.is_running(answer):
                self._lose(answer, error)

    def _lose(self, answer: Answer, error: EngineError) -> None:
        answer.fail(error)
        answer.close()
