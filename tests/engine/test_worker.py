from __future__ import annotations

import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import engine.worker
from engine.batch import Batch, OutOfMemory, RequestFailed
from engine.config import EngineConfig, ModelSource
from engine.messages import (
    Cancel,
    Failed,
    FromWorker,
    HostCacheUse,
    Progress,
    Ready,
    SequenceOutput,
    Shutdown,
    StartFailed,
    StepOutput,
    Submit,
    Warned,
)
from engine.pipe import Pipe
from engine.request import SamplingParams
from engine.scheduler import Scheduler
from engine.worker import Inbox, Worker, run_worker, start_reader
from tests.engine.slot_stores import NoStore

CONFIG = EngineConfig(ModelSource("m", Path("m")), ctx=32, slots=2)
READY = Ready("{}", None, {"bos_token": "<s>"}, (5,), 1, 32.0, "cpu", "float32")


class Outbox:
    def __init__(self) -> None:
        self.messages: list[FromWorker] = []

    def send(self, message: FromWorker, /) -> None:
        self.messages.append(message)

    def failed(self) -> list[str]:
        return [i for m in self.messages if isinstance(m, Failed) for i in m.request_ids]

    def outputs(self, request_id: str) -> list[SequenceOutput]:
        steps = [m for m in self.messages if isinstance(m, StepOutput)]
        return [o for m in steps for o in m.outputs if o.request_id == request_id]

    def finished(self) -> list[str]:
        outputs = [o for m in self.messages if isinstance(m, StepOutput) for o in m.outputs]
        return [o.request_id for o in outputs if o.finish]


class ScriptedRunner(NoStore):
    """Answers 5; before a step it raises the next of `errors` or puts `during` into the inbox."""

    vocab_size = 10
    checks_guesses = False

    def __init__(self, errors: list[Exception | None] | None = None) -> None:
        self.errors = errors or []
        self.during: list[tuple[Inbox, Any]] = []

    def run(self, batch: Batch) -> list[int]:
        if self.during:
            inbox, message = self.during.pop(0)
            inbox.put(message)
        if self.errors and (error := self.errors.pop(0)):
            raise error
        return [5] * len(batch.sampled)


def submit(request_id: str, max_tokens: int = 2) -> Submit:
    return Submit(request_id, (1, 2), max_tokens, SamplingParams(), tenant=request_id)


def serve(
    runner: ScriptedRunner, messages: list[Any], last: str, config: EngineConfig = CONFIG
) -> Outbox:
    """Run a worker over `messages`; it is told to leave when request `last` is over.

    What it gives back it gets again, as the server would send it.
    """
    inbox: Inbox = queue.SimpleQueue()
    outbox = Outbox()

    class Closing(Outbox):
        def send(self, message: FromWorker, /) -> None:
            outbox.send(message)
            given_back = message.withdrawn if isinstance(message, Failed) else ()
            for again in messages:
                if isinstance(again, Submit) and again.request_id in given_back:
                    inbox.put(again)
            if last in outbox.finished() or last in outbox.failed():
                inbox.put(Shutdown())

    for message in messages:
        inbox.put(message)
    runner.during = [(inbox, m) for _, m in runner.during]
    Worker(inbox, Closing(), Scheduler(config, (), 10, runner), runner).serve()
    return outbox


def test_steps_run_until_all_requests_are_finished() -> None:
    outbox = serve(ScriptedRunner(), [submit("a"), submit("b", 4)], last="b")
    assert outbox.finished() == ["a", "b"]
    times = [m.at for m in outbox.messages if isinstance(m, StepOutput)]
    assert times == sorted(times)


def test_steps_tell_how_many_tokens_they_computed() -> None:
    outbox = serve(ScriptedRunner(), [submit("a"), submit("b")], last="b")
    # First a prompt of two, then the other prompt and a row, then the last row.
    steps = [m.tokens for m in outbox.messages if isinstance(m, StepOutput)]
    assert [tokens for tokens in steps if tokens] == [2, 3, 1]


def test_the_scheduler_is_told_how_long_each_step_took(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, float]] = []
    monkeypatch.setattr(
        Scheduler, "took", lambda self, b, seconds: told.append((b.tokens, seconds))
    )
    serve(ScriptedRunner(), [submit("a")], last="a")
    assert [tokens for tokens, _ in told] == [2, 1]
    assert all(seconds >= 0 for _, seconds in told)


def test_programs_are_told_once_also_those_of_a_failed_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs = iter([7, 8, 11])  # before, after the first step, and after the third
    monkeypatch.setattr(engine.worker, "compiled_programs", lambda: next(programs))
    runner = ScriptedRunner([None, KeyError("lost")])
    outbox = serve(runner, [submit("a"), submit("b", 1), submit("c", 1)], last="c")
    steps = [m for m in outbox.messages if isinstance(m, StepOutput) and m.tokens]
    assert [m.compiles for m in steps] == [1, 3]


def test_request_sent_during_a_step_joins_and_cancel_takes_effect() -> None:
    runner = ScriptedRunner()
    runner.during = [(None, submit("b")), (None, Cancel("a"))]  # type: ignore[list-item]
    outbox = serve(runner, [submit("a", 20)], last="b")
    assert outbox.finished() == ["b"]


def test_refused_request_fails_alone() -> None:
    outbox = serve(ScriptedRunner(), [submit("bad", 1000), submit("a")], last="a")
    assert outbox.failed() == ["bad"]
    assert outbox.finished() == ["a"]


def test_error_of_one_request_leaves_the_others_running() -> None:
    runner = ScriptedRunner([None, RequestFailed("no room", "b")])
    outbox = serve(runner, [submit("a", 5), submit("b")], last="a")
    assert Failed("no room", ("b",)) in outbox.messages
    assert not any(isinstance(message, Warned) for message in outbox.messages)
    assert outbox.finished() == ["a"]


def test_error_of_a_whole_step_fails_its_requests_and_the_worker_lives() -> None:
    runner = ScriptedRunner([None, ValueError("odd")])
    outbox = serve(runner, [submit("a", 5), submit("b"), submit("c")], last="c")
    # The one that had not begun is given back: what failed has to be tried alone.
    assert Failed("ValueError: odd", ("b", "a"), True, ("c",)) in outbox.messages
    [warning] = [m for m in outbox.messages if isinstance(m, Warned)]
    assert warning.message.startswith("Traceback") and warning.message.endswith("ValueError: odd")
    assert outbox.finished() == ["c"]


def test_what_the_prompt_cache_holds_is_told_when_a_request_begins() -> None:
    # One slot, and room for the four tokens of one request, a byte each.
    small = replace(CONFIG, slots=1, cache_ram=4)
    requests = [submit(name, 3) for name in "abc"]
    outbox = serve(ScriptedRunner(), requests, last="c", config=small)
    told = [m.host_cache for m in outbox.messages if isinstance(m, StepOutput) and m.host_cache]
    assert told == [HostCacheUse(), HostCacheUse(4), HostCacheUse(4, evictions=1)]


def test_that_a_request_begins_is_told_before_its_first_step() -> None:
    class Dying(ScriptedRunner):
        def run(self, batch: Batch) -> list[int]:
            raise KeyboardInterrupt

    inbox: Inbox = queue.SimpleQueue()
    outbox = Outbox()
    for name in ("a", "b"):
        inbox.put(submit(name))
    runner = Dying()
    with pytest.raises(KeyboardInterrupt):
        Worker(inbox, outbox, Scheduler(CONFIG, (), 10, runner), runner).serve()
    [told] = outbox.messages
    assert isinstance(told, StepOutput)
    assert [(o.request_id, o.token_ids) for o in told.outputs] == [("a", ())]


class Narrow(ScriptedRunner):
    """Has memory for no more than `rows` sequences in a step."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def run(self, batch: Batch) -> list[int]:
        if len(batch.sequences) > self.rows:
            raise OutOfMemory("The step ran out of memory.")
        return super().run(batch)


def test_a_step_that_runs_out_of_memory_is_run_again_with_less_in_it() -> None:
    four = replace(CONFIG, slots=4)
    requests = [submit("a", 29), *(submit(name, 9) for name in "bcd")]
    outbox = serve(Narrow(rows=3), requests, last="a", config=four)
    assert outbox.failed() == []
    assert sorted(outbox.finished()) == ["a", "b", "c", "d"]
    assert [len(outbox.outputs(name)) for name in "abcd"] == [30, 10, 10, 10]
    [warning] = [m for m in outbox.messages if isinstance(m, Warned)]
    assert warning.message.startswith("The step ran out of memory.")


def test_a_request_that_needs_more_memory_than_there_is_fails_alone() -> None:
    outbox = serve(Narrow(rows=0), [submit("a"), submit("b")], last="b")
    assert outbox.failed() == ["a", "b"]


Ends = tuple[socket.socket, socket.socket]


def test_reader_turns_the_end_of_the_pipe_into_shutdown(ends: Ends) -> None:
    ours, theirs = ends[0], Pipe(ends[1])
    inbox = start_reader(theirs)
    Pipe(ours).send(Cancel("a"))
    ours.close()
    assert inbox.get(timeout=10) == Cancel("a")
    assert inbox.get(timeout=10) == Shutdown()


class FakeRunner(ScriptedRunner):
    def __init__(self, model: Any, config: EngineConfig) -> None:
        super().__init__()

    def warm_up(self, on_step: Any) -> None:
        on_step(1, 1)

    def describe(self, ready: Ready) -> Ready:
        return replace(ready, runtime={"forward": "FakeRunner"})


def install(monkeypatch: pytest.MonkeyPatch, load_model: Any, files: int = 0) -> None:
    """Stand in for the modules that need torch, and keep this process's signal handling."""
    for name, attributes in {
        "engine.loader": {"load_model": load_model, "choose_device": lambda wanted: "cpu"},
        "engine.native_compiler": {"files_to_compile": lambda: files},
        "engine.native_library": {"native_library": lambda: None},
        "engine.model_runner": {
            "TransformersRunner": FakeRunner,
            "use_threads": lambda threads: None,
        },
    }.items():
        module = ModuleType(name)
        module.__dict__.update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(engine.worker, "_follow_parent", lambda: None)


def loaded(config: EngineConfig, on_loading: Any, on_converting: Any) -> SimpleNamespace:
    on_converting(2, 0)
    on_loading(3, 7)
    return SimpleNamespace(model=None, ready=READY)


def test_worker_reports_progress_then_ready_then_answers(
    monkeypatch: pytest.MonkeyPatch, ends: Ends
) -> None:
    install(monkeypatch, loaded, files=2)
    ours, theirs = map(Pipe, ends)
    ours.send(submit("a"))
    ours.send(Cancel("nobody"))

    def run() -> None:
        with ends[1]:  # closed at the end, so that nobody waits for what will not come
            run_worker(theirs, CONFIG)

    thread = threading.Thread(target=run)
    thread.start()
    messages = list(islice(ours.receive(), 7))
    ours.send(Shutdown())
    thread.join(10)
    ready = replace(READY, runtime={"forward": "FakeRunner"})
    assert messages[:5] == [
        Progress("compiling", 0, 2),
        Progress("converting", 2, 0),
        Progress("loading", 3, 7),
        Progress("warm-up", 1, 1),
        ready,
    ]
    assert messages[5].outputs[0].started_at is not None
    assert messages[6].outputs[0].finish == "stop"
    assert not thread.is_alive()


def test_what_the_worker_warns_of_reaches_the_server(
    monkeypatch: pytest.MonkeyPatch, ends: Ends
) -> None:
    def warns(config: EngineConfig, on_loading: Any, on_converting: Any) -> SimpleNamespace:
        logging.getLogger("engine.native_library").warning("no %s here", "compiler")
        return loaded(config, on_loading, on_converting)

    install(monkeypatch, warns)
    ours, theirs = map(Pipe, ends)
    ours.send(Shutdown())
    run_worker(theirs, CONFIG)
    assert next(ours.receive()) == Warned("no compiler here")
    assert not logging.getLogger("engine").handlers


def test_load_failure_is_reported_and_ends_the_worker(
    monkeypatch: pytest.MonkeyPatch, ends: Ends
) -> None:
    def broken(config: EngineConfig, on_loading: Any, on_converting: Any) -> SimpleNamespace:
        raise ValueError("no such weights")

    install(monkeypatch, broken)
    ours, theirs = map(Pipe, ends)
    run_worker(theirs, CONFIG)
    assert next(ours.receive()) == StartFailed("ValueError: no such weights")


def test_worker_leaves_quietly_when_the_server_is_gone(
    monkeypatch: pytest.MonkeyPatch, ends: Ends
) -> None:
    install(monkeypatch, loaded, files=2)
    ours, theirs = ends[0], Pipe(ends[1])
    ours.close()
    run_worker(theirs, CONFIG)


def test_loop_and_scheduler_import_without_torch() -> None:
    code = "import sys, engine.worker; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_worker_process_outlives_ctrl_c() -> None:
    code = "import os, signal, engine.worker as w; w._follow_parent(); os.kill(os.getpid(), 2)"
    result = subprocess.run([sys.executable, "-c", code], check=False, env=dict(os.environ))
    assert result.returncode != -signal.SIGINT
    assert result.returncode == 0
