"""Tools in plain text, for chat templates that know nothing of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from engine.model_format import CallFormat

_SECTION = """# Tools

You can call functions. These are their signatures, as JSON:
<tools>
{tools}
</tools>

To call a function, answer with its name and its arguments in exactly this form:
{example}
The results come back between <tool_response> and </tool_response>. \
Where no function is needed, answer as usual."""


def tools_section(tools: Iterable[dict[str, Any]], calls: CallFormat) -> str:
    """The part of the system prompt that lists `tools` and teaches the spelling of a call."""
    example = calls_text([("function-name", {"argument-name": "value"})], calls)
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return _SECTION.format(tools=listed, example=example)


def calls_text(calls: Sequence[tuple[str, dict[str, Any]]], format: CallFormat) -> str:
    """Calls, each a name and its arguments, as the model is to write them."""
    written = [
        format.before_name
        + name
        + format.before_arguments
        + _arguments_text(arguments, format)
        + format.after_arguments
        for name, arguments in calls
    ]
    return format.before_calls + format.between_calls.join(written) + format.after_calls


def results_text(results: Iterable[str]) -> str:
    """The results of calls, as they stand in a user's turn."""
    return "\n".join(f"<tool_response>\n{result}\n</tool_response>" for result in results)


def _arguments_text(arguments: dict[str, Any], format: CallFormat) -> str:
    if format.syntax != "xml":
        return json.dumps(arguments, ensure_ascii=False)
    return "".join(
        f"<parameter={key}>\n{_value_text(value)}\n</parameter>\n"
        for key, value in arguments.items()
    )


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
