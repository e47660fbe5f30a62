"""Tool round trips with the anthropic SDK against the scripted model."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import Anthropic

from tests.e2e.server import Server

pytestmark = pytest.mark.e2e

TOOLS: Any = [
    {"name": "get_time", "input_schema": {"type": "object"}},
    {
        "name": "get_weather",
        "input_schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
]
ASK: list[Any] = [{"role": "user", "content": "How is the weather?"}]
THINKING: Any = {"type": "enabled", "budget_tokens": 1024}


@pytest.fixture(scope="module")
def client(scripted_server: Server) -> Anthropic:
    return Anthropic(base_url=scripted_server.url, api_key="unused", max_retries=0)


def send(client: Anthropic, streamed: bool, messages: list[Any], **options: Any) -> Any:
    ask: Any = {"model": "mock", "max_tokens": 2048, "messages": messages, **options}
    if not streamed:
        return client.messages.create(**ask)
    with client.messages.stream(**ask) as stream:
        return stream.get_final_message()


@pytest.mark.parametrize("streamed", [False, True])
def test_messages_call_a_tool_and_answer_with_its_result(client: Anthropic, streamed: bool) -> None:
    choice = {"type": "tool", "name": "get_weather"}
    called = send(client, streamed, ASK, tools=TOOLS, tool_choice=choice, thinking=THINKING)
    assert called.stop_reason == "tool_use"
    thinking, call = called.content
    assert (thinking.type, thinking.thinking) == ("thinking", "Use a tool.")
    assert thinking.signature == "mashbox-local"
    assert (call.type, call.name, call.input) == ("tool_use", "get_weather", {"city": "Paris"})
    past = {"role": "assistant", "content": [b.model_dump() for b in called.content]}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    answer = send(
        client, streamed, [*ASK, past, {"role": "user", "content": [result]}], tools=TOOLS
    )
    assert answer.stop_reason == "end_turn"
    assert answer.content[-1].text == "The tool has answered. You asked: How is the weather."


def test_thinking_is_off_when_disabled(client: Anthropic) -> None:
    answer = send(client, True, ASK, thinking={"type": "disabled"})
    assert [block.type for block in answer.content] == ["text"]


def test_tokens_are_counted_with_tools(client: Anthropic) -> None:
    plain = client.messages.count_tokens(model="mock", messages=ASK)
    tools = client.messages.count_tokens(model="mock", messages=ASK, tools=TOOLS)
    assert tools.input_tokens > plain.input_tokens > 0
