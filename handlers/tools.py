"""Tools in the protocols' bodies: what is offered, what must be called, what was called."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Protocol

from pydantic_core import from_json

from engine.request import Tool, ToolChoice
from handlers.errors import bad_request

_MODES = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_SURROGATE = re.compile("[\ud800-\udfff]")


class FunctionName(Protocol):
    """The nested form of a named choice."""

    name: str


class NamedChoice(Protocol):
    """A tool_choice object: flat or nested, or only a mode in its `type`."""

    type: str | None
    name: str | None

    @property
    def function(self) -> FunctionName | None:
        """The nested form."""


def function_tool(function: Any) -> Tool | None:
    """Read an object with name, description and parameters; None when it cannot be offered."""
    match function:
        case {"name": str() as name} if name:
            description = function.get("description")
            parameters = function.get("parameters")
            return Tool(
                name,
                description if isinstance(description, str) else "",
                parameters if isinstance(parameters, dict) else {},
            )
    return None


def read_tool_choice(choice: str | NamedChoice | None, tools: Collection[Tool]) -> ToolChoice:
    """Read a tool_choice; raises ApiError 400 when the offered tools cannot fulfil it."""
    name = None if choice is None or isinstance(choice, str) else chosen_name(choice)
    if name is not None:
        return named_choice(name, tools)
    mode = _mode_of(choice)
    if mode == "required" and not tools:
        raise bad_request(
            "tool_choice asks for a call but no tools are offered; send tools.", "tool_choice"
        )
    return ToolChoice(mode)


def named_choice(name: str, tools: Collection[Tool]) -> ToolChoice:
    """Choose the tool `name`; raises ApiError 400 when it is not offered."""
    if all(tool.name != name for tool in tools):
        raise bad_request(
            f"tool_choice names {name!r}, which is not among the tools; offer it.", "tool_choice"
        )
    return ToolChoice("named", name)


def chosen_name(choice: NamedChoice) -> str | None:
    """Give the name in either form of a choice; None when only a mode is given."""
    return choice.function.name if choice.function else choice.name


def _mode_of(choice: str | NamedChoice | None) -> Any:
    word = choice if choice is None or isinstance(choice, str) else choice.type
    if word is None:
        return "auto"
    if word not in _MODES:
        raise bad_request("tool_choice names no tool; name one of the tools.", "tool_choice")
    return _MODES[word]


def parse_arguments(arguments: Any) -> dict[str, Any]:
    """Parse a past call's arguments; what is no JSON object is kept under `arguments`."""
    if isinstance(arguments, str):
        try:
            text = json.dumps(json.loads(arguments or "{}"), ensure_ascii=False)
            # Models write halves of a pair as escapes; no prompt can hold them. Nesting too deep
            # for templates is refused here, and stays text.
            parsed = from_json(_SURROGATE.sub("\ufffd", text))
        except (ValueError, RecursionError):
            parsed = arguments
    else:
        parsed = {} if arguments is None else arguments
    return parsed if isinstance(parsed, dict) else {"arguments": parsed}
