"""Reading the tools, the tool choice and the thinking of Messages bodies."""

from __future__ import annotations

import pytest

from engine.request import Thinking, Tool, ToolChoice
from handlers.errors import ApiError
from tests.handlers.message_bodies import (
    HI,
    RING,
    RING_TOOL,
    Json,
    assistant,
    prompt_of,
    read,
    result,
    use,
    user,
)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
        {"type": "unknown", "name": "x", "input_schema": {}},
        {"name": "", "input_schema": {}},
        {"name": 5, "input_schema": {}},
        {"input_schema": {}},
        {"name": "x", "input_schema": {}, "defer_loading": True},
    ],
)
def test_tools_that_cannot_be_offered_are_left_out(odd: Json) -> None:
    assert prompt_of(tools=[odd, RING]).tools == (RING_TOOL,)


def test_a_custom_tool_needs_no_description() -> None:
    tool = {"type": "custom", "name": "x", "input_schema": {}, "eager_input_streaming": True}
    assert prompt_of(tools=[tool]).tools == (Tool("x"),)


@pytest.mark.parametrize("schema", [{}, {"input_schema": None}, {"input_schema": True}])
def test_a_tool_without_a_schema_of_arguments_takes_any(schema: Json) -> None:
    assert prompt_of(tools=[{"name": "x", **schema}]).tools == (Tool("x"),)


def test_a_deferred_tool_is_offered_once_a_result_refers_to_it() -> None:
    deferred = RING | {"defer_loading": True}
    other = {"name": "other", "input_schema": {}, "defer_loading": True}
    found = [{"type": "tool_reference", "tool_name": "ring"}]
    messages = [HI, assistant(use("1")), user(result("1", found))]
    assert prompt_of(tools=[deferred, other], messages=messages).tools == (RING_TOOL,)


@pytest.mark.parametrize(
    ("choice", "read_as"),
    [
        (None, ToolChoice("auto")),
        ({"type": "auto"}, ToolChoice("auto")),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "none"}, ToolChoice("none")),
        ({"type": "tool", "name": "ring"}, ToolChoice("named", "ring")),
    ],
)
def test_tool_choice_is_read_in_every_form(choice: Json | None, read_as: ToolChoice) -> None:
    prompt = prompt_of(tools=[RING], tool_choice=choice)
    assert (prompt.tool_choice, prompt.parallel_tool_calls) == (read_as, True)
    if choice:
        for off in (True, False):
            one_call = prompt_of(
                tools=[RING], tool_choice={**choice, "disable_parallel_tool_use": off}
            )
            assert (one_call.tool_choice, one_call.parallel_tool_calls) == (read_as, not off)


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": {"type": "any"}},
        {"tool_choice": {"type": "any"}, "tools": [{"type": "unknown", "name": "x"}]},
        {"tool_choice": {"type": "tool", "name": "other"}, "tools": [RING]},
        {
            "tool_choice": {"type": "tool", "name": "ring"},
            "tools": [RING | {"defer_loading": True}],
        },
    ],
)
def test_a_choice_that_the_tools_cannot_fulfil_is_refused(fields: Json) -> None:
    with pytest.raises(ApiError) as refusal:
        read(**fields)
    assert (refusal.value.status, refusal.value.param) == (400, "tool_choice")


@pytest.mark.parametrize(
    ("thinking", "read_as"),
    [
        (None, Thinking()),
        ({"type": "enabled", "budget_tokens": 7168, "display": "summarized"}, Thinking(True, 7168)),
        ({"type": "adaptive", "display": "omitted"}, Thinking(True)),
        ({"type": "disabled"}, Thinking(False)),
    ],
)
def test_thinking_is_read(thinking: Json | None, read_as: Thinking) -> None:
    assert prompt_of(thinking=thinking).thinking == read_as
