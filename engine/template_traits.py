"""What a chat template can render, found out by trying."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, meta

Render = Callable[[list[dict[str, Any]], list[dict[str, Any]]], str]

# The renderer passes the first as gpt-oss's `thinking` too.
_REASONING_KEYS = ("reasoning_content", "reasoning")
_GENERATION_TAG = re.compile(r"{%-?\s*(?:end)?generation\s*-?%}")
_TEXT, _THOUGHT, _NAMES = "ProbeText", "ProbeThought", ("probe_one", "probe_two")
_KEY, _VALUE = "probe_key", "ProbeValue"
_TOOL = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "probe",
        "parameters": {"type": "object", "properties": {"probe": {"type": "string"}}},
    },
}


@dataclass(frozen=True, slots=True)
class TemplateTraits:
    """How a template wants its messages.

    `tools` and `calls`: it knows what they are. `json_arguments`: a call's arguments are JSON text,
    not a mapping. `null_content`: a call without text has the content None. `text_with_calls` and
    `parallel`: one message may have text and calls, or several calls. `reasoning_key` is the field
    for past thinking, `thought_with_text` tells that text may stand beside it before a call.
    """

    tools: bool = False
    calls: bool = False
    json_arguments: bool = False
    null_content: bool = False
    text_with_calls: bool = True
    parallel: bool = True
    reasoning_key: str | None = None
    thought_with_text: bool = True


def find_traits(source: str, render: Render) -> TemplateTraits:
    """Try a template with every kind of message; `render` may raise anything."""
    probe = _Probe(render)
    tools = "tools" in _variables(source)
    for json_arguments in (False, True):
        for content in ("", None):
            if probe.shows({"content": content, **_calls(json_arguments, 1)}, _NAMES[0]):
                calls = _calls(json_arguments, 1)
                key = probe.reasoning_key({"content": content, **calls})
                return TemplateTraits(
                    tools=tools,
                    calls=True,
                    json_arguments=json_arguments,
                    null_content=content is None,
                    text_with_calls=probe.shows({"content": _TEXT, **calls}, _TEXT, _NAMES[0]),
                    parallel=probe.shows(
                        {"content": content, **_calls(json_arguments, 2)}, *_NAMES
                    ),
                    reasoning_key=key,
                    thought_with_text=key is None
                    or probe.shows({"content": _TEXT, key: _THOUGHT, **calls}, _TEXT, _THOUGHT),
                )
    return TemplateTraits(tools=tools, reasoning_key=probe.reasoning_key({"content": _TEXT}))


def _variables(source: str) -> set[str]:
    environment = Environment(extensions=["jinja2.ext.loopcontrols"])
    try:
        return meta.find_undeclared_variables(environment.parse(_GENERATION_TAG.sub("", source)))
    except TemplateSyntaxError:
        return set()


def _calls(json_arguments: bool, count: int) -> dict[str, Any]:
    arguments: Any = f'{{"{_KEY}": "{_VALUE}"}}' if json_arguments else {_KEY: _VALUE}
    return {
        "tool_calls": [
            {
                "id": f"call0000{number}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for number, name in enumerate(_NAMES[:count])
        ]
    }


class _Probe:
    def __init__(self, render: Render) -> None:
        self._render = render

    def shows(self, assistant: dict[str, Any], *needles: str) -> bool:
        """Whether all of an assistant message's `needles` are in the prompt, arguments as JSON."""
        calls = assistant.get("tool_calls", [])
        results = [
            {
                "role": "tool",
                "content": "probe",
                "tool_call_id": call["id"],
                "name": call["function"]["name"],
            }
            for call in calls
        ]
        messages = [{"role": "user", "content": "probe"}, {"role": "assistant", **assistant}]
        try:
            text = self._render(messages + (results or messages[:1]), [_TOOL])
        except Exception:  # a template can raise anything
            return False
        if calls and (_KEY not in text or _VALUE not in text or f"'{_KEY}'" in text):
            return False
        return all(needle in text for needle in needles)

    def reasoning_key(self, assistant: dict[str, Any]) -> str | None:
        """The field whose thinking is in the prompt."""
        return next(
            (k for k in _REASONING_KEYS if self.shows({**assistant, k: _THOUGHT}, _THOUGHT)), None
        )
