"""Conversations in the shape that a chat template wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from engine.model_format import CallFormat
from engine.request import Message, Tool, ToolCall
from engine.template_traits import TemplateTraits
from engine.tool_prompt import calls_text, results_text, tools_section

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


class TemplateMessages:
    """Turns messages into a template's dictionaries.

    System messages become one at the front, results stand in the order of their calls. Calls get
    ids by their place, since some templates take only nine letters and digits. `mask` is applied to
    everything that comes from the client.
    """

    def __init__(
        self, traits: TemplateTraits, calls: CallFormat, mask: Callable[[Any], Any]
    ) -> None:
        self._traits = traits
        self._format = calls
        self._mask = mask

    def tools(self, tools: Sequence[Tool]) -> list[dict[str, Any]]:
        """Tools as templates and models know them."""
        listed: list[dict[str, Any]] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters or _NO_PARAMETERS,
                },
            }
            for tool in tools
        ]
        masked: list[dict[str, Any]] = self._mask(listed)
        return masked

    def messages(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[dict[str, Any]]:
        """The conversation; for a template that knows no tools they are part of it."""
        system = [self._mask(m.content) for m in messages if m.role == "system"]
        if tools and not self._traits.tools:
            system.append(tools_section(self.tools(tools), self._format))
        front = [{"role": "system", "content": "\n\n".join(system)}] if system else []
        rest = _in_call_order([m for m in messages if m.role != "system"])
        if not self._traits.calls:
            return front + list(self._as_text(rest))
        if not self._traits.parallel:
            rest = list(_one_call_each(rest))
        return front + list(self._as_calls(rest))

    def _as_text(self, messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
        for role, group in groupby(messages, key=lambda message: message.role):
            if role == "tool":
                results = (self._mask(message.content) for message in group)
                yield {"role": "user", "content": results_text(results)}
                continue
            for message in group:
                content = self._mask(message.content)
                if message.tool_calls:
                    calls = [
                        (self._mask(call.name), self._mask(call.arguments))
                        for call in message.tool_calls
                    ]
                    content += "\n" * bool(content) + calls_text(calls, self._format)
                yield {"role": role, "content": content, **self._thinking(message)}

    def _thinking(self, message: Message) -> dict[str, Any]:
        key = self._traits.reasoning_key
        return {key: self._mask(message.reasoning)} if key and message.reasoning else {}

    def _as_calls(self, messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
        ids: dict[str, tuple[str, str]] = {}
        count = 0
        for message in messages:
            if message.role == "tool":
                call_id, name = ids.get(message.tool_call_id or "", ("call00000", ""))
                content = self._mask(message.content)
                yield {"role": "tool", "content": content, "tool_call_id": call_id, "name": name}
                continue
            given = [f"call{count + n:05d}" for n in range(1, len(message.tool_calls) + 1)]
            count += len(given)
            for call, call_id in zip(message.tool_calls, given, strict=True):
                ids[call.id] = (call_id, self._mask(call.name))
            yield from self._turn(message, given)

    def _turn(self, message: Message, ids: list[str]) -> Iterator[dict[str, Any]]:
        content, thinking = self._mask(message.content), self._thinking(message)
        if not message.tool_calls:
            yield {"role": message.role, "content": content, **thinking}
            return
        if content and not self._traits.text_with_calls:
            yield {"role": message.role, "content": content}
            content = ""
        if content and thinking and not self._traits.thought_with_text:
            thinking = {key: f"{thought}\n\n{content}" for key, thought in thinking.items()}
            content = ""
        calls = [self._call(*pair) for pair in zip(message.tool_calls, ids, strict=True)]
        none = None if self._traits.null_content else ""
        yield {
            "role": message.role,
            "content": content or none,
            **thinking,
            "tool_calls": calls,
        }

    def _call(self, call: ToolCall, call_id: str) -> dict[str, Any]:
        arguments = self._mask(call.arguments)
        if self._traits.json_arguments:
            arguments = json.dumps(arguments, ensure_ascii=False)
        function = {"name": self._mask(call.name), "arguments": arguments}
        return {"id": call_id, "type": "function", "function": function}


def _in_call_order(messages: Sequence[Message]) -> list[Message]:
    """Put results behind one another as the calls that they answer stand."""
    ordered: list[Message] = []
    places: dict[str | None, int] = {}
    for role, group in groupby(messages, key=lambda message: message.role):
        run = list(group)
        if role == "tool":
            run.sort(key=lambda message: places.get(message.tool_call_id, len(places)))
        elif role == "assistant":
            calls = [call for message in run for call in message.tool_calls]
            places = {call.id: place for place, call in enumerate(calls)}
        ordered += run
    return ordered


def _one_call_each(messages: Sequence[Message]) -> Iterator[Message]:
    """Split messages with several calls, each followed by its own result."""
    left = list(messages)
    while left:
        message = left.pop(0)
        if len(message.tool_calls) < 2:
            yield message
            continue
        results: list[Message] = []
        while left and left[0].role == "tool":
            results.append(left.pop(0))
        for number, call in enumerate(message.tool_calls):
            yield replace(
                message,
                content="" if number else message.content,
                reasoning=None if number else message.reasoning,
                tool_calls=(call,),
            )
            yield from (result for result in results if result.tool_call_id == call.id)
        known = {call.id for call in message.tool_calls}
        yield from (result for result in results if result.tool_call_id not in known)


def merged(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join neighbours of one role, except results and messages with more than text."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        last = joined[-1] if joined else {}
        plain = message.keys() == last.keys() == {"role", "content"}
        if plain and message["role"] == last["role"]:
            joined[-1] = {**last, "content": f"{last['content']}\n\n{message['content']}"}
        else:
            joined.append(message)
    return joined


def without_system(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make the system message a part of the user's first, for templates that take none."""
    if len(messages) < 2 or messages[0]["role"] != "system":
        return list(messages)
    return merged([{**messages[0], "role": "user"}, *messages[1:]])
