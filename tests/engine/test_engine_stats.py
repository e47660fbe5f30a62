"""What the engine counts of its requests, on a fake worker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.answer import Answer
from engine.config import EngineConfig, ModelSource
from engine.engine import Engine
from engine.errors import ContextOverflow, ServerStopped, WorkerFailed
from engine.messages import Failed, HostCacheUse, SequenceOutput, StepOutput, Submit
from engine.request import GenerationRequest, SamplingParams, TextPrompt
from tests.engine.fake_worker import FakeWorkers, settle
from tests.engine.small_tokenizers import byte_level, ready

CTX = 64


class Stage:
    """A ready engine with two slots; `step` plays a step of its worker."""

    def __init__(self) -> None:
        self.workers = FakeWorkers()
        self.engine = Engine(EngineConfig(ModelSource("m", Path("m")), CTX, slots=2), self.workers)

    async def load(self) -> Stage:
        starting = asyncio.create_task(self.engine.start())
        await settle()
        self.workers[-1].say(ready(byte_level(), None))
        await starting
        return self

    async def ask(self, name: str, **sampling: object) -> Answer:
        params = SamplingParams(**sampling)  # type: ignore[arg-type]
        return await self.engine.generate(GenerationRequest(name, TextPrompt("hello"), params))

    async def step(self, *outputs: SequenceOutput, at: float = 1.0, tokens: int = 1) -> None:
        self.workers[-1].say(StepOutput(at, outputs, tokens, compiles=0))
        await settle()

    def ended(self) -> dict[str, int]:
        return {outcome: n for outcome, n in self.engine.stats.outcomes.items() if n}


@pytest.fixture
async def stage() -> Stage:
    return await Stage().load()


def started(name: str, at: float = 0.5) -> SequenceOutput:
    return SequenceOutput(name, (), 0, started_at=at)


def is_quiet(engine: Engine) -> bool:
    health = engine.health()
    return (health.running, health.waiting, health.held_tokens) == (0, 0, 0)


async def test_a_finished_request_is_counted_once(stage: Stage) -> None:
    answer = await stage.ask("r")
    await stage.step(started("r"), tokens=0)
    await stage.step(SequenceOutput("r", (5,), 1), tokens=3)
    await stage.step(SequenceOutput("r", (), 2, finish="stop"))
    answer.close()
    assert stage.ended() == {"stop": 1}
    stats = stage.engine.stats
    assert stats.generation_tokens == 2
    assert stats.prompt_tokens == answer.stats.prompt_tokens > 0
    assert stats.step_tokens.cumulative()[-1] == 2
    assert stats.step_tokens.sum == 4
    assert is_quiet(stage.engine)


@pytest.mark.parametrize(
    ("sampling", "last", "outcome"),
    [
        ({}, SequenceOutput("r", (5,), 1, finish="length"), "length"),
        ({"stop": ("hello",)}, None, "stop"),
    ],
)
async def test_length_and_stop_strings(
    stage: Stage, sampling: dict[str, object], last: SequenceOutput | None, outcome: str
) -> None:
    answer = await stage.ask("r", **sampling)
    await stage.step(started("r"), tokens=0)
    ids = answer.submit.prompt_ids  # the model says what it was told
    await stage.step(last or SequenceOutput("r", ids, len(ids)))
    assert stage.ended() == {outcome: 1}
    assert is_quiet(stage.engine)


async def test_guessed_tokens_are_counted(stage: Stage) -> None:
    await stage.ask("r")
    await stage.step(started("r"), tokens=0)
    await stage.step(SequenceOutput("r", (5,), 1))
    await stage.step(SequenceOutput("r", (5, 5, 5), 4, draft_tokens=4, accepted_tokens=2))
    await stage.step(SequenceOutput("r", (5,), 5, "length", draft_tokens=2, accepted_tokens=0))
    stats = stage.engine.stats
    assert (stats.drafts, stats.draft_tokens, stats.accepted_tokens) == (2, 6, 2)
    assert stats.inter_token_latency.cumulative()[-1] == 4


async def test_tokens_after_a_stop_string_are_not_counted(stage: Stage) -> None:
    answer = await stage.ask("r", stop=("hello",))
    await stage.step(started("r"), tokens=0)
    ids = answer.submit.prompt_ids * 3
    await stage.step(SequenceOutput("r", ids, len(ids)))
    assert stage.engine.stats.generation_tokens == answer.completion_tokens < len(ids) / 2


async def test_requests_that_are_closed_early_are_aborts(stage: Stage) -> None:
    waiting = [await stage.ask(str(n)) for n in range(3)]
    await stage.step(started("0"), tokens=0)
    await stage.step(SequenceOutput("0", (5,), 1))
    assert stage.engine.health().held_tokens == len(waiting[0].submit.prompt_ids) + 1
    for answer in waiting:
        answer.close()
        answer.close()
    assert stage.ended() == {"abort": 3}
    assert is_quiet(stage.engine)


async def test_a_failed_request_is_an_error(stage: Stage) -> None:
    answer = await stage.ask("r")
    await stage.step(started("r"), tokens=0)
    stage.workers[-1].say(Failed("broken", ("r",)))
    await settle()
    assert stage.ended() == {}
    assert isinstance(answer.error, WorkerFailed)
    answer.close()
    assert stage.ended() == {"error": 1}
    assert is_quiet(stage.engine)


async def test_a_request_whose_second_attempt_ends_well_is_no_error(stage: Stage) -> None:
    answer = await stage.ask("r")
    await stage.step(started("r"), tokens=0)
    await stage.step(SequenceOutput("r", (5,), 1))
    stage.workers[-1].say(Failed("broken", ("r",)))
    await settle()
    answer.retry(WorkerFailed("broken"))
    await stage.step(started("r", 2.0), at=2.0, tokens=0)
    await stage.step(SequenceOutput("r", (5,), 1, finish="length"), at=3.0)
    assert stage.ended() == {"length": 1}
    assert answer.error is None
    assert stage.engine.stats.generation_tokens == 2
    assert stage.engine.stats.request_generation_tokens.sum == 1


async def test_a_request_that_was_refused_is_not_counted(stage: Stage) -> None:
    with pytest.raises(ContextOverflow):
        await stage.engine.generate(
            GenerationRequest("r", TextPrompt("hello " * CTX), SamplingParams())
        )
    assert stage.ended() == {}


async def test_requests_that_a_stopping_server_loses_are_errors(stage: Stage) -> None:
    answer = await stage.ask("r")
    await stage.engine.close()
    assert isinstance(answer.error, ServerStopped)
    assert stage.ended() == {"error": 1}


async def test_the_fingerprints_outlive_the_worker(stage: Stage) -> None:
    identity = stage.engine.identity
    assert identity is not None
    stage.workers[-1].die(-9, [])
    await settle()
    stage.workers[-1].say(ready(byte_level(), None))
    assert stage.engine.identity is identity


async def test_the_prompt_cache_is_empty_after_a_fault_and_its_evictions_add_up(
    stage: Stage,
) -> None:
    stage.workers[-1].say(
        StepOutput(1.0, (), host_cache=HostCacheUse(nbytes=130, point_bytes=30, evictions=3))
    )
    await settle()
    stats = stage.engine.stats
    assert (stats.host_cache_bytes, stats.host_cache_evictions) == (100, 3)
    assert stats.state_point_bytes == 30
    stage.workers[-1].die(-9, [])
    await settle()
    assert (stats.host_cache_bytes, stats.host_cache_evictions) == (0, 3)
    stage.workers[-1].say(ready(byte_level(), None))
    stage.workers[-1].say(StepOutput(2.0, (), host_cache=HostCacheUse(nbytes=50, evictions=2)))
    await settle()
    assert (stats.host_cache_bytes, stats.host_cache_evictions) == (50, 5)


async def test_the_worker_is_told_whose_prompt_it_is(stage: Stage) -> None:
    request = GenerationRequest("r", TextPrompt("hello"), SamplingParams(), tenant="ann")
    await stage.engine.generate(request)
    await settle()
    told = [m.tenant for m in stage.workers[-1].received if isinstance(m, Submit)]
    assert told == ["ann"]
