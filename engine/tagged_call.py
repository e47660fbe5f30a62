"""Reads a tool call between `<tool_call>` tags, a character at a time."""

from __future__ import annotations

import json

from engine.call_parsers import LONGEST_NAME, CallReader, ObjectCall
from engine.json_stream import Malformed
from engine.request import Tool
from engine.schema_types import json_types, written_value

_STRING = frozenset({"string"})


class TaggedCall(CallReader):
    """What stands behind `<tool_call>`: an object, or Qwen3-Coder's `<function=NAME>` element.

    Parameters become JSON by the tool's schema: strings stream, others wait until they are whole.
    """

    _FUNCTION = "<function="
    _END = "\n</parameter>"

    def __init__(self, tools: tuple[Tool, ...], opener: str) -> None:
        super().__init__()
        self._tools = {tool.name: tool for tool in tools}
        self._written = ""
        self._types: frozenset[str] | None = None
        self._value: list[str] | None = None
        self._first = True
        self._parameters = 0
        self._read = self._in_name if opener == self._FUNCTION else self._before_function

    def _before_function(self, char: str) -> None:
        if char == "{" and not self._written:
            self._become(ObjectCall())
            self.feed(char)
        elif self._at_tag(char, self._FUNCTION):
            self._read = self._in_name

    def _at_tag(self, char: str, *tags: str) -> str:
        """The tag that `char` completes, if it does; space before it is passed by."""
        if char.isspace() and not self._written:
            return ""
        self._written += char
        if self._written in tags:
            written, self._written = self._written, ""
            return written
        if not any(tag.startswith(self._written) for tag in tags):
            raise Malformed
        return ""

    def _until_bracket(self, char: str) -> str:
        if char != ">":
            self._written += char
            if len(self._written) > LONGEST_NAME:
                raise Malformed
            return ""
        written, self._written = self._written.strip().strip("\"'"), ""
        return written

    def _in_name(self, char: str) -> None:
        name = self._until_bracket(char)
        if char == ">":
            self._set_name(name)
            self._out.append("{")
            self._read = self._before_parameter

    def _before_parameter(self, char: str) -> None:
        tag = self._at_tag(char, "<parameter=", "</function>", "</tool_call>")
        if tag == "<parameter=":
            self._read = self._in_key
        elif tag:
            self._out.append("}")
            self.whole = self.done = True

    def _in_key(self, char: str) -> None:
        key = self._until_bracket(char)
        if char != ">":
            return
        self._types = self._types_of(key)
        self._out.append(", " if self._parameters else "")
        self._out.append(json.dumps(key, ensure_ascii=False) + ": ")
        self._parameters += 1
        self._value = None if self._types == _STRING else []
        self._out.append('"' if self._value is None else "")
        self._first = True
        self._read = self._in_value

    def _types_of(self, key: str) -> frozenset[str] | None:
        tool = self._tools.get(self.name)
        properties = tool.parameters.get("properties") if tool else None
        schema = properties.get(key) if isinstance(properties, dict) else None
        return json_types(schema, tool.parameters if tool else None)

    def _in_value(self, char: str) -> None:
        self._written += char
        if self._written in (self._END, self._END[1:]):
            self._end_value()
        while not self._END.startswith(self._written) and not self._END[1:].startswith(
            self._written
        ):
            self._say(self._written[0])
            self._written = self._written[1:]

    def _say(self, char: str) -> None:
        if self._first and char == "\n":
            self._first = False
            return
        self._first = False
        if self._value is None:
            self._out.append(json.dumps(char, ensure_ascii=False)[1:-1])
        else:
            self._value.append(char)

    def _end_value(self) -> None:
        self._written = ""
        self._out.append('"' if self._value is None else self._converted("".join(self._value)))
        self._read = self._before_parameter

    def _converted(self, text: str) -> str:
        return written_value(text, self._types)
