"""Reads JSON while it arrives, a character at a time."""

from __future__ import annotations

import json
import re
from typing import Final

_DEPTH: Final = 128
_NUMBER_LENGTH: Final = 300
_SPACE: Final = frozenset(" \t\n\r")
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_SIMPLE_ESCAPES: Final = frozenset('"\\/bfnrt')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_NUMBER_START: Final = re.compile(
    r"-?|-?(?:0|[1-9]\d*)(?:\.\d*)?|-?(?:0|[1-9]\d*)(?:\.\d+)?[eE][+-]?\d*"
)
_NUMBER_CHARACTERS: Final = frozenset("0123456789+-.eE")


class Malformed(Exception):
    """What came is not the beginning of what was expected."""


class JsonString:
    """A string literal behind its opening quote; what it gives is valid even where models err.

    Bare control characters become escapes, halves of surrogate pairs U+FFFD.
    """

    def __init__(self) -> None:
        self.done = False
        self._escape = ""
        self._high = ""

    def feed(self, char: str) -> str:
        """The text that `char` completes, the closing quote included; raises Malformed."""
        if self._escape:
            return self._escaped(char)
        if char == "\\":
            self._escape = char
            return ""
        if char == '"':
            self.done = True
        return self._lone() + (char if char >= " " else json.dumps(char)[1:-1])

    def _escaped(self, char: str) -> str:
        self._escape += char
        escape = self._escape
        if escape[1] != "u":
            if escape[1] not in _SIMPLE_ESCAPES:
                raise Malformed
            self._escape = ""
            return self._lone() + escape
        if len(escape) > 2 and char not in "0123456789abcdefABCDEF":
            raise Malformed
        if len(escape) < 6:
            return ""
        self._escape = ""
        return self._unit(escape)

    def _unit(self, escape: str) -> str:
        code = int(escape[2:], 16)
        if 0xDC00 <= code < 0xE000:
            high, self._high = self._high, ""
            return high + escape if high else "\\ufffd"
        before = self._lone()
        if 0xD800 <= code < 0xDC00:
            self._high = escape
            return before
        return before + escape

    def _lone(self) -> str:
        lone, self._high = self._high, ""
        return "\\ufffd" if lone else ""


class JsonValue:
    """One JSON value of any kind; the text it gives out is always a prefix of valid JSON."""

    def __init__(self) -> None:
        self.done = False
        self._stack: list[str] = []
        # What may come: a value, a value or `]`, a key, a key or `}`, `:`, `,` or the closer.
        self._expect = "value"
        self._string: JsonString | None = None
        self._word = ""
        self._number = ""

    def feed(self, char: str) -> str | None:
        """The text that `char` adds, or None if the value ended before it; raises Malformed."""
        if self._string:
            return self._in_string(self._string, char)
        if self._word:
            return self._in_word(char)
        if self._number:
            if char in _NUMBER_CHARACTERS:
                return self._in_number(char)
            if not _NUMBER.fullmatch(self._number):
                raise Malformed
            self._number = ""
            self._end_value()
            if self.done:
                return None
        if char in _SPACE:
            return char
        self._structural(char)
        return char

    def _structural(self, char: str) -> None:
        expect = self._expect
        if expect == ":" and char == ":":
            self._expect = "value"
        elif expect == "," and char == ",":
            self._expect = "key" if self._stack[-1] == "}" else "value"
        elif self._stack and char == self._stack[-1] and expect in (",", "value or ]", "key or }"):
            self._stack.pop()
            self._end_value()
        elif expect.startswith("key") and char == '"':
            self._string = JsonString()
        elif expect.startswith("value"):
            self._begin_value(char)
        else:
            raise Malformed

    def _begin_value(self, char: str) -> None:
        if char == '"':
            self._string = JsonString()
        elif char in "{[":
            if len(self._stack) == _DEPTH:
                raise Malformed
            self._stack.append("}" if char == "{" else "]")
            self._expect = "key or }" if char == "{" else "value or ]"
        elif char in _LITERALS:
            self._word = _LITERALS[char][1:]
        elif _NUMBER_START.fullmatch(char):
            self._number = char
        else:
            raise Malformed

    def _in_string(self, string: JsonString, char: str) -> str:
        text = string.feed(char)
        if string.done:
            self._string = None
            if self._expect.startswith("key"):
                self._expect = ":"
            else:
                self._end_value()
        return text

    def _in_word(self, char: str) -> str:
        if char != self._word[0]:
            raise Malformed
        self._word = self._word[1:]
        if not self._word:
            self._end_value()
        return char

    def _in_number(self, char: str) -> str:
        self._number += char
        if len(self._number) > _NUMBER_LENGTH or not _NUMBER_START.fullmatch(self._number):
            raise Malformed
        return char

    def _end_value(self) -> None:
        self._expect = ","
        self.done = not self._stack


def decoded(literal: str) -> str:
    """The text of a whole string literal that `JsonString` has let through."""
    text: str = json.loads(f'"{literal}')
    return text


class StringDecoder:
    """Decodes a string literal's text as `JsonString` gives it, behind the opening quote."""

    def __init__(self) -> None:
        self.done = False
        self._string = JsonString()

    def feed(self, char: str) -> str:
        """The characters that `char` completes; raises Malformed."""
        text = self._string.feed(char)
        self.done = self._string.done
        return decoded(text if self.done else text + '"')


class Arguments:
    """The arguments of a call: a JSON object, or a string that holds one, or nothing.

    Gives the object's text; null and the empty string are the empty object.
    """

    def __init__(self) -> None:
        self.done = False
        self._object: JsonValue | None = None
        self._wrapping: StringDecoder | None = None
        self._null = ""

    def feed(self, char: str) -> str:
        """The text that `char` adds; raises Malformed."""
        if self._wrapping:
            return self._unwrapped(self._wrapping, char)
        if self._object:
            return self._inner(char)
        if self._null:
            return self._in_null(char)
        if char == '"':
            self._wrapping = StringDecoder()
        elif char == "n":
            self._null = "ull"
        elif char == "{":
            return self._inner(char)
        elif char not in _SPACE:
            raise Malformed
        return ""

    def _inner(self, char: str) -> str:
        if self._object is None:
            if char in _SPACE:
                return ""
            if char != "{":
                raise Malformed
            self._object = JsonValue()
        text = self._object.feed(char) or ""
        self.done = self._object.done and self._wrapping is None
        return text

    def _unwrapped(self, wrapping: StringDecoder, char: str) -> str:
        text = ""
        for inner in wrapping.feed(char):
            if not (self._object and self._object.done):
                text += self._inner(inner)
            elif inner not in _SPACE:
                raise Malformed
        if wrapping.done:
            if self._object and not self._object.done:
                raise Malformed
            self.done = True
            return text if self._object else text + "{}"
        return text

    def _in_null(self, char: str) -> str:
        if char != self._null[0]:
            raise Malformed
        self._null = self._null[1:]
        self.done = not self._null
        return "{}" if self.done else ""
