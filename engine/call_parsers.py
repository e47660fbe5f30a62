"""Reads one tool call in each family's syntax, a character at a time."""

from __future__ import annotations

from collections.abc import Callable

from engine.json_stream import Arguments, JsonValue, Malformed, StringDecoder

LONGEST_NAME = 256


class CallReader:
    """What a call's text has told so far.

    `name` is empty until it is known, `take` gives the new text of the arguments, `whole` tells
    that they are complete and `done` that the call is. `feed` raises Malformed.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.whole = False
        self.done = False
        self._out: list[str] = []
        self._arguments = Arguments()
        self._read: Callable[[str], None] = self._in_arguments

    def feed(self, char: str) -> None:
        """Read a character."""
        self._read(char)

    def take(self) -> str:
        """The text of the arguments since the last time."""
        text = "".join(self._out)
        self._out.clear()
        return text

    def _before_arguments(self, char: str) -> None:
        # Ids and fences between the name and the object say nothing that is needed.
        if char == "{":
            self._read = self._in_arguments
            self.feed(char)

    def _in_arguments(self, char: str) -> None:
        self._out.append(self._arguments.feed(char))
        self.done = self.whole = self._arguments.done

    def _become(self, other: CallReader) -> None:
        """Leave the rest to another reader."""

        def read(char: str) -> None:
            other.feed(char)
            self.name, self.whole, self.done = other.name, other.whole, other.done
            self._out.append(other.take())

        self._read = read

    def _set_name(self, name: str) -> None:
        name = name.strip()
        if not name or len(name) > LONGEST_NAME or "\n" in name:
            raise Malformed
        self.name = name


class ObjectCall(CallReader):
    """`{"name": NAME, "arguments": {...}}`, or `parameters`, in any order.

    With `names` it stands without any marker, and what is not plainly a call of one of them is
    malformed.
    """

    def __init__(self, names: frozenset[str] | None = None) -> None:
        super().__init__()
        self._names = names
        self._key = ""
        self._literal = StringDecoder()
        self._other = JsonValue()
        self._read = self._before_object

    def _before_object(self, char: str) -> None:
        if char == "{":
            self._read = self._before_key
        elif not char.isspace():
            raise Malformed

    def _before_key(self, char: str) -> None:
        if char == "}":
            self._end()
        elif char == '"':
            self._key, self._literal = "", StringDecoder()
            self._read = self._in_key
        elif char != "," and not char.isspace():
            raise Malformed

    def _in_key(self, char: str) -> None:
        self._key += self._literal.feed(char)
        if self._literal.done:
            known = ("name", "arguments", "parameters", "type", "id")
            if self._names is not None and self._key not in known:
                raise Malformed
            self._read = self._before_colon

    def _before_colon(self, char: str) -> None:
        if char == ":":
            self._read = self._before_value
        elif not char.isspace():
            raise Malformed

    def _before_value(self, char: str) -> None:
        if char.isspace():
            return
        if self._key == "name" and not self.name:
            if char != '"':
                raise Malformed
            self._key, self._literal = "", StringDecoder()
            self._read = self._in_name
        elif self._key in ("arguments", "parameters") and not self.whole:
            self._read = self._in_arguments
            self.feed(char)
        else:
            self._other = JsonValue()
            self._read = self._in_other
            self.feed(char)

    def _in_name(self, char: str) -> None:
        self._key += self._literal.feed(char)
        if self._literal.done:
            if self._names is not None and self._key not in self._names:
                raise Malformed
            self._set_name(self._key)
            self._read = self._before_key

    def _in_arguments(self, char: str) -> None:
        self._out.append(self._arguments.feed(char))
        if self._arguments.done:
            self.whole = True
            self._read = self._before_key

    def _in_other(self, char: str) -> None:
        ended = self._other.feed(char) is None
        if self._other.done:
            self._read = self._before_key
        if ended:
            self.feed(char)

    def _end(self) -> None:
        if not self.name:
            raise Malformed
        if not self.whole:
            self._out.append("{}")
        self.whole = self.done = True


class NamedCall(CallReader):
    """Mistral's `NAME[ARGS]{...}`, with or without `[CALL_ID]...`; before, `[{"name": ...}]`."""

    def __init__(self) -> None:
        super().__init__()
        self._written = ""
        self._read = self._in_name

    def _in_name(self, char: str) -> None:
        if char in "[{" and not self._written.strip():
            self._become(ObjectCall())
            if char == "{":
                self.feed(char)
        elif char in "[{":
            self._set_name(self._written)
            self._read = self._before_arguments
            self.feed(char)
        else:
            self._written += char
            if len(self._written) > LONGEST_NAME:
                raise Malformed


class DeepSeekCall(CallReader):
    """`function<sep>NAME`, a fenced object; or, since V3.1, `NAME<sep>{...}`."""

    _SEPARATOR = "<｜tool▁sep｜>"

    def __init__(self) -> None:
        super().__init__()
        self._written = ""
        self._read = self._before_separator

    def _before_separator(self, char: str) -> None:
        self._written += char
        if self._written.endswith(self._SEPARATOR):
            self._written = self._written.removesuffix(self._SEPARATOR)
            self._read = self._behind_separator
        elif len(self._written) > LONGEST_NAME:
            raise Malformed

    def _behind_separator(self, char: str) -> None:
        if char == "{":
            self._set_name(self._written)
            self._read = self._in_arguments
            self.feed(char)
        elif not char.isspace():
            self._written = char
            self._read = self._in_name

    def _in_name(self, char: str) -> None:
        if char in "\n`{":
            self._set_name(self._written)
            self._read = self._before_arguments
            self.feed(char)
        else:
            self._written += char
            if len(self._written) > LONGEST_NAME:
                raise Malformed
