"""Engine: the facade, on a fake worker and a small real tokenizer."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import engine.engine
from engine.admission import MAX_WAITING_PER_TENANT
from engine.answer import Answer
from engine.config import EngineConfig, ModelSource
from engine.engine import Engine
from engine.errors import (
    BadPrompt,
    ContextOverflow,
    ModelError,
    NotReady,
    PromptRefused,
    QueueFull,
    ServerStopped,
    Stopping,
    WorkerFailed,
)
from engine.events import Event, Finished, FinishReason, PartDelta, PartStart, Started
from engine.messages import Cancel, Failed, SequenceOutput, StepOutput, Submit, ThinkingBudget
from engine.request import (
    ChatPrompt,
    GenerationRequest,
    Message,
    SamplingParams,
    TextPrompt,
    Thinking,
    Tool,
)
from tests.engine.fake_worker import FakeWorker, FakeWorkers, settle
from tests.engine.small_tokenizers import byte_level, ready

CTX = 64
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


class Stage:
    """An engine and its worker; `outputs` plays a step."""

    def __init__(self, slots: int = 2) -> None:
        self.workers = FakeWorkers()
        config = EngineConfig(ModelSource("m", Path("m.gguf")), ctx=CTX, slots=slots)
        self.engine = Engine(config, self.workers)

    @property
    def worker(self) -> FakeWorker:
        return self.workers[-1]

    async def load(self, template: str = TEMPLATE) -> Stage:
        starting = asyncio.create_task(self.engine.start())
        await settle()
        self.worker.say(ready(byte_level(), template))
        await starting
        return self

    async def load_again(self) -> None:
        await settle()
        self.worker.say(ready(byte_level(), TEMPLATE))
        await settle()

    def outputs(self, *outputs: SequenceOutput) -> None:
        self.worker.say(StepOutput(1.0, outputs))


@pytest.fixture
async def stage() -> Stage:
    return await Stage().load()


def request(
    name: str = "r", text: str = "hello", sampling: SamplingParams | None = None
) -> GenerationRequest:
    return GenerationRequest(name, TextPrompt(text), sampling or SamplingParams())


async def collect(answer: Answer) -> list[Event]:
    return [event async for event in answer]


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, PartDelta))


def ids_of(stage: Stage, text: str) -> tuple[int, ...]:
    assert stage.engine._text is not None
    return stage.engine._text.tokenizer.encode_text(text, 99).ids


async def test_a_request_reaches_the_worker_and_its_ids_come_back_as_events(stage: Stage) -> None:
    answer = await stage.engine.generate(request(sampling=SamplingParams(max_tokens=5)))
    submit = stage.worker.received[0]
    assert isinstance(submit, Submit)
    assert (submit.request_id, submit.max_tokens) == ("r", 5)
    assert submit.prompt_ids == ids_of(stage, "hello")

    ids = ids_of(stage, "hello world")
    stage.outputs(SequenceOutput("r", ids[:1], 1, started_at=0.5))
    stage.outputs(SequenceOutput("r", ids[1:], len(ids) + 1, finish="stop"))
    events = await collect(answer)
    assert isinstance(events[0], Started)
    assert text_of(events) == "hello world"
    assert isinstance(events[-1], Finished)
    assert events[-1].reason is FinishReason.STOP
    assert events[-1].usage.completion_tokens == len(ids) + 1


async def test_max_tokens_is_clipped_to_the_room_in_the_context(stage: Stage) -> None:
    await stage.engine.generate(request("a", sampling=SamplingParams(max_tokens=10**9)))
    stage.outputs(SequenceOutput("a", (), 0, started_at=0.5))
    await stage.engine.generate(request("b"))
    await settle()
    room = CTX - len(ids_of(stage, "hello"))
    assert [m.max_tokens for m in stage.worker.received if isinstance(m, Submit)] == [room, room]


async def test_a_prompt_that_leaves_no_room_for_one_token_is_refused(stage: Stage) -> None:
    fits = "hello" + " hello" * (CTX - 2)
    assert len(ids_of(stage, fits)) == CTX - 1
    await stage.engine.generate(request("fits", fits))
    with pytest.raises(ContextOverflow) as refusal:
        await stage.engine.generate(request("too long", fits + " hello"))
    assert (refusal.value.tokens, refusal.value.maximum) == (CTX, CTX - 1)


async def test_an_empty_text_prompt_is_refused(stage: Stage) -> None:
    with pytest.raises(BadPrompt):
        await stage.engine.generate(request(text=""))


async def test_a_refused_prompt_is_called_what_the_client_calls_it(stage: Stage) -> None:
    for text in ("", "hello" * CTX):
        refused = replace(request(text=text), prompt_field="input")
        with pytest.raises(PromptRefused) as refusal:
            await stage.engine.generate(refused)
        assert refusal.value.field == "input"


async def test_tokens_are_counted_as_the_prompt_has_them(stage: Stage) -> None:
    chat = ChatPrompt((Message("user", "hello"),))
    assert await stage.engine.count_tokens(chat) == len(ids_of(stage, "user: hello\n"))
    assert stage.worker.received == []


async def test_tokens_are_counted_beyond_the_context_and_while_the_queue_is_full(
    stage: Stage,
) -> None:
    for n in range(stage.engine.config.slots + MAX_WAITING_PER_TENANT):
        await stage.engine.generate(request(str(n)))
    with pytest.raises(QueueFull):
        await stage.engine.generate(request())
    long = ChatPrompt((Message("user", "hello " * CTX),))
    assert await stage.engine.count_tokens(long) > CTX


async def test_tokens_cannot_be_counted_before_the_model_is_loaded() -> None:
    with pytest.raises(NotReady):
        await Stage().engine.count_tokens(ChatPrompt((Message("user", "hello"),)))


async def test_what_the_template_refuses_is_not_counted() -> None:
    stage = await Stage().load("{{ raise_exception('No.') }}")
    with pytest.raises(BadPrompt):
        await stage.engine.count_tokens(ChatPrompt((Message("user", "hello"),)))


async def test_a_chat_goes_through_the_template(stage: Stage) -> None:
    prompt = ChatPrompt((Message("user", "hello"),))
    await stage.engine.generate(GenerationRequest("r", prompt, SamplingParams()))
    submit = stage.worker.received[0]
    assert isinstance(submit, Submit)
    assert submit.prompt_ids == ids_of(stage, "user: hello\n")


async def test_nothing_is_admitted_before_the_model_is_loaded() -> None:
    stage = Stage()
    starting = asyncio.create_task(stage.engine.start())
    await settle()
    with pytest.raises(NotReady) as refusal:
        await stage.engine.generate(request())
    assert refusal.value.retry_after >= 1
    assert not stage.engine.health().ready
    assert stage.engine.loaded is None
    starting.cancel()


async def test_a_broken_chat_template_fails_the_start() -> None:
    with pytest.raises(ModelError):
        await Stage().load("{% for m in messages %}")


async def test_a_stop_string_ends_the_answer_and_frees_the_slot(stage: Stage) -> None:
    sampling = SamplingParams(stop=(" world",))
    answer = await stage.engine.generate(request(sampling=sampling))
    ids = ids_of(stage, "hello world there")
    stage.outputs(SequenceOutput("r", ids, len(ids), started_at=0.5))
    events = await collect(answer)
    assert text_of(events) == "hello"
    assert isinstance(events[-1], Finished)
    assert events[-1].stop_sequence == " world"
    assert stage.worker.received[-1] == Cancel("r")
    assert stage.engine.health().running == 0


async def test_closing_an_answer_cancels_it_once(stage: Stage) -> None:
    answer = await stage.engine.generate(request())
    answer.close()
    answer.close()
    assert stage.worker.received.count(Cancel("r")) == 1
    assert stage.engine.health().waiting == 0


async def test_outputs_of_requests_that_are_over_are_passed_by(stage: Stage) -> None:
    (await stage.engine.generate(request())).close()
    stage.outputs(SequenceOutput("r", (5,), 1, started_at=0.5))
    await settle()
    assert stage.engine.health().running == 0


async def test_health_counts_running_and_waiting(stage: Stage) -> None:
    for name in ("a", "b"):
        await stage.engine.generate(request(name))
    stage.outputs(SequenceOutput("a", (5,), 1, started_at=0.5))
    await settle()
    health = stage.engine.health()
    assert (health.ready, health.running, health.waiting) == (True, 1, 1)
    assert health.worker_pid == 100


async def test_a_full_queue_refuses(stage: Stage) -> None:
    for number in range(2 + MAX_WAITING_PER_TENANT):
        await stage.engine.generate(request(f"r{number}"))
    with pytest.raises(QueueFull):
        await stage.engine.generate(request("one more"))


async def test_a_failed_request_ends_alone(stage: Stage) -> None:
    bad, good = [await stage.engine.generate(request(name)) for name in ("bad", "good")]
    stage.worker.say(Failed("out of memory", ("bad",)))
    with pytest.raises(WorkerFailed, match="out of memory"):
        await collect(bad)
    bad.close()
    stage.outputs(SequenceOutput("good", (), 0, started_at=0.5))
    stage.outputs(SequenceOutput("good", (), 1, finish="stop"))
    assert len(await collect(good)) == 2


async def test_the_worker_is_told_how_many_requests_wait_behind(stage: Stage) -> None:
    answers = [await stage.engine.generate(request(name)) for name in "abc"]
    stage.outputs(SequenceOutput("a", (), 0, started_at=0.5))
    await settle()
    sent = [(m.request_id, m.behind) for m in stage.worker.received if isinstance(m, Submit)]
    assert sent == [("a", 0), ("b", 1)]
    for answer in answers:
        answer.close()


async def test_what_a_failed_step_gave_back_is_run_later(stage: Stage) -> None:
    lost = await stage.engine.generate(request("lost"))
    stage.outputs(SequenceOutput("lost", (), 0, started_at=0.5))
    given_back = await stage.engine.generate(request("given back"))
    await settle()
    stage.worker.say(Failed("odd", ("lost",), True, ("given back",)))
    with pytest.raises(WorkerFailed):
        await collect(lost)
    lost.close()
    sent = [m.request_id for m in stage.worker.received if isinstance(m, Submit)]
    assert sent == ["lost", "given back", "given back"]
    stage.outputs(SequenceOutput("given back", (), 1, finish="stop", started_at=0.5))
    assert isinstance((await collect(given_back))[-1], Finished)


async def test_a_dead_worker_fails_what_ran_and_the_next_one_serves(stage: Stage) -> None:
    lost = await stage.engine.generate(request("lost"))
    stage.outputs(SequenceOutput("lost", (), 0, started_at=0.5))
    await settle()
    stage.worker.die(-9, [])
    with pytest.raises(WorkerFailed, match="signal 9"):
        await collect(lost)
    lost.close()
    assert not stage.engine.health().ready
    with pytest.raises(NotReady):
        await stage.engine.generate(request("meanwhile"))
    await stage.load_again()
    assert stage.engine.health().worker_restarts == 1
    answer = await stage.engine.generate(request("next"))
    stage.outputs(SequenceOutput("next", (), 1, finish="stop", started_at=0.5))
    assert isinstance((await collect(answer))[-1], Finished)


async def test_a_request_is_sent_again_as_it_was_once(stage: Stage) -> None:
    answer = await stage.engine.generate(request(sampling=SamplingParams(seed=7)))
    for _ in range(2):
        ids = ids_of(stage, "hello")
        stage.outputs(SequenceOutput("r", ids[:1], 1, started_at=0.5))
        await settle()
        stage.worker.die(-9, [])
        with pytest.raises(WorkerFailed) as lost:
            await collect(answer)
        await stage.load_again()
        if len(stage.workers) == 2:
            answer.retry(lost.value)
    assert stage.workers[0].received[0] == stage.workers[1].received[0]
    with pytest.raises(WorkerFailed):
        answer.retry(lost.value)
    answer.close()
    assert stage.workers[2].received == [Cancel("r")]


async def test_a_second_attempt_gives_the_whole_stream(stage: Stage) -> None:
    answer = await stage.engine.generate(request())
    ids = ids_of(stage, "hello world")
    stage.outputs(SequenceOutput("r", ids[:1], 1, started_at=0.5))
    await settle()
    stage.worker.die(-9, [])
    with pytest.raises(WorkerFailed) as lost:
        await collect(answer)
    answer.retry(lost.value)
    assert stage.engine.health().waiting == 1
    await stage.load_again()
    stage.outputs(SequenceOutput("r", ids, len(ids), started_at=0.5))
    stage.outputs(SequenceOutput("r", (), len(ids) + 1, finish="stop"))
    events = await collect(answer)
    assert text_of(events) == "hello world"
    assert isinstance(events[0], Started) and isinstance(events[-1], Finished)


async def test_what_waits_waits_through_the_death_of_workers(stage: Stage) -> None:
    running = await stage.engine.generate(request("running"))
    stage.outputs(SequenceOutput("running", (), 0, started_at=0.5))
    waiting = await stage.engine.generate(request("waiting"))
    await settle()
    stage.worker.die(-9, [])
    await settle()
    running.close()
    await stage.load_again()
    assert [m.request_id for m in stage.worker.received if isinstance(m, Submit)] == ["waiting"]
    stage.outputs(SequenceOutput("waiting", (), 1, finish="stop", started_at=0.5))
    assert isinstance((await collect(waiting))[-1], Finished)


async def test_a_request_is_not_kept_waiting_for_ever(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.engine, "RESTART_SECONDS", 0.0)
    running = await stage.engine.generate(request("running"))
    stage.outputs(SequenceOutput("running", (), 0, started_at=0.5))
    waiting = await stage.engine.generate(request("waiting"))
    await settle()
    stage.worker.die(-9, [])
    with pytest.raises(NotReady):
        await collect(waiting)
    running.close()
    assert stage.engine.health().waiting == 0


async def test_the_first_of_several_deaths_starts_the_clock(stage: Stage) -> None:
    stage.worker.die(-9, [])
    await settle()
    deadline = stage.engine._restart_deadline
    assert deadline
    stage.worker.die(-9, [])
    await settle()
    assert stage.engine._restart_deadline is deadline
    stage.engine.on_ready(ready(byte_level(), TEMPLATE))
    assert deadline.cancelled()


async def test_a_lost_request_is_not_sent_again_while_the_server_stops(stage: Stage) -> None:
    answer = await stage.engine.generate(request())
    stage.outputs(SequenceOutput("r", (), 0, started_at=0.5))
    await settle()
    draining = asyncio.create_task(stage.engine.drain(timeout=30.0))
    await settle()
    stage.worker.die(-9, [])
    with pytest.raises(WorkerFailed) as lost:
        await collect(answer)
    with pytest.raises(NotReady, match="stopping"):
        answer.retry(lost.value)
    answer.close()
    await draining


async def test_draining_takes_nothing_new_and_waits_for_what_runs(stage: Stage) -> None:
    answer = await stage.engine.generate(request())
    stage.outputs(SequenceOutput("r", (), 0, started_at=0.5))
    await settle()
    draining = asyncio.create_task(stage.engine.drain(timeout=30.0))
    await settle()
    assert not draining.done()
    assert not stage.engine.health().ready
    with pytest.raises(NotReady, match="stopping"):
        await stage.engine.generate(request("new"))
    stage.outputs(SequenceOutput("r", (), 1, finish="stop"))
    await draining
    assert isinstance((await collect(answer))[-1], Finished)


async def test_a_drain_that_begins_while_a_prompt_is_read_sends_it_away(stage: Stage) -> None:
    busy = threading.Event()
    stage.engine._pool._short.submit(busy.wait)
    asking = asyncio.ensure_future(stage.engine.generate(request()))
    await settle()
    await stage.engine.drain(timeout=0.0)
    busy.set()
    with pytest.raises(Stopping):
        await asking
    assert stage.worker.received == []


async def test_draining_sends_away_what_still_waits(stage: Stage) -> None:
    answer = await stage.engine.generate(request())
    await stage.engine.drain(timeout=30.0)
    with pytest.raises(NotReady, match="stopping"):
        await collect(answer)


async def test_draining_gives_up_after_its_time_and_close_fails_the_rest(stage: Stage) -> None:
    answer = await stage.engine.generate(request())
    stage.outputs(SequenceOutput("r", (), 0, started_at=0.5))
    await settle()
    await stage.engine.drain(timeout=0.0)
    await stage.engine.close()
    with pytest.raises(ServerStopped, match="before the answer was complete"):
        await collect(answer)
    assert stage.worker.stopped


_AS_THE_TEMPLATE = Thinking()
TOOL = Tool("now", "", {"type": "object", "properties": {}})


def chat_request(*tools: Tool, thinking: Thinking = _AS_THE_TEMPLATE) -> GenerationRequest:
    prompt = ChatPrompt((Message("user", "hi"),), tools, thinking=thinking)
    return GenerationRequest("r", prompt, SamplingParams())


class RoomyStage(Stage):
    """A stage with room for the fallback's tool prompt."""

    def __init__(self, tool_format: str | None = None) -> None:
        self.workers = FakeWorkers()
        config = EngineConfig(
            ModelSource("m", Path("m.gguf")), ctx=2048, slots=2, tool_format=tool_format
        )
        self.engine = Engine(config, self.workers)


async def test_a_chat_with_tools_is_constrained_and_its_calls_are_parts() -> None:
    stage = await RoomyStage().load()
    answer = await stage.engine.generate(chat_request(TOOL))
    submit = stage.worker.received[0]
    assert isinstance(submit, Submit)
    assert submit.constraint is not None and submit.constraint.trigger == "<tool_call>"
    ids = ids_of(stage, '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>')
    stage.outputs(SequenceOutput("r", ids, len(ids) + 1, finish="stop", started_at=0.5))
    events = await collect(answer)
    assert [e.name for e in events if isinstance(e, PartStart)] == ["now"]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason is FinishReason.TOOL_CALLS


async def test_the_configured_tool_format_wins_over_the_templates() -> None:
    stage = await RoomyStage("mistral").load()
    answer = await stage.engine.generate(chat_request(TOOL))
    ids = ids_of(stage, "[TOOL_CALLS]now[ARGS]{}")
    stage.outputs(SequenceOutput("r", ids, len(ids) + 1, finish="stop", started_at=0.5))
    assert [e.name for e in await collect(answer) if isinstance(e, PartStart)] == ["now"]


async def test_an_unknown_tool_format_fails_the_start() -> None:
    with pytest.raises(ModelError, match="Unknown tool format"):
        await RoomyStage("latin").load()


async def test_an_answer_begins_inside_the_thinking_that_the_prompt_opens() -> None:
    stage = await RoomyStage().load(TEMPLATE + "<think>\n")
    thinking = Thinking(True, budget=9)
    answer = await stage.engine.generate(chat_request(thinking=thinking))
    submit = stage.worker.received[0]
    assert isinstance(submit, Submit)
    assert submit.thinking == ThinkingBudget(9, None, "</think>")
    ids = ids_of(stage, "Hm.</think>\n\nYes")
    stage.outputs(SequenceOutput("r", ids, len(ids) + 1, finish="stop", started_at=0.5))
    events = await collect(answer)
    assert [e.kind for e in events if isinstance(e, PartStart)] == ["reasoning", "text"]


async def test_markers_in_a_plain_texts_answer_are_text(stage: Stage) -> None:
    answer = await stage.engine.generate(request(text="a"))
    ids = ids_of(stage, "<think>b</think>")
    stage.outputs(SequenceOutput("r", ids, len(ids) + 1, finish="stop", started_at=0.5))
    assert text_of(await collect(answer)) == "<think>b</think>"
