"""WorkerSupervisor: start, death, restart, on a fake worker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from engine.config import EngineConfig, ModelSource
from engine.errors import ModelError
from engine.messages import (
    Cancel,
    Failed,
    Progress,
    Ready,
    SequenceOutput,
    StartFailed,
    StepOutput,
    Warned,
)
from engine.supervisor import WorkerSupervisor
from tests.engine.fake_worker import FakeWorkers, settle

CONFIG = EngineConfig(ModelSource("m", Path("m.gguf")), ctx=64)
READY = Ready("{}", None, {}, (0,), 1, 8.0, "cpu", "float32")


class Listener:
    def __init__(self) -> None:
        self.heard: list[object] = []
        self.refuses: ModelError | None = None
        self.has_work = False

    def on_ready(self, ready: Ready) -> None:
        if self.refuses:
            raise self.refuses
        self.heard.append(ready)

    def on_progress(self, progress: Progress) -> None:
        self.heard.append(progress)

    def on_step(self, step: StepOutput) -> None:
        self.heard.append(step)

    def on_failed(self, failed: Failed) -> None:
        self.heard.append(failed)

    def on_death(self, reason: str) -> None:
        self.heard.append(reason)


class Stage:
    """A supervisor with its listener and the workers it has started."""

    def __init__(self, step_seconds: float = 120.0) -> None:
        self.workers = FakeWorkers()
        self.listener = Listener()
        config = replace(CONFIG, step_seconds=step_seconds)
        self.supervisor = WorkerSupervisor(config, self.listener, self.workers)

    async def begin(self) -> asyncio.Task[None]:
        starting = asyncio.create_task(self.supervisor.start())
        await settle()
        return starting


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def ready_stage(stage: Stage) -> Stage:
    starting = await stage.begin()
    stage.workers[0].say(READY)
    await starting
    return stage


async def test_start_returns_when_the_worker_is_ready(stage: Stage) -> None:
    starting = await stage.begin()
    stage.workers[0].say(Progress("loading", 1, 2))
    await settle()
    assert not starting.done()
    stage.workers[0].say(READY)
    await starting
    assert stage.listener.heard == [Progress("loading", 1, 2), READY]
    assert stage.supervisor.pid == 100


async def test_a_failed_load_is_a_model_error(stage: Stage) -> None:
    starting = await stage.begin()
    stage.workers[0].say(StartFailed("no such tensor"))
    stage.workers[0].die(0, [])
    with pytest.raises(ModelError, match="no such tensor"):
        await starting
    await settle()
    assert len(stage.workers) == 1


async def test_death_while_loading_tells_the_workers_last_lines(stage: Stage) -> None:
    starting = await stage.begin()
    stage.workers[0].die(-9, ["line one", "line two"])
    with pytest.raises(ModelError, match=r"line one\nline two\n.*signal 9, probably out of memory"):
        await starting
    assert len(stage.workers) == 1


async def test_a_broken_template_found_at_ready_is_a_start_failure(stage: Stage) -> None:
    stage.listener.refuses = ModelError("template line 3")
    starting = await stage.begin()
    stage.workers[0].say(READY)
    with pytest.raises(ModelError, match="template line 3"):
        await starting


async def test_a_dead_worker_is_started_again_and_counted(stage: Stage) -> None:
    await ready_stage(stage)
    stage.workers[0].die(-11, [])
    await settle()
    assert len(stage.workers) == 2
    assert stage.supervisor.restarts == 1
    assert stage.supervisor.pid == 101
    assert stage.listener.heard[-1] == "The model worker stopped (signal 11)."
    stage.workers[1].say(READY)
    await settle()
    assert stage.listener.heard[-1] == READY


async def test_a_death_is_logged_once_with_the_worker_s_last_lines(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await ready_stage(stage)
    stage.workers[0].die(-11, ["last line"])
    await settle()
    [record] = caplog.records
    assert record.message == (
        "last line\nThe model worker stopped (signal 11). Starting it again (restart 1)."
    )


async def test_a_failed_start_of_the_next_worker_is_logged(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await ready_stage(stage)
    stage.workers[0].die(-11, [])
    await settle()
    stage.workers[1].say(StartFailed("no such tensor"))
    await settle()
    assert caplog.messages[-1] == "The model worker could not start again: no such tensor"


async def test_a_worker_that_dies_again_before_it_is_ready_waits_longer(stage: Stage) -> None:
    await ready_stage(stage)
    stage.workers[0].die(-11, [])
    await settle()
    stage.workers[1].die(1, ["broken"])
    await settle()
    assert len(stage.workers) == 2
    assert stage.supervisor.pid is None
    assert stage.supervisor.restarts == 2
    await stage.supervisor.close()


async def test_a_night_of_failed_starts_is_not_the_last(stage: Stage) -> None:
    await ready_stage(stage)
    stage.supervisor._failed_starts = 5000
    stage.workers[0].die(1, ["broken"])
    await settle()
    assert stage.supervisor._restart
    assert stage.supervisor._restart.when() - asyncio.get_running_loop().time() < 31
    await stage.supervisor.close()


async def test_a_process_that_cannot_be_made_is_tried_again_later(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await ready_stage(stage)

    def no_process(*args: object) -> NoReturn:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    stage.supervisor._start_worker = no_process
    stage.workers[0].die(-9, [])
    await settle()
    assert "could not be started again" in caplog.text
    assert stage.supervisor._restart and not stage.supervisor._restart.cancelled()
    await stage.supervisor.close()


async def test_messages_of_a_running_worker_reach_the_listener(stage: Stage) -> None:
    await ready_stage(stage)
    step = StepOutput(1.0, (SequenceOutput("r", (5,), 1),))
    stage.workers[0].say(step)
    stage.workers[0].say(Failed("bad", ("r",)))
    await settle()
    assert stage.listener.heard[1:] == [step, Failed("bad", ("r",))]


async def test_what_is_sent_goes_to_the_living_worker_only(stage: Stage) -> None:
    stage.supervisor.send(Cancel("early"))
    await ready_stage(stage)
    stage.supervisor.send(Cancel("x"))
    assert stage.workers[0].received == [Cancel("x")]


async def test_close_stops_the_worker_and_starts_no_other(stage: Stage) -> None:
    await ready_stage(stage)
    await stage.supervisor.close()
    await settle()
    assert stage.workers[0].stopped
    assert len(stage.workers) == 1
    assert stage.supervisor.restarts == 0


async def test_what_the_worker_warns_of_is_logged(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await ready_stage(stage)
    stage.workers[0].say(Warned("Less memory than expected."))
    await settle()
    assert caplog.messages == ["Less memory than expected."]


async def killed(stage: Stage) -> None:
    async with asyncio.timeout(10):
        while not stage.workers[0].killed:
            await asyncio.sleep(0.001)


async def test_a_worker_that_has_work_and_says_nothing_is_killed_and_started_again() -> None:
    stage = await ready_stage(Stage(step_seconds=0.02))
    stage.listener.has_work = True
    await killed(stage)
    await settle()
    assert stage.listener.heard[-1] == "The model worker stopped (it hung: no word in 0.02 s)."
    assert len(stage.workers) == 2
    await stage.supervisor.close()


async def test_a_worker_without_work_may_be_silent() -> None:
    stage = await ready_stage(Stage(step_seconds=0.001))
    looks = 0

    class Idle(Listener):
        @property
        def has_work(self) -> bool:  # type: ignore[override]
            nonlocal looks
            looks += 1
            return False

        @has_work.setter
        def has_work(self, value: bool) -> None:
            pass

    stage.supervisor._listener = Idle()
    async with asyncio.timeout(10):
        while looks < 30:
            await asyncio.sleep(0.001)
    assert not stage.workers[0].killed
    await stage.supervisor.close()


async def test_a_worker_that_speaks_is_not_killed_however_long_its_work_takes() -> None:
    stage = await ready_stage(Stage(step_seconds=30.0))
    stage.listener.has_work = True
    stage.supervisor._heard_at -= 40.0
    stage.workers[0].say(StepOutput(1.0, ()))
    await settle()
    stage.supervisor._look()
    assert not stage.workers[0].killed
    stage.supervisor._heard_at -= 40.0
    stage.supervisor._look()
    assert stage.workers[0].killed
    await stage.supervisor.close()


async def test_a_worker_whose_warm_up_had_long_steps_may_be_silent_for_longer() -> None:
    stage = Stage(step_seconds=30.0)
    starting = await stage.begin()
    stage.workers[0].say(replace(READY, step_seconds=6.0))
    await starting
    stage.listener.has_work = True
    stage.supervisor._heard_at -= 110.0
    stage.supervisor._look()
    assert not stage.workers[0].killed
    stage.supervisor._heard_at -= 30.0
    stage.supervisor._look()
    assert stage.workers[0].killed
    assert "no word in 120 s" in str(stage.listener.heard[-1])
    await stage.supervisor.close()


async def test_a_worker_that_hangs_while_it_starts_again_is_killed_too() -> None:
    stage = await ready_stage(Stage(step_seconds=30.0))
    stage.workers[0].die(-9, [])
    await settle()
    stage.supervisor.load_seconds = 7.0
    stage.supervisor._heard_at -= 60.0
    stage.supervisor._look()
    assert not stage.workers[1].killed
    stage.supervisor._heard_at -= 20.0
    stage.supervisor._look()
    assert stage.workers[1].killed
    await settle()
    assert stage.listener.heard[-1] == "The model worker stopped (it hung: no word in 70 s)."
    await stage.supervisor.close()


async def test_the_first_start_may_take_as_long_as_it_likes() -> None:
    stage = Stage(step_seconds=1.0)
    starting = await stage.begin()
    stage.supervisor._heard_at -= 10_000.0
    stage.supervisor._look()
    assert not stage.workers[0].killed
    stage.workers[0].say(READY)
    await starting
    await stage.supervisor.close()
