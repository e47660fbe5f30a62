"""The supervisor: keeps one worker running, and starts it again when it dies."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from engine.config import EngineConfig
from engine.errors import ModelError
from engine.messages import (
    Failed,
    FromWorker,
    Progress,
    Ready,
    StartFailed,
    StepOutput,
    ToWorker,
    Warned,
)
from engine.worker_process import WorkerProcess

logger = logging.getLogger("mashbox.engine")

_LONGEST_PAUSE_S = 30.0
# A step may take so many times what the longest one of warm-up took.
_STEPS = 20
# How often a hanging worker is looked for while its longest step lasts.
_LOOKS = 10
# A start that is silent for as long as so many past ones took is not going to end.
_LOADS = 10


class Worker(Protocol):
    """What the supervisor needs of a worker process (see WorkerProcess)."""

    @property
    def pid(self) -> int:
        """The worker's process id."""

    def send(self, message: ToWorker) -> None:
        """Queue a message for the worker."""

    def kill(self) -> None:
        """End the process at once, without waiting."""

    async def stop(self) -> None:
        """End the process; returns when it is gone."""


class WorkerListener(Protocol):
    """Who hears of the worker's life; called in the event loop."""

    def on_ready(self, ready: Ready) -> None:
        """The worker has loaded the model."""

    def on_progress(self, progress: Progress) -> None:
        """The worker has come further while starting."""

    def on_step(self, step: StepOutput) -> None:
        """The worker has done a step."""

    def on_failed(self, failed: Failed) -> None:
        """Some requests failed; the worker lives."""

    def on_death(self, reason: str) -> None:
        """The worker died; every running request is lost."""

    @property
    def has_work(self) -> bool:
        """Whether the worker has something to do."""


StartWorker = Callable[
    [EngineConfig, Callable[[FromWorker], None], Callable[[int, list[str]], None]], Worker
]


class WorkerSupervisor:
    """Starts the worker, tells its life to `listener` in the event loop, restarts it on death."""

    def __init__(
        self,
        config: EngineConfig,
        listener: WorkerListener,
        start_worker: StartWorker = WorkerProcess,
    ) -> None:
        self._config = config
        self._listener = listener
        self._start_worker = start_worker
        self._worker: Worker | None = None
        self._first_ready: asyncio.Future[None] | None = None
        self._was_ready = self._is_ready = False
        self._closing = False
        self._failed_starts = 0
        self._restart: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._heard_at = time.monotonic()
        self._hung_for: float | None = None
        self._step_seconds = config.step_seconds
        self.restarts = 0
        self.started_at = time.monotonic()
        self.load_seconds = 10.0  # a guess until the first worker has been ready

    @property
    def pid(self) -> int | None:
        """Process id of the living worker."""
        return self._worker.pid if self._worker else None

    async def start(self) -> None:
        """Start the first worker and wait until it is ready; raises ModelError if it fails."""
        self._first_ready = asyncio.get_running_loop().create_future()
        self._spawn()
        self._look()
        await self._first_ready

    def send(self, message: ToWorker) -> None:
        """Send to the living worker; without one the message is dropped."""
        if self._worker:
            self._worker.send(message)

    async def close(self) -> None:
        """Stop the worker and stay stopped."""
        self._closing = True
        for timer in (self._restart, self._watch):
            if timer:
                timer.cancel()
        if self._worker:
            await self._worker.stop()

    def _spawn(self) -> None:
        self._restart = None
        self.started_at = self._heard_at = time.monotonic()
        # Started from the loop's thread: the worker dies with the thread that started it.
        self._worker = self._start_worker(
            replace(self._config, restarts=self.restarts), self._receive, self._exited
        )

    def _look(self) -> None:
        """Kill the worker when it has owed a word for too long."""
        now = time.monotonic()
        pause = self._step_seconds / _LOOKS
        limit = self._longest_silence()
        if limit is None:
            self._heard_at = now
        elif self._worker and now - self._heard_at > limit + pause:
            self._hung_for = limit
            self._worker.kill()
        self._watch = asyncio.get_running_loop().call_later(pause, self._look)

    def _longest_silence(self) -> float | None:
        """Seconds that the worker may say nothing; None for as long as it likes."""
        if self._listener.has_work:
            return self._step_seconds
        if self._was_ready and not self._is_ready:
            return max(self._step_seconds, _LOADS * self.load_seconds)
        # Idle, or loading for the first time, which may take whatever it takes.
        return None

    def _receive(self, message: FromWorker) -> None:
        self._heard_at = time.monotonic()
        match message:
            case Ready():
                self._became_ready(message)
            case Progress():
                self._listener.on_progress(message)
            case StepOutput():
                self._listener.on_step(message)
            case Failed():
                self._listener.on_failed(message)
            case Warned():
                logger.warning("%s", message.message)
            case StartFailed():
                self._fail_start(message.message)

    def _became_ready(self, ready: Ready) -> None:
        self.load_seconds = time.monotonic() - self.started_at
        self._failed_starts = 0
        self._step_seconds = max(self._config.step_seconds, _STEPS * ready.step_seconds)
        try:
            self._listener.on_ready(ready)
        except ModelError as error:
            return self._fail_start(str(error))
        if self._was_ready:
            logger.info("The model worker is ready again (%.1f s).", self.load_seconds)
        self._was_ready = self._is_ready = True
        if self._first_ready and not self._first_ready.done():
            self._first_ready.set_result(None)

    def _fail_start(self, message: str) -> None:
        if self._was_ready:
            logger.error("The model worker could not start again: %s", message)
        elif self._first_ready and not self._first_ready.done():
            self._first_ready.set_exception(ModelError(message))

    def _exited(self, returncode: int, last_lines: list[str]) -> None:
        self._worker, self._is_ready = None, False
        if self._closing:
            return
        reason = f"The model worker stopped ({self._describe(returncode)})."
        last_words = "\n".join([*last_lines, reason])
        if not self._was_ready:
            return self._fail_start(last_words)
        self._listener.on_death(reason)
        self._restart_later()
        logger.warning("%s Starting it again (restart %d).", last_words, self.restarts)

    def _restart_later(self) -> None:
        # The first start is at once: most deaths are one request's doing.
        self.restarts += 1
        failed, self._failed_starts = self._failed_starts, self._failed_starts + 1
        # A night of failed starts would be more than a power of two can tell.
        pause = min(_LONGEST_PAUSE_S, 2.0 ** min(failed, 10)) if failed else 0.0
        self._restart = asyncio.get_running_loop().call_later(pause, self._spawn_again)

    def _spawn_again(self) -> None:
        try:
            self._spawn()
        except OSError as error:
            # The machine may have no process, memory or file left now, and some later.
            logger.error("The model worker could not be started again: %s.", error.strerror)
            self._restart_later()

    def _describe(self, returncode: int) -> str:
        hung_for, self._hung_for = self._hung_for, None
        if hung_for:
            return f"it hung: no word in {hung_for:g} s"
        if returncode >= 0:
            return f"exit code {returncode}"
        if returncode == -signal.SIGKILL:
            return "signal 9, probably out of memory"
        return f"signal {-returncode}"
