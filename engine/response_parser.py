"""Tells thinking, text and tool calls apart in an answer that arrives in pieces."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable

from engine.call_parsers import CallReader
from engine.call_rules import CallRules, call_rules
from engine.events import PartDelta, PartEnd, PartKind, PartStart
from engine.json_stream import Malformed
from engine.markers import Markers, without_space
from engine.model_format import THINK, ModelFormat
from engine.request import Tool

PartEvent = PartStart | PartDelta | PartEnd

_LONGEST_HEADER = 512
_NO_CALLS = CallRules(CallReader)
_HEADERS = ("<|start|>", "<|channel|>")
_MESSAGE = "<|message|>"
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")


class _Parts:
    """Writes the events of parts: at most one is open, and none begins without text or a name."""

    def __init__(self) -> None:
        self.open: PartKind | None = None
        self._index = -1
        self._events: list[PartEvent] = []
        self._texts: list[str] = []

    def say(self, kind: PartKind, text: str) -> None:
        """Add text to the open part, or begin one of this kind."""
        if not text:
            return
        if self.open != kind:
            self.begin(kind)
        self._texts.append(text)

    def begin(self, kind: PartKind, name: str = "") -> None:
        """End the open part and begin another."""
        self.end()
        self.open = kind
        self._index += 1
        key = secrets.token_hex(12) if kind == "tool_call" else ""
        self._events.append(PartStart(self._index, kind, name, key))

    def end(self) -> None:
        """End the open part, if one is."""
        if self.open:
            self._flush()
            self._events.append(PartEnd(self._index))
            self.open = None

    def take(self) -> list[PartEvent]:
        """The events since the last time."""
        self._flush()
        events, self._events = self._events, []
        return events

    def _flush(self) -> None:
        if self._texts:
            self._events.append(PartDelta(self._index, "".join(self._texts)))
            self._texts.clear()


class ResponseParser:
    """Turns an answer's text into parts; any cutting of the text gives the same parts.

    `called` tells that a tool call has begun, `broken` that one was cut or malformed after its
    name, `in_reasoning` that the text is inside the thinking. Without tools the calls' markers
    are plain text, and without a reasoning format its markers are. Nothing malformed raises.

    A call that breaks before its name is known becomes text; after that it stays a call, and the
    rest is swallowed up to its closing marker. Whitespace before a marker is dropped; behind other
    text it is kept without `trim`, so that a stop string is seen in it without delay.
    """

    def __init__(
        self,
        format: ModelFormat | None,
        tools: tuple[Tool, ...] = (),
        in_reasoning: bool = False,
        trim: bool = True,
    ) -> None:
        self.called = self.broken = False
        self.in_reasoning = in_reasoning
        self._trim = trim
        self._parts = _Parts()
        self._buffer = ""
        # A marker came before: newlines that follow it are dropped.
        self._behind_marker = in_reasoning
        # No text since the start, or since a marker.
        self._fresh = True
        self._may_begin_bare = True
        self._reader = CallReader()
        self._raw = self._opener = ""
        self._tools = tools
        self._reasoning = format.reasoning if format else None
        self._harmony = format is not None and format.calls.syntax == "harmony"
        self._calls = call_rules(format, tools) if format and tools else _NO_CALLS
        self._prepare()
        self._mode: Callable[[], bool] = self._in_reasoning if in_reasoning else self._in_text

    def push(self, text: str) -> list[PartEvent]:
        """The events that more of the answer gives."""
        self._buffer += text
        while self._buffer and self._mode():
            pass
        return self._parts.take()

    def finish(self) -> list[PartEvent]:
        """The events of the answer's end."""
        if self._mode == self._in_call:
            self._cut_call()
        elif self._is_rest_text():
            self._say(self._buffer)
        self._parts.end()
        self._buffer = ""
        return self._parts.take()

    def _is_rest_text(self) -> bool:
        """Whether what was held back turns out to be text, since nothing follows."""
        if self._mode in (self._in_header, self._in_wreck):
            return self._mode == self._in_header and not self._raw
        if self._mode == self._behind_call:
            return not self._is_beginning(self._closing)
        return self._buffer.strip() != "" or self._parts.open is not None or not self._behind_marker

    def _prepare(self) -> None:
        calls = self._calls
        structure = (*_HEADERS, "<|end|>", "<|call|>", "<|return|>") if self._harmony else ()
        thinking = () if self._harmony or not self._reasoning else (self._reasoning.open,)
        closing = () if self._harmony or not self._reasoning else (self._reasoning.close,)
        in_text = (*structure, *calls.openers, *calls.ignored)
        self._first_markers = Markers((*in_text, *thinking))
        # `<think>` is no special token everywhere: an answer may speak of it.
        self._text_markers = Markers(in_text if THINK.open in thinking else (*in_text, *thinking))
        self._reasoning_markers = Markers((*structure, *closing))
        self._reopening_markers = Markers((*structure, *closing, *thinking))
        self._closing = (*calls.closers, *calls.skipped)
        self._wreck_markers = Markers((*calls.closers, *calls.openers, *structure))

    # Modes: each takes from the buffer and tells whether another look at it may help.

    def _in_text(self) -> bool:
        if self._fresh and self._begins_bare():
            return self._buffer != "" and self._mode != self._in_text
        space, marker = self._next_marker(self._first_markers, self._text_markers)
        if marker:
            self._on_marker(marker, space)
        return marker != ""

    def _in_reasoning(self) -> bool:
        _, marker = self._next_marker(self._reopening_markers, self._reasoning_markers)
        if marker in _HEADERS:
            self._on_marker(marker, "")
        elif marker and not (self._reasoning and marker == self._reasoning.open):
            self._enter_text()
        return marker != ""

    def _next_marker(self, first: Markers, later: Markers) -> tuple[str, str]:
        """Say the text before the next marker; gives the whitespace before it, and the marker."""
        markers = first if self._fresh else later
        before, marker, after = markers.split(self._buffer)
        if self._fresh and before.strip():
            # What is a marker at the start may be none behind text.
            begun = len(before) - len(before.lstrip()) + 1
            self._say(before[:begun])
            self._buffer = self._buffer[begun:]
            return self._next_marker(first, later)
        trim = markers and (self._trim or self._fresh or self.in_reasoning)
        text, space = without_space(before) if trim else (before, "")
        self._say(text)
        self._buffer = after if marker else space + after
        return space, marker

    def _in_call(self) -> bool:
        for read, char in enumerate(self._buffer):
            try:
                self._reader.feed(char)
            except Malformed:
                self._break_call(read)
                return True
            if self._reader.done:
                self._note_call()
                self._raw, self._buffer = "", self._buffer[read + 1 :]
                self._parts.end()
                self._behind_marker = self._fresh = True
                self._mode = self._behind_call
                return True
        self._raw += self._buffer
        self._buffer = ""
        self._note_call()
        return False

    def _behind_call(self) -> bool:
        calls = self._calls
        self._buffer = self._buffer.lstrip()
        for literal in self._closing:
            if self._buffer.startswith(literal):
                self._buffer = self._buffer[len(literal) :]
                return True
        if calls.bare_next and self._buffer.startswith("{"):
            self._begin_call("", "")
        elif self._is_beginning((*self._closing, *calls.openers)):
            return False
        else:
            self._enter_text()
        return True

    def _in_wreck(self) -> bool:
        _, marker, after = self._wreck_markers.split(self._buffer)
        if not marker:
            self._buffer = after
            return False
        closed = marker in self._calls.closers
        self._buffer = after if closed else marker + after
        self._mode = self._behind_call if closed else self._in_text
        return True

    def _in_header(self) -> bool:
        header, found, _ = self._buffer[:_LONGEST_HEADER].partition(_MESSAGE)
        if not found and len(self._buffer) < _LONGEST_HEADER:
            return False
        if not found:
            self._say(self._raw + header)
            self._raw, self._buffer = "", self._buffer[len(header) :]
            self._mode = self._in_text
            return True
        rest = self._buffer[len(header) + len(_MESSAGE) :]
        header, self._raw, self._buffer = self._raw + header, "", rest
        self._may_begin_bare = False
        recipient, channel = _RECIPIENT.search(header), _CHANNEL.search(header)
        if recipient and recipient[1] != "assistant" and self._tools:
            self._begin_call("", "", recipient[1].removeprefix("functions."))
        elif channel and channel[1] == "analysis" and not recipient:
            self._enter_reasoning()
        else:
            self._enter_text()
        return True

    # Changes of mode

    def _on_marker(self, marker: str, space: str) -> None:
        if marker in _HEADERS and self._harmony:
            self._parts.end()
            self.in_reasoning = False
            self._raw, self._mode = marker, self._in_header
        elif self._reasoning and marker == self._reasoning.open:
            self._enter_reasoning()
        elif marker in self._calls.openers:
            self._begin_call(space, marker)
        else:
            self._enter_text()

    def _enter_text(self) -> None:
        self._parts.end()
        self.in_reasoning = False
        self._behind_marker = self._fresh = True
        self._mode = self._in_text

    def _enter_reasoning(self) -> None:
        self._parts.end()
        self.in_reasoning = self._behind_marker = self._fresh = True
        self._mode = self._in_reasoning

    def _begins_bare(self) -> bool:
        """Whether the answer begins with a call without a marker, or still may."""
        rest = self._buffer.lstrip()
        if self._harmony and self._may_begin_bare and " to=".startswith(self._buffer[:4]):
            if len(self._buffer) >= 4:
                self._raw, self._mode = "", self._in_header
            return True
        if not (self._calls.bare_first and self._may_begin_bare):
            return False
        if rest.startswith("{"):
            self._begin_call(self._buffer[: len(self._buffer) - len(rest)], "")
            self._buffer = rest
        return rest == "" or rest.startswith("{")

    def _begin_call(self, space: str, opener: str, name: str = "") -> None:
        self._may_begin_bare = False
        self._opener = space + opener
        self._raw = self._opener
        self._reader = CallReader(name) if name else self._calls.reader(opener)
        self._mode = self._in_call
        if name:
            self._note_call()

    def _note_call(self) -> None:
        """Say what the reader has found out, once it knows the name."""
        if not self._reader.name:
            return
        if self._parts.open != "tool_call":
            self._parts.begin("tool_call", self._reader.name)
            self.called = True
        self._raw = ""
        self._parts.say("tool_call", self._reader.take())

    def _break_call(self, read: int) -> None:
        self._note_call()
        if self._parts.open == "tool_call":
            self.broken = True
            self._parts.end()
            self._buffer = self._buffer[read:]
            self._behind_marker = self._fresh = True
            self._mode = self._in_wreck
            return
        # What stood behind the opening marker is looked at again, as text.
        self._buffer = self._raw[len(self._opener) :] + self._buffer
        self._mode = self._in_text
        if self._opener.strip():
            self._say(self._opener)
        else:
            self._buffer = self._opener + self._buffer
        self._raw = ""

    def _cut_call(self) -> None:
        if self._parts.open == "tool_call":
            self.broken = self.broken or not self._reader.whole
        else:
            self._say(self._raw)

    def _say(self, text: str) -> None:
        if self._behind_marker:
            text = text.lstrip("\n")
        if text:
            self._behind_marker = False
            self._fresh = self._fresh and text.isspace()
            self._parts.say("reasoning" if self.in_reasoning else "text", text)

    def _is_beginning(self, literals: Iterable[str]) -> bool:
        return any(literal.startswith(self._buffer) for literal in literals)
