"""Small texts that the string keywords of a JSON Schema allow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_LARGEST_SIZE = 10_000
_FORMATS = {
    "date": "2026-01-31",
    "time": "12:00:00Z",
    "date-time": "2026-01-31T12:00:00Z",
    "duration": "PT1H",
    "email": "a@example.com",
    "idn-email": "a@example.com",
    "hostname": "example.com",
    "idn-hostname": "example.com",
    "uri": "https://example.com",
    "iri": "https://example.com",
    "uri-reference": "/a",
    "iri-reference": "/a",
    "uri-template": "/{a}",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "json-pointer": "/a",
    "relative-json-pointer": "0",
    "regex": "a",
}


def texts(schema: dict[str, Any]) -> Iterator[str]:
    """Give texts that may fit `schema`, the simplest first; not all of them do."""
    shortest = min(schema.get("minLength", 0), _LARGEST_SIZE)
    if pattern := schema.get("pattern"):
        for more in (0, 1, 2, 4, shortest):
            yield (spelled := _spelled(pattern, more))
            yield from (spelled.ljust(shortest, end) for end in "a1 ")
    yield _FORMATS.get(schema.get("format", ""), "a").ljust(shortest, "a")
    if schema.get("maxLength") == 0:
        yield ""
    yield from (letter * max(shortest, 1) for letter in "bcdefghijklmnopqrstuvwxyz")
    yield from (f"{number}".rjust(shortest, "a") for number in range(100))


@lru_cache(maxsize=1024)
def _spelled(pattern: str, more: int) -> str:
    """Return a text that `pattern` finds, its repetitions `more` often than they have to be."""
    try:
        return _Speller(more).spell(_parser.parse(pattern))
    # Not every pattern of JSON Schema is one of Python; those are not followed.
    except (re.error, OverflowError, RecursionError):
        return "a"


class _Speller:
    """Spells one text for a parsed pattern; what looks ahead or behind is left out."""

    def __init__(self, more: int) -> None:
        self._more = more
        self._groups: dict[int, str] = {}

    def spell(self, parsed: Sequence[tuple[Any, Any]]) -> str:
        """Return the text of a sequence of the parser's nodes."""
        return "".join(self._node(str(kind), value) for kind, value in parsed)

    def _node(self, kind: str, value: Any) -> str:
        match kind:
            case "LITERAL":
                return chr(int(value))
            case "ANY":
                return "a"
            case "NOT_LITERAL":
                return "b" if value == ord("a") else "a"
            case "IN":
                return _member(value)
            case "BRANCH":
                return self.spell(value[1][0])
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inside = value
                repeated: int = min(int(most), least + self._more, _LARGEST_SIZE)
                return self.spell(inside) * repeated
            case "SUBPATTERN":
                return self._groups.setdefault(value[0], self.spell(value[-1]))
            case "ATOMIC_GROUP":
                return self.spell(value)
        return self._groups.get(value, "") if kind == "GROUPREF" else ""


def _member(items: Sequence[tuple[Any, Any]]) -> str:
    """Return a character of a set, by preference a letter or a digit."""
    negated = str(items[0][0]) == "NEGATE"
    for character in "a1A b-_.,/é":
        inside = any(_holds(str(kind), value, character) for kind, value in items)
        if inside is not negated:
            return character
    value = items[0][1]
    first = value[0] if isinstance(value, tuple) else value
    return chr(first) if isinstance(first, int) else "a"


_CLASSES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}


def _holds(kind: str, value: Any, character: str) -> bool:
    match kind:
        case "LITERAL":
            return bool(chr(value) == character)
        case "RANGE":
            return bool(value[0] <= ord(character) <= value[1])
        case "CATEGORY":
            *_, negated, name = str(value).split("_")
            found = re.match(_CLASSES[name], character) is not None
            return found is not (negated == "NOT")
    return False
