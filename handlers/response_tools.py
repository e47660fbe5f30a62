"""Tools of OpenAI Responses: function, custom and namespace tools as the model is offered them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.request import Tool, ToolChoice
from generated.models import ResponsesNamedToolChoice, ResponsesTool
from handlers.raw_input import RAW_FIELD
from handlers.tools import chosen_name, function_tool, read_tool_choice

_RAW_PARAMETERS = {
    "type": "object",
    "properties": {RAW_FIELD: {"type": "string"}},
    "required": [RAW_FIELD],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the model sees it, and what the client calls it.

    A `custom` one takes raw text, which the model writes as the one field of its arguments.
    """

    tool: Tool
    name: str
    namespace: str | None = None
    custom: bool = False


def flat_name(name: str, namespace: str | None) -> str:
    """Give the one name under which the model knows a tool of a namespace."""
    return f"{namespace}__{name}" if namespace else name


def offered_tools(tools: Iterable[ResponsesTool] | None) -> dict[str, OfferedTool]:
    """Read the tools that can be offered, by the names that the model knows.

    Of two with one name the first is offered.
    """
    offered: dict[str, OfferedTool] = {}
    for entry in tools or ():
        for tool in _read(entry.model_dump(exclude_unset=True)):
            offered.setdefault(tool.tool.name, tool)
    return offered


def read_choice(
    choice: str | ResponsesNamedToolChoice | None, offered: Mapping[str, OfferedTool]
) -> ToolChoice:
    """Read a tool_choice, in which a namespace's tool may be named with or without it.

    Raises ApiError 400 when the offered tools cannot fulfil it.
    """
    if isinstance(choice, ResponsesNamedToolChoice) and (name := chosen_name(choice)):
        namespace = (choice.model_extra or {}).get("namespace")
        flat = _find(name, namespace, offered)
        choice = choice.model_copy(update={"name": flat, "function": None})
    return read_tool_choice(choice, [tool.tool for tool in offered.values()])


def _find(name: str, namespace: object, offered: Mapping[str, OfferedTool]) -> str:
    found = [
        flat
        for flat, tool in offered.items()
        if tool.name == name and namespace in (None, tool.namespace)
    ]
    return name if name in found or not found else found[0]


def _read(entry: Any, namespace: str | None = None) -> Iterator[OfferedTool]:
    match entry:
        case {"type": "namespace", "name": str(), "tools": [*members]} if not namespace:
            yield from _read_namespace(entry, members)
        case {"type": "custom", "name": str(name)} if name:
            tool = Tool(flat_name(name, namespace), _describe_custom(entry), _RAW_PARAMETERS)
            yield OfferedTool(tool, name, namespace, custom=True)
        case {"type": "function", "name": name}:
            if read := function_tool(entry):
                yield OfferedTool(replace(read, name=flat_name(name, namespace)), name, namespace)


def _read_namespace(entry: dict[str, Any], members: list[Any]) -> Iterator[OfferedTool]:
    """Offer the tools of a namespace; the first one's description begins with the namespace's."""
    about = _text(entry.get("description"))
    for member in members:
        for offered in _read(member, entry["name"]):
            tool = replace(offered.tool, description=_paragraphs(about, offered.tool.description))
            yield replace(offered, tool=tool)
            about = ""


def _describe_custom(entry: dict[str, Any]) -> str:
    description = _text(entry.get("description"))
    match entry.get("format"):
        case {"type": "grammar", "syntax": syntax, "definition": str(definition)}:
            rule = f"`{RAW_FIELD}` has to follow this grammar ({syntax}):\n{definition}"
            return _paragraphs(description, rule)
    return description


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))
