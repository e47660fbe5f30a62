"""The raw text inside a custom tool's JSON arguments, decoded while they still arrive."""

from __future__ import annotations

import json
import re

RAW_FIELD = "input"

_BEGIN = re.compile(rf'\s*\{{\s*"{RAW_FIELD}"\s*:\s*"')
_PIECE = re.compile(
    r'[^"\\]+'
    r"|\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"  # a pair for one character
    r"|\\u[\da-fA-F]{4}"
    r"|\\[^u]",
    re.DOTALL,
)
_LONGEST_BEGIN = 64
# What may still become one of the escapes above, the first half of a pair included.
_UNFINISHED = re.compile(
    r"\\(u[\da-fA-F]{0,3}|u[dD][89abAB][\da-fA-F]{2}(\\(u[\da-fA-F]{0,3})?)?)?\Z"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


class RawInput:
    """Decodes `{"input": "..."}` piece by piece.

    What is given never has to be taken back. Where the arguments are complete but begin otherwise,
    all of the text comes at the end: their field, or, without one, the arguments as they are.
    """

    def __init__(self) -> None:
        self._waiting = ""
        self._began = False
        self._closed = False
        self._arguments: list[str] = []

    @property
    def arguments(self) -> str:
        """All that was added."""
        return "".join(self._arguments)

    def add(self, text: str) -> str:
        """Add a piece of the arguments; gives the new text, which may be empty."""
        self._arguments.append(text)
        if self._closed:
            return ""
        self._waiting += text
        if not self._began:
            begin = _BEGIN.match(self._waiting)
            if begin is None:
                self._closed = len(self._waiting) > _LONGEST_BEGIN
                return ""
            self._began = True
            self._waiting = self._waiting[begin.end() :]
        return self._decode()

    def end(self) -> str:
        """Give the text that is still missing; an escape that was cut is left out."""
        if self._began:
            return ""
        try:
            arguments = json.loads(self.arguments)
        except ValueError:
            return ""
        text = arguments.get(RAW_FIELD) if isinstance(arguments, dict) else None
        return _SURROGATE.sub("\ufffd", text if isinstance(text, str) else self.arguments)

    def _decode(self) -> str:
        text, position, found = self._waiting, 0, []
        while position < len(text) and not _UNFINISHED.match(text, position):
            if text[position] == '"':
                self._closed = True
                break
            piece = _PIECE.match(text, position)
            # A backslash that begins no escape stands for itself.
            whole = piece[0] if piece else text[position]
            found.append(_unescape(whole))
            position += len(whole)
        self._waiting = text[position:]
        return "".join(found)


def _unescape(piece: str) -> str:
    if not piece.startswith("\\"):
        return piece
    try:
        # Half a pair is no character and cannot be sent.
        return _SURROGATE.sub("\ufffd", json.loads(f'"{piece}"'))
    except ValueError:
        return piece
