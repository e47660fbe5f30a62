"""Responses over HTTP, on a scripted engine."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI

from engine.errors import WorkerFailed
from engine.events import FinishReason, PartDelta, PartEnd, PartStart
from engine.request import ChatPrompt, Message
from generated.models import ResponsesRequest
from handlers import sse
from handlers.routes import Routes
from mashbox.app import contract
from tests.handlers.asgi import Connection, client, error_of, judged_app, named_events
from tests.handlers.schemas import schema
from tests.handlers.scripted_engine import (
    MODEL_ID,
    STARTED,
    Hold,
    ScriptedEngine,
    Step,
    text_events,
)

PATH = "/v1/responses"


async def test_a_text_is_answered_whole_and_streamed_alike() -> None:
    engine = ScriptedEngine(text_events("Hel", "lo"))
    body = {"input": "Hi", "max_output_tokens": 3}
    async with client(engine) as http:
        whole = (await http.post(PATH, json=body)).json()
        streamed = await http.post(PATH, json=body | {"stream": True})
    schema("ResponseObject").validate(whole)
    assert whole["output"][0]["content"][0]["text"] == "Hello"
    assert streamed.headers["content-type"].startswith("text/event-stream")
    last = named_events(streamed.text)[-1]["response"]
    for answer in (whole, last):
        answer["output"][0]["id"] = answer["id"] = answer["created_at"] = "varies"
        answer["completed_at"] = "varies"
    assert last == whole
    (request, _) = engine.requests
    assert request.prompt == ChatPrompt((Message("user", "Hi"),), parallel_tool_calls=False)
    assert request.id.startswith("resp_")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": 5}, "input"),
        ({"input": []}, "input"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0]",
        ),
        ({"text": {"format": {"type": "json_object"}}}, "text.format.type"),
        ({"include": ["message.output_text.logprobs"]}, "include[0]"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"n": 2}, "n"),
        ({"tool_choice": "required"}, "tool_choice"),
    ],
)
async def test_what_cannot_be_served_is_refused(fields: dict[str, Any], param: str) -> None:
    async with client(ScriptedEngine()) as http:
        response = await http.post(PATH, json={"input": "Hi"} | fields)
    assert response.status_code == 400
    assert error_of(response)["param"] == param


async def test_a_stream_that_is_lost_after_output_fails_by_events() -> None:
    lost: list[Step] = [*text_events("Hel")[:-2], WorkerFailed("The worker died.")]
    async with client(ScriptedEngine(lost)) as http:
        response = await http.post(PATH, json={"input": "Hi", "stream": True})
    *_, error, failed = named_events(response.text)
    assert (error["type"], failed["type"]) == ("error", "response.failed")
    assert error["request_id"] == failed["response"]["id"]
    assert error["message"].startswith("internal server error: ")


async def test_a_stream_that_is_lost_before_output_begins_only_once() -> None:
    lost: list[Step] = [STARTED, WorkerFailed("The worker died.")]
    async with client(ScriptedEngine(lost, text_events("Hello"))) as http:
        response = await http.post(PATH, json={"input": "Hi", "stream": True})
    events = named_events(response.text)
    assert [event["type"] for event in events].count("response.created") == 1
    assert events[-1]["type"] == "response.completed"


CALL: list[Step] = [
    STARTED,
    PartStart(0, "tool_call", name="agents__tell", call_key="k"),
    PartDelta(0, '{"input": "go'),
    PartDelta(0, ' on"}'),
    PartEnd(0),
    text_events(reason=FinishReason.TOOL_CALLS)[-1],
]


async def test_the_official_sdk_reads_responses_and_their_streams() -> None:
    members = [{"type": "custom", "name": "tell"}]
    namespace = {"type": "namespace", "name": "agents", "description": "", "tools": members}
    fields: Any = {"model": MODEL_ID, "input": "Hi", "tools": [namespace]}
    transport = httpx2.ASGITransport(judged_app(ScriptedEngine(CALL)))
    async with AsyncOpenAI(
        base_url="http://127.0.0.1:8000/v1",
        api_key="any",
        http_client=httpx2.AsyncClient(transport=transport),
    ) as openai:
        whole = await openai.responses.create(**fields)
        async with openai.responses.stream(**fields) as stream:
            streamed = await stream.get_final_response()
    answers: list[Any] = [whole, streamed]
    for response in answers:
        (call,) = response.output
        assert call.type == "custom_tool_call"
        assert (call.namespace, call.name, call.input) == ("agents", "tell", "go on")
        assert response.tools[0].type == "namespace"


async def test_a_waiting_response_is_kept_alive_by_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.003)
    hold = Hold()
    routes = Routes(ScriptedEngine([hold, *text_events("Hello")]), contract())
    response = await routes.create_response(ResponsesRequest(input="Hi", stream=True))
    connection = Connection()
    serving = asyncio.ensure_future(connection.serve(response))
    async with asyncio.timeout(10):
        await connection.until(b'"type":"response.in_progress","sequence_number":4')
    hold.released.set()
    await serving
    events = named_events(connection.body.decode())
    assert [event["sequence_number"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "response.completed"
