"""Function, custom and namespace tools, and the choice among them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.request import Tool, ToolChoice
from generated.models import ResponsesRequest
from handlers.errors import ApiError
from handlers.response_tools import OfferedTool, offered_tools, read_choice

RING = {"type": "function", "name": "ring", "description": "Ring.", "parameters": {"a": 1}}
PATCH = {"type": "custom", "name": "patch", "description": "Patch."}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Helpers.",
    "tools": [
        {"type": "function", "name": "spawn", "description": "Start one.", "parameters": {}},
        {"type": "custom", "name": "tell"},
    ],
}
RAW = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


def body(**fields: object) -> ResponsesRequest:
    return ResponsesRequest.model_validate({"input": "Hi"} | fields)


def offered(*tools: object) -> list[OfferedTool]:
    by_name = offered_tools(body(tools=list(tools)).tools)
    assert list(by_name) == [tool.tool.name for tool in by_name.values()]
    return list(by_name.values())


def test_a_function_is_offered_as_it_is() -> None:
    assert offered(RING) == [OfferedTool(Tool("ring", "Ring.", {"a": 1}), "ring")]


def test_a_custom_tool_is_a_function_of_one_text() -> None:
    assert offered(PATCH) == [OfferedTool(Tool("patch", "Patch.", RAW), "patch", custom=True)]


def test_the_model_is_told_the_grammar_of_a_custom_tool() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}
    (tool,) = offered(PATCH | {"format": grammar})
    assert tool.tool.description == (
        "Patch.\n\n`input` has to follow this grammar (lark):\nstart: /x/"
    )
    for other in ({"type": "text"}, "grammar", {"type": "grammar"}, None):
        assert offered(PATCH | {"format": other}) == offered(PATCH)


def test_the_tools_of_a_namespace_are_offered_under_joined_names() -> None:
    spawn, tell = offered(AGENTS)
    assert spawn == OfferedTool(
        Tool("agents__spawn", "Helpers.\n\nStart one.", {}), "spawn", "agents"
    )
    assert tell == OfferedTool(Tool("agents__tell", "", RAW), "tell", "agents", custom=True)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "web_search"},
        {"type": "local_shell"},
        {"type": "tool_search", "execution": "client", "parameters": {}},
        {"name": "nameless_type"},
        {"type": "function"},
        {"type": "function", "name": ""},
        {"type": "function", "name": 5},
        {"type": "custom", "name": None},
        {"type": ["function"], "name": "x"},
        {"type": "namespace", "name": "n"},
        {"type": "namespace", "name": "n", "tools": [5, {"type": "web_search"}]},
        {"type": "namespace", "name": "n", "tools": [AGENTS]},
    ],
)
def test_tools_that_cannot_be_offered_are_left_out(odd: dict[str, Any]) -> None:
    assert offered(odd, RING) == offered(RING)


def test_of_two_tools_with_one_name_the_first_is_offered() -> None:
    clash = {"type": "function", "name": "agents__spawn"}
    assert [tool.namespace for tool in offered(clash, AGENTS)] == [None, "agents"]
    assert [tool.namespace for tool in offered(AGENTS, clash)] == ["agents", "agents"]


def test_without_tools_nothing_is_offered() -> None:
    assert offered_tools(None) == {}


def choose(choice: object) -> ToolChoice:
    read = body(tools=[AGENTS, RING, PATCH], tool_choice=choice)
    return read_choice(read.tool_choice, offered_tools(read.tools))


@pytest.mark.parametrize(
    ("choice", "read_as"),
    [
        (None, ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "auto"}, ToolChoice("auto")),
        ({"type": "function", "name": "ring"}, ToolChoice("named", "ring")),
        ({"type": "function", "function": {"name": "ring"}}, ToolChoice("named", "ring")),
        ({"type": "custom", "name": "patch"}, ToolChoice("named", "patch")),
        ({"type": "function", "name": "spawn"}, ToolChoice("named", "agents__spawn")),
        ({"type": "function", "name": "agents__spawn"}, ToolChoice("named", "agents__spawn")),
        (
            {"type": "function", "name": "spawn", "namespace": "agents"},
            ToolChoice("named", "agents__spawn"),
        ),
    ],
)
def test_tool_choice_is_read_in_every_form(choice: object, read_as: ToolChoice) -> None:
    assert choose(choice) == read_as


def test_a_plain_tool_is_meant_before_one_of_a_namespace() -> None:
    plain = {"type": "function", "name": "spawn"}
    read = body(tools=[AGENTS, plain], tool_choice={"type": "function", "name": "spawn"})
    assert read_choice(read.tool_choice, offered_tools(read.tools)).name == "spawn"


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "other"},
        {"type": "function", "name": "spawn", "namespace": "others"},
        {"type": "web_search"},
    ],
)
def test_a_choice_that_is_not_offered_is_refused(choice: object) -> None:
    with pytest.raises(ApiError) as refusal:
        choose(choice)
    assert (refusal.value.status, refusal.value.param) == (400, "tool_choice")


def test_a_call_cannot_be_required_without_tools() -> None:
    with pytest.raises(ApiError):
        read_choice("required", {})
