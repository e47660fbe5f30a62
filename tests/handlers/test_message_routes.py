"""Messages, its token count and Completions over HTTP, on a scripted engine."""

from __future__ import annotations

from typing import Any

import httpx
import httpx2
import pytest
from anthropic import APIStatusError, AsyncAnthropic
from openai import AsyncOpenAI

from engine.errors import ContextOverflow, NotReady, PromptRefused, QueueFull, WorkerFailed
from engine.events import PartDelta, PartEnd, PartStart
from engine.request import ChatPrompt, Message, TextPrompt
from tests.handlers.asgi import QUESTION, client, error_of, judged_app, named_events, sse_events
from tests.handlers.schemas import schema
from tests.handlers.scripted_engine import (
    MODEL_ID,
    STARTED,
    ScriptedEngine,
    Step,
    text_events,
)

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
COMPLETIONS = "/v1/completions"
TEXT = {"prompt": "One two"}


async def post(path: str, engine: ScriptedEngine | None = None, **fields: object) -> httpx.Response:
    body = TEXT if path == COMPLETIONS else QUESTION
    async with client(engine or ScriptedEngine(text_events("Hel", "lo"))) as http:
        return await http.post(path, json=body | fields)


# Messages


async def test_a_message_is_answered_whole() -> None:
    engine = ScriptedEngine(text_events("Hel", "lo"))
    response = await post(MESSAGES + "?beta=true", engine, model="claude-x", max_tokens=3)
    assert response.status_code == 200
    answer = response.json()
    schema("Message").validate(answer)
    assert answer["content"] == [{"type": "text", "text": "Hello"}]
    assert answer["model"] == "claude-x"
    (request,) = engine.requests
    assert request.prompt == ChatPrompt((Message("user", "Hi"),))
    assert (request.id, request.sampling.max_tokens) == (answer["id"], 3)


async def test_without_a_model_the_served_one_is_named() -> None:
    assert (await post(MESSAGES)).json()["model"] == MODEL_ID


async def test_a_message_s_stream_is_its_whole_answer() -> None:
    whole = (await post(MESSAGES)).json()
    streamed = await post(MESSAGES, stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    events = named_events(streamed.text)
    for event in events:
        schema("MessageStreamEvent").validate(event)
    assert events[0]["message"]["content"] == []
    assert [e["delta"]["text"] for e in events if e["type"] == "content_block_delta"] == [
        "Hel",
        "lo",
    ]
    assert events[-2]["usage"] == whole["usage"]
    assert events[-1]["type"] == "message_stop"


async def test_a_lost_message_is_sent_again_with_one_frame() -> None:
    engine = ScriptedEngine([STARTED, WorkerFailed("died")], text_events("Hello"))
    events = named_events((await post(MESSAGES, engine, stream=True)).text)
    assert [e["type"] for e in events].count("message_start") == 1
    assert events[-1]["type"] == "message_stop"


async def test_a_message_lost_after_output_ends_with_an_error_event() -> None:
    lost: list[Step] = [STARTED, PartStart(0, "text"), PartDelta(0, "Hel"), WorkerFailed("died")]
    response = await post(MESSAGES, ScriptedEngine(lost), stream=True)
    assert response.status_code == 200
    start, *_, error = named_events(response.text)
    assert error["error"]["type"] == "api_error"
    assert error["error"]["message"].startswith("internal server error: ")
    assert error["request_id"] == start["message"]["id"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("error", "status", "type_"),
    [
        (NotReady("The model is still loading.", 7), 529, "overloaded_error"),
        (QueueFull("Full.", 3, tenant_limit=True), 429, "rate_limit_error"),
        (QueueFull("Full.", 3, tenant_limit=False), 529, "overloaded_error"),
        (ContextOverflow(600, 511), 400, "invalid_request_error"),
    ],
)
async def test_a_refused_message_gets_plain_json(
    error: Exception, status: int, type_: str, stream: bool
) -> None:
    response = await post(MESSAGES, ScriptedEngine(error), stream=stream)
    assert (response.status_code, response.json()["error"]["type"]) == (status, type_)
    assert response.json()["error"]["message"] == str(error)
    schema("AnthropicError").validate(response.json())


async def test_anthropic_s_sdk_reads_answers_streams_counts_and_errors() -> None:
    call: list[Step] = [
        PartStart(1, "tool_call", "ring", "k"),
        PartDelta(1, '{"n": 2}'),
        PartEnd(1),
    ]
    *text, finished = text_events("Hel", "lo")
    engine = ScriptedEngine([*text, *call, finished])
    transport = httpx2.ASGITransport(judged_app(engine))
    async with AsyncAnthropic(
        base_url="http://127.0.0.1:8000",
        api_key="any",
        max_retries=0,
        http_client=httpx2.AsyncClient(transport=transport),
    ) as anthropic:
        asked: Any = {"model": "claude-x", "messages": QUESTION["messages"]}
        whole = await anthropic.messages.create(max_tokens=9, **asked)
        async with anthropic.messages.stream(max_tokens=9, **asked) as stream:
            streamed = await stream.get_final_message()
        assert streamed.to_dict()["content"] == whole.to_dict()["content"]
        assert [block.type for block in whole.content] == ["text", "tool_use"]
        assert (await anthropic.messages.count_tokens(**asked)).input_tokens == 1
        with pytest.raises(APIStatusError) as refusal:
            await anthropic.messages.create(max_tokens=0, **asked)
        assert refusal.value.type == "invalid_request_error"


# Token counts


async def test_tokens_are_counted_without_a_request_to_the_engine() -> None:
    engine = ScriptedEngine()
    response = await post(COUNT + "?beta=true", engine, system="Be kind.")
    assert (response.status_code, response.json()) == (200, {"input_tokens": 3})
    schema("TokenCount").validate(response.json())
    assert engine.requests == []
    await post(MESSAGES, engine, system="Be kind.")
    assert engine.counted == [engine.requests[0].prompt]


async def test_tokens_cannot_be_counted_while_loading() -> None:
    response = await post(COUNT, ScriptedEngine(NotReady("Loading.", 7)))
    assert (response.status_code, response.headers["retry-after"]) == (529, "7")
    assert response.json()["error"]["type"] == "overloaded_error"


# Completions


async def test_a_text_is_continued_whole() -> None:
    engine = ScriptedEngine(text_events(" three", " four"))
    response = await post(COMPLETIONS, engine, seed=7, model=MODEL_ID)
    answer = response.json()
    schema("Completion").validate(answer)
    assert answer["choices"] == [{"index": 0, "text": " three four", "finish_reason": "stop"}]
    assert answer["system_fingerprint"] == "seed-7"
    assert answer["usage"] == {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    assert engine.requests[0].prompt == TextPrompt("One two")


async def test_a_text_is_continued_in_chunks_without_usage() -> None:
    engine = ScriptedEngine(text_events(" three", " four"))
    asked: Any = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = sse_events((await post(COMPLETIONS, engine, **asked)).text)
    assert [chunk["choices"][0]["text"] for chunk in chunks] == [" three", " four", ""]
    assert not any("usage" in chunk for chunk in chunks)
    seed = engine.requests[0].sampling.seed
    assert {chunk["system_fingerprint"] for chunk in chunks} == {f"seed-{seed}"}


async def test_another_model_does_not_continue() -> None:
    response = await post(COMPLETIONS, model="other")
    assert (response.status_code, error_of(response)["param"]) == (404, "model")


async def test_a_prompt_that_is_too_long_is_called_prompt() -> None:
    class Full(ScriptedEngine):
        async def generate(self, request: Any) -> Any:
            refusal: PromptRefused = ContextOverflow(600, 511)
            refusal.field = request.prompt_field
            raise refusal

    response = await post(COMPLETIONS, Full())
    assert response.status_code == 400
    assert error_of(response) == {
        "message": "prompt is too long: 600 tokens > 511 maximum",
        "type": "invalid_request_error",
        "param": "prompt",
        "code": "context_length_exceeded",
    }


async def test_openai_s_sdk_reads_continuations() -> None:
    transport = httpx2.ASGITransport(judged_app(ScriptedEngine(text_events("Hel", "lo"))))
    async with AsyncOpenAI(
        base_url="http://127.0.0.1:8000/v1",
        api_key="any",
        http_client=httpx2.AsyncClient(transport=transport),
    ) as openai:
        whole = await openai.completions.create(model=MODEL_ID, prompt="One")
        stream = await openai.completions.create(model=MODEL_ID, prompt="One", stream=True)
        text = "".join([chunk.choices[0].text async for chunk in stream])
        assert text == whole.choices[0].text == "Hello"
