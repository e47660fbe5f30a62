"""The worker process: one model, one loop of drain messages, step, send."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Protocol

from engine.allocator import trim_memory
from engine.batch import Batch, ModelRunner, OutOfMemory, RequestFailed
from engine.compiles import compiled_programs
from engine.config import EngineConfig
from engine.constraint import ConstraintCompiler
from engine.errors import EngineError
from engine.messages import (
    Cancel,
    Failed,
    FromWorker,
    HostCacheUse,
    Progress,
    Ready,
    Shutdown,
    Stage,
    StartFailed,
    StepOutput,
    Submit,
    ToWorker,
    Warned,
)
from engine.pipe import Pipe
from engine.scheduler import Scheduler

_PR_SET_PDEATHSIG = 1


class Outbox(Protocol):
    """Where the worker's messages go; a pipe end, or a list in tests."""

    def send(self, message: FromWorker, /) -> None:
        """Deliver one message."""


Inbox = queue.SimpleQueue[ToWorker]


def run_worker(pipe: Pipe, config: EngineConfig) -> None:
    """Load the model, report Ready, then serve until Shutdown or the pipe's end."""
    _follow_parent()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), _warnings_sent(pipe):
        try:
            runner, ready = _load(pipe, config)
        except Exception as error:
            pipe.send(StartFailed(_describe(error)))
            return
        pipe.send(ready)
        ends, vocab_size = ready.eos_token_ids, runner.vocab_size
        constraints = ConstraintCompiler(ready.tokenizer_json, ends, vocab_size)
        guesses = runner.checks_guesses
        scheduler = Scheduler(config, ends, vocab_size, runner, constraints, guesses)
        Worker(start_reader(pipe), pipe, scheduler, runner).serve()


class _Warnings(logging.Handler):
    """Sends what this process warns of to the server, which keeps the log."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__(logging.WARNING)
        self._outbox = outbox

    def emit(self, record: logging.LogRecord) -> None:
        self._outbox.send(Warned(record.getMessage()))


@contextlib.contextmanager
def _warnings_sent(outbox: Outbox) -> Iterator[None]:
    engine, handler = logging.getLogger("engine"), _Warnings(outbox)
    engine.addHandler(handler)
    try:
        yield
    finally:
        engine.removeHandler(handler)


def start_reader(pipe: Pipe) -> Inbox:
    """Read the pipe in a thread, so that the server's sends never wait for a step to end."""
    inbox: Inbox = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(OSError):
            for message in pipe.receive():
                inbox.put(message)
        inbox.put(Shutdown())

    threading.Thread(target=read, name="pipe-reader", daemon=True).start()
    return inbox


class Worker:
    """The loop between the pipe, the scheduler and the model runner."""

    def __init__(
        self, inbox: Inbox, outbox: Outbox, scheduler: Scheduler, runner: ModelRunner
    ) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._scheduler = scheduler
        self._runner = runner
        self._programs = compiled_programs()

    def serve(self) -> None:
        """Run steps while there is work, sleep on the inbox otherwise; returns on Shutdown."""
        while self._drain():
            if self._scheduler.has_work:
                self._step()

    def _drain(self) -> bool:
        """Handle every waiting message; False when told to leave."""
        while not (self._inbox.empty() and self._scheduler.has_work):
            message = self._inbox.get()
            if isinstance(message, Shutdown):
                return False
            self._handle(message)
        return True

    def _handle(self, message: Submit | Cancel) -> None:
        if isinstance(message, Cancel):
            return self._scheduler.cancel(message.request_id)
        try:
            self._scheduler.submit(message)
        except EngineError as error:
            self._outbox.send(Failed(str(error), (message.request_id,)))

    def _step(self) -> None:
        batch = self._scheduler.schedule(time.monotonic())
        # Sent before the step, which may be the last thing that this process does.
        if started := self._scheduler.take_started():
            host = self._scheduler.host_cache
            use = HostCacheUse(host.nbytes, host.point_bytes, host.evictions)
            self._outbox.send(StepOutput(time.monotonic(), started, host_cache=use))
        begun = time.monotonic()
        try:
            sampled = self._runner.run(batch)
        except OutOfMemory as error:
            return self._shrink(batch, error)
        except RequestFailed as error:
            return self._fail(error, error.request_id)
        except Exception as error:
            return self._fail_step(error, batch)
        now = time.monotonic()
        self._scheduler.took(batch, now - begun)
        outputs = self._scheduler.postprocess(batch, sampled)
        self._outbox.send(StepOutput(now, outputs, batch.tokens, self._new_programs()))

    def _new_programs(self) -> int:
        before, self._programs = self._programs, compiled_programs()
        return self._programs - before

    def _shrink(self, batch: Batch, error: OutOfMemory) -> None:
        if self._scheduler.shrink(batch):
            self._outbox.send(Warned(f"{error} The next steps have half as much in them."))
        else:
            self._fail(error, batch.sequences[0].request_id)

    def _fail(self, error: EngineError, request_id: str) -> None:
        self._scheduler.fail([request_id])
        self._outbox.send(Failed(str(error), (request_id,)))

    def _fail_step(self, error: Exception, batch: Batch) -> None:
        """Lose a whole step: who is to blame is not known."""
        request_ids = tuple(sequence.request_id for sequence in batch.sequences)
        self._scheduler.fail(request_ids)
        # Only here is it known where.
        self._outbox.send(Warned("".join(traceback.format_exception(error)).rstrip()))
        withdrawn = self._scheduler.withdraw()
        self._outbox.send(Failed(_describe(error), request_ids, True, withdrawn))


def _load(pipe: Outbox, config: EngineConfig) -> tuple[ModelRunner, Ready]:
    if config.model.scripted:
        from engine.scripted import load_scripted

        return load_scripted(config)
    # Imported here: torch takes seconds, and the loop above must run without it.
    from engine.loader import choose_device, load_model
    from engine.model_runner import TransformersRunner, use_threads
    from engine.native_compiler import files_to_compile
    from engine.native_library import native_library

    use_threads(config.threads)
    if choose_device(config.device) == "cpu" and (files := files_to_compile()):
        _report(pipe, "compiling", 0, files)
        native_library()
    loaded = load_model(
        config,
        lambda done, total: _report(pipe, "loading", done, total),
        lambda done, total: _report(pipe, "converting", done, total),
    )
    runner = TransformersRunner(loaded.model, config)
    runner.warm_up(lambda done, total: _report(pipe, "warm-up", done, total))
    trim_memory()
    return runner, runner.describe(loaded.ready)


def _report(pipe: Outbox, stage: Stage, done: int, total: int) -> None:
    pipe.send(Progress(stage, done, total))


def _follow_parent() -> None:
    # Ctrl-C goes to the whole foreground group: the server decides when its worker leaves.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
