"""Tool round trips with the openai SDK against the scripted model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import OpenAI

from tests.e2e.server import Server

pytestmark = pytest.mark.e2e

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
CHAT_TOOLS: Any = [
    {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}},
]
TOOLS: Any = [{"type": "function", "strict": False, **tool["function"]} for tool in CHAT_TOOLS]
ASK: list[Any] = [{"role": "user", "content": "How is the weather?"}]
WEATHER: Any = {"type": "function", "function": {"name": "get_weather"}}


@pytest.fixture(scope="module")
def client(scripted_server: Server) -> OpenAI:
    return OpenAI(base_url=scripted_server.url + "/v1", api_key="unused", max_retries=0)


def chat(client: OpenAI, streamed: bool, messages: list[Any], **options: Any) -> Any:
    ask = {"model": "mock", "messages": messages, "tools": CHAT_TOOLS, **options}
    if not streamed:
        return client.chat.completions.create(**ask)
    with client.chat.completions.stream(**ask) as stream:
        return stream.get_final_completion()


@pytest.mark.parametrize("streamed", [False, True])
def test_chat_calls_a_tool_and_answers_with_its_result(client: OpenAI, streamed: bool) -> None:
    called = chat(client, streamed, ASK, tool_choice=WEATHER).choices[0]
    assert called.finish_reason == "tool_calls"
    assert not called.message.content
    assert called.message.reasoning_content == "Use a tool."
    (call,) = called.message.tool_calls
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    message = called.message.model_dump(
        include={"role", "content", "tool_calls", "reasoning_content"}
    )
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    answer = chat(client, streamed, [*ASK, message, result]).choices[0]
    assert answer.finish_reason == "stop"
    assert answer.message.content == "The tool has answered. You asked: How is the weather."
    assert not answer.message.tool_calls


def test_chat_with_tool_choice_none_answers_in_text(client: OpenAI) -> None:
    answer = chat(client, False, ASK, tool_choice="none").choices[0]
    assert answer.finish_reason == "stop" and answer.message.content


def test_chat_thinks_only_where_it_may(client: OpenAI) -> None:
    def message(enabled: bool) -> Any:
        extra = {"chat_template_kwargs": {"enable_thinking": enabled}}
        answer = client.chat.completions.create(model="mock", messages=ASK, extra_body=extra)
        return answer.choices[0].message

    thought, plain = message(True), message(False)
    assert thought.content == plain.content
    assert thought.reasoning_content and not getattr(plain, "reasoning_content", None)


def respond(client: OpenAI, streamed: bool, items: list[Any], **options: Any) -> Any:
    ask = {"model": "mock", "input": items, "tools": TOOLS, **options}
    if not streamed:
        return client.responses.create(**ask)
    with client.responses.stream(**ask) as stream:
        return stream.get_final_response()


@pytest.mark.parametrize("streamed", [False, True])
def test_responses_calls_a_tool_and_answers_with_its_result(client: OpenAI, streamed: bool) -> None:
    choice = {"type": "function", "name": "get_weather"}
    called = respond(client, streamed, ASK, tool_choice=choice)
    assert called.status == "completed"
    assert [item.type for item in called.output] == ["reasoning", "function_call"]
    call = called.output[-1]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    items = [item.model_dump(exclude_none=True) for item in called.output]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    answer = respond(client, streamed, [*ASK, *items, result])
    assert answer.output_text == "The tool has answered. You asked: How is the weather."
    assert answer.usage.output_tokens_details.reasoning_tokens > 0
