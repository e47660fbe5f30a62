from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial

import pytest

from engine.errors import EngineError, NotReady, QueueFull, WorkerFailed
from engine.events import PartDelta, PartEnd, PartStart
from engine.request import ChatPrompt, GenerationRequest, SamplingParams
from handlers.answer import AnswerResponse
from handlers.chat_encoder import ChatEncoder
from handlers.errors import ErrorBoundary
from tests.handlers.asgi import Connection, http_scope, sse_events
from tests.handlers.scripted_engine import (
    STARTED,
    Hold,
    ScriptedAnswer,
    ScriptedEngine,
    Step,
    text_events,
)

LOST = WorkerFailed("The worker died.")
REQUEST = GenerationRequest("chatcmpl-1", ChatPrompt(()), SamplingParams(seed=7))
BEFORE_OUTPUT: list[list[Step]] = [[LOST], [STARTED, LOST], [STARTED, PartStart(0, "text"), LOST]]
AFTER_OUTPUT: list[Step] = [STARTED, PartStart(0, "text"), PartDelta(0, "Hel"), LOST]
both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


class Exchange:
    """One request to a scripted engine, and the connection that its response goes out on."""

    def __init__(self, engine: ScriptedEngine, stream: bool) -> None:
        self.engine = engine
        self.connection = Connection()
        self._stream = stream
        self.new_encoder: Callable[[], ChatEncoder] = partial(
            ChatEncoder, REQUEST.id, "served", False
        )

    async def run(self) -> Exchange:
        response = AnswerResponse(self.engine, REQUEST, self.new_encoder, self._stream)
        await self.connection.serve(ErrorBoundary(response))
        assert self.engine.all_closed
        return self

    def begin(self) -> asyncio.Future[Exchange]:
        return asyncio.ensure_future(self.run())

    @property
    def text(self) -> str:
        body = self.connection.body.decode()
        if not self._stream:
            text: str = json.loads(body)["choices"][0]["message"]["content"]
            return text
        chunks = sse_events(body)
        return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)

    @property
    def error(self) -> dict[str, str | None]:
        body = self.connection.body.decode()
        error: dict[str, str | None] = (
            sse_events(body)[-1]["error"] if self._stream else json.loads(body)["error"]
        )
        return error


async def run(stream: bool, *scripts: list[Step] | Exception) -> Exchange:
    return await Exchange(ScriptedEngine(*scripts), stream).run()


@both
async def test_an_answer_is_sent_and_its_slot_freed(stream: bool) -> None:
    done = await run(stream, text_events("Hel", "lo"))
    assert done.text == "Hello"
    assert done.connection.complete
    assert len(done.engine.answers) == 1


@both
@pytest.mark.parametrize("lost", BEFORE_OUTPUT)
async def test_a_request_lost_before_output_is_sent_again(lost: list[Step], stream: bool) -> None:
    done = await run(stream, lost, text_events("Hel", "lo"))
    assert done.text == "Hello"
    assert done.engine.attempts == 2
    assert done.engine.requests == [REQUEST]


async def test_a_second_attempt_does_not_repeat_the_preamble() -> None:
    again = await run(True, BEFORE_OUTPUT[-1], text_events("Hello"))
    once = await run(True, text_events("Hello"))

    def deltas(done: Exchange) -> list[object]:
        return [chunk["choices"] for chunk in sse_events(done.connection.body.decode())]

    assert deltas(again) == deltas(once)


async def test_a_stream_lost_after_output_is_not_sent_again() -> None:
    done = await run(True, AFTER_OUTPUT, text_events("Hello"))
    assert done.engine.attempts == 1
    assert done.text == "Hel"
    assert (done.error["type"], done.error["request_id"]) == ("server_error", "chatcmpl-1")


async def test_a_whole_answer_lost_in_the_middle_is_sent_again_from_the_start() -> None:
    done = await run(False, AFTER_OUTPUT, text_events("Bye"))
    assert done.text == "Bye"
    assert done.engine.attempts == 2


@both
@pytest.mark.parametrize("second", [[LOST], AFTER_OUTPUT])
async def test_a_second_loss_is_an_error(
    stream: bool, second: list[Step], caplog: pytest.LogCaptureFixture
) -> None:
    done = await run(stream, [LOST], second, text_events("never"))
    assert done.engine.attempts == 2
    assert done.connection.status == (200 if stream else 500)
    assert done.connection.complete
    message = done.error["message"] or ""
    assert message.startswith("internal server error: ")
    assert "died" not in message
    assert done.error["type"] == "server_error"
    assert "died" in caplog.text


async def test_a_failed_stream_s_log_line_carries_the_id_that_its_chunk_names(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done = await run(True, AFTER_OUTPUT)
    assert any((done.error["request_id"] or "x") in r.message for r in caplog.records)


@both
@pytest.mark.parametrize(
    ("refusal", "type_"),
    [
        (QueueFull("Full.", 1, tenant_limit=False), "rate_limit_error"),
        (NotReady("Loading."), "overloaded_error"),
    ],
)
async def test_a_refused_second_attempt_ends_in_its_own_error(
    stream: bool, refusal: EngineError, type_: str
) -> None:
    done = await run(stream, [LOST], refusal)
    assert done.error["type"] == type_
    assert (done.error["message"] or "").startswith("internal server error: ") == stream


@both
@pytest.mark.parametrize("refusal", [NotReady("Loading."), QueueFull("Full.", 1, False)])
async def test_a_refusal_comes_out_before_the_response_begins(
    stream: bool, refusal: EngineError
) -> None:
    done = await run(stream, refusal)
    assert done.connection.status == (503 if isinstance(refusal, NotReady) else 429)


async def test_a_stream_begins_before_its_first_event() -> None:
    hold = Hold()
    exchange = Exchange(ScriptedEngine([hold, *text_events("Hello")]), stream=True)
    running = exchange.begin()
    await hold.reached.wait()
    assert b'"role":"assistant"' in exchange.connection.body
    hold.released.set()
    await running


async def test_text_leaves_while_the_next_is_awaited() -> None:
    hold = Hold()
    script: list[Step] = [STARTED, PartStart(0, "text"), PartDelta(0, "Hel"), hold, PartEnd(0)]
    exchange = Exchange(ScriptedEngine([*script, text_events()[-1]]), stream=True)
    running = exchange.begin()
    await hold.reached.wait()
    assert b'"Hel"' in exchange.connection.body
    hold.released.set()
    await running


@both
@pytest.mark.parametrize("at", [0, 1, 3])
async def test_a_client_that_leaves_frees_its_slot(stream: bool, at: int) -> None:
    hold = Hold()
    events = text_events("Hel", "lo")
    exchange = Exchange(ScriptedEngine([*events[:at], hold, *events[at:]]), stream)
    running = exchange.begin()
    await hold.reached.wait()
    exchange.connection.left.set()
    await running
    assert exchange.engine.answers[0].closed.is_set()
    assert not exchange.connection.complete


@both
async def test_a_client_that_leaves_during_the_second_attempt_frees_its_slot(stream: bool) -> None:
    hold = Hold()
    exchange = Exchange(ScriptedEngine([LOST], [hold]), stream)
    running = exchange.begin()
    await hold.reached.wait()
    exchange.connection.left.set()
    await running
    assert [a.closed.is_set() for a in exchange.engine.answers] == [True]


@both
async def test_a_client_that_leaves_before_it_is_admitted_ends_the_preparation(
    stream: bool,
) -> None:
    preparing, ended = asyncio.Event(), asyncio.Event()

    class Preparing(ScriptedEngine):
        async def generate(self, request: GenerationRequest) -> ScriptedAnswer:
            preparing.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

    exchange = Exchange(Preparing(), stream)
    running = exchange.begin()
    await preparing.wait()
    exchange.connection.left.set()
    await running
    assert ended.is_set() and exchange.connection.messages == []


@both
async def test_the_tenant_that_the_guard_found_is_the_requests(stream: bool) -> None:
    engine = ScriptedEngine()
    exchange = Exchange(engine, stream)
    await exchange.connection.serve(
        AnswerResponse(engine, REQUEST, exchange.new_encoder, stream),
        {**http_scope(), "tenant": "blue"},
    )
    assert [request.tenant for request in engine.requests] == ["blue"]


async def test_a_client_that_left_before_the_stream_began_frees_its_slot() -> None:
    exchange = Exchange(ScriptedEngine(), stream=True)
    exchange.connection.reading.clear()
    running = exchange.begin()
    await exchange.connection.stuck.wait()
    exchange.connection.left.set()
    await running
    assert exchange.connection.messages == []


@both
async def test_a_fault_in_our_own_code_frees_the_slot(stream: bool) -> None:
    exchange = Exchange(ScriptedEngine([STARTED, KeyError("inside")]), stream)
    if stream:
        with pytest.raises(KeyError):
            await exchange.run()
        assert not exchange.connection.complete
    else:
        await exchange.run()
        assert exchange.connection.status == 500
    assert exchange.engine.all_closed
