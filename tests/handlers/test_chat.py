"""Reading chat bodies into the neutral request."""

from __future__ import annotations

from typing import Any

import pytest

from engine.request import (
    ChatPrompt,
    GenerationRequest,
    Message,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
)
from generated.models import ChatCompletionRequest
from handlers.chat import read_chat_request
from handlers.errors import ApiError


def read(**fields: object) -> GenerationRequest:
    body = ChatCompletionRequest.model_validate(
        {"messages": [{"role": "user", "content": "Hi"}]} | fields
    )
    return read_chat_request(body, "chatcmpl-1", "served")


def read_prompt(**fields: object) -> ChatPrompt:
    prompt = read(**fields).prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


def test_a_bare_conversation_is_read() -> None:
    request = read()
    assert request.id == "chatcmpl-1"
    assert request.prompt == ChatPrompt((Message("user", "Hi"),))
    assert request.sampling.max_tokens is None


def test_null_fields_read_like_absent_ones() -> None:
    optional = set(ChatCompletionRequest.model_fields) - {"messages", "seed"}
    assert read(**dict.fromkeys(optional), seed=1) == read(seed=1)


def test_messages_keep_their_order_and_developer_becomes_system() -> None:
    messages = [
        {"role": "developer", "content": "D"},
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None},
        {"role": "tool", "content": "T", "tool_call_id": "1"},
    ]
    assert read_prompt(messages=messages).messages == (
        Message("system", "D"),
        Message("system", "S"),
        Message("user", "a\nb"),
        Message("assistant", ""),
        Message("tool", "T", tool_call_id="1"),
    )


@pytest.mark.parametrize(
    ("fields", "max_tokens"),
    [
        ({"max_tokens": 3}, 3),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 3, "max_completion_tokens": 5}, 5),
        ({"max_tokens": 3, "max_completion_tokens": None}, 3),
        ({"max_tokens": 4.0}, 4),
    ],
)
def test_max_completion_tokens_wins(fields: dict[str, Any], max_tokens: int) -> None:
    assert read(**fields).sampling.max_tokens == max_tokens


@pytest.mark.parametrize(
    ("fields", "enabled", "kwargs"),
    [
        ({}, None, {}),
        ({"enable_thinking": False}, False, {}),
        ({"chat_template_kwargs": {"enable_thinking": True}}, True, {}),
        ({"chat_template_kwargs": {"mood": {"a": [1]}}}, None, {"mood": {"a": [1]}}),
        ({"chat_template_kwargs": {"enable_thinking": None}}, None, {}),
        (
            {"chat_template_kwargs": {"enable_thinking": True, "x": 1}, "enable_thinking": False},
            False,
            {"x": 1},
        ),
    ],
)
def test_thinking_and_template_kwargs_are_read(
    fields: dict[str, Any], enabled: bool | None, kwargs: dict[str, Any]
) -> None:
    prompt = read_prompt(**fields)
    assert (prompt.thinking, prompt.template_kwargs) == (Thinking(enabled), kwargs)


RING = {"type": "function", "function": {"name": "ring", "description": "Ring.",
        "parameters": {"type": "object"}}}  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "web_search"},
        {"type": "function"},
        {"type": "function", "function": {"name": ""}},
        {"type": "function", "function": {"name": 5}},
        {"type": "function", "function": "ring"},
        {"type": "custom", "custom": {"name": "x"}},
    ],
)
def test_tools_that_cannot_be_offered_are_left_out(odd: dict[str, Any]) -> None:
    assert read_prompt(tools=[odd, RING]).tools == (Tool("ring", "Ring.", {"type": "object"}),)


def test_a_tool_needs_no_more_than_a_name() -> None:
    (tool,) = read_prompt(tools=[{"type": "function", "function": {"name": "bare"}}]).tools
    assert tool == Tool("bare", "", {})


@pytest.mark.parametrize(
    ("choice", "read_as"),
    [
        (None, ToolChoice("auto")),
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "function": {"name": "ring"}}, ToolChoice("named", "ring")),
        ({"type": "function", "name": "ring"}, ToolChoice("named", "ring")),
    ],
)
def test_tool_choice_is_read_in_every_form(choice: object, read_as: ToolChoice) -> None:
    assert read_prompt(tools=[RING], tool_choice=choice).tool_choice == read_as


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": "required"},
        {"tool_choice": "required", "tools": [{"type": "web_search"}]},
        {"tool_choice": {"type": "function", "function": {"name": "other"}}, "tools": [RING]},
        {"tool_choice": {"type": "function"}, "tools": [RING]},
    ],
)
def test_a_choice_that_the_tools_cannot_fulfil_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refusal:
        read(**fields)
    assert (refusal.value.status, refusal.value.param) == (400, "tool_choice")


@pytest.mark.parametrize(
    ("arguments", "parsed"),
    [
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        (None, {}),
        ("{broken", {"arguments": "{broken"}),
        ("[1]", {"arguments": [1]}),
    ],
)
def test_past_calls_keep_their_arguments_whatever_their_spelling(
    arguments: object, parsed: dict[str, Any]
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "ring", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    assert read_prompt(messages=messages).messages[1:] == (
        Message("assistant", "", "Hm.", (ToolCall("c1", "ring", parsed),)),
        Message("tool", "done", tool_call_id="c1"),
    )


def test_another_model_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        read(model="other")
    assert caught.value.code == "model_not_found"
    assert read(model="served")
