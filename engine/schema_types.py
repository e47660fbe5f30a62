"""What a JSON Schema says of a value's type, and values written as bare text."""

from __future__ import annotations

import json
import re
from typing import Any

from engine.json_stream import JsonValue, Malformed

_DEEPEST = 16
_FIRST = {"{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}
_PYTHON = {"True": "true", "False": "false", "None": "null"}


def json_types(schema: Any, root: Any, depth: int = 0) -> frozenset[str] | None:
    """The names of the types that `schema` allows, None if it says nothing of them.

    References are looked up in `root`.
    """
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return None
    if isinstance(reference := schema.get("$ref"), str):
        return json_types(_resolve(reference, root), root, depth + 1)
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(name for name in named if isinstance(name, str))
    if "const" in schema or isinstance(schema.get("enum"), list):
        return frozenset().union(*map(_type_names, schema.get("enum", [schema.get("const")])))
    return _combined(schema, root, depth)


def _combined(schema: dict[str, Any], root: Any, depth: int) -> frozenset[str] | None:
    for keyword in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(keyword), list):
            found = [json_types(branch, root, depth + 1) for branch in branches]
            return None if None in found else frozenset().union(*filter(None, found))
    if isinstance(branches := schema.get("allOf"), list):
        known = (json_types(branch, root, depth + 1) for branch in branches)
        return next((types for types in known if types), None)
    return None


def _resolve(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        return None
    place = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        place = place.get(name) if isinstance(place, dict) else None
    return place


def _type_names(value: Any) -> set[str]:
    text = json.dumps(value)
    return {"string"} if text.startswith('"') else _types_of(text)


def _types_of(text: str) -> set[str]:
    if text[0] in _FIRST:
        return {_FIRST[text[0]]}
    return {"number", "integer"} if re.fullmatch(r"-?\d+", text) else {"number"}


def written_value(text: str, types: frozenset[str] | None) -> str:
    """The JSON of a value that a model wrote without quotes; what is not of `types` is a string."""
    bare = text.strip()
    value = _valid(_PYTHON.get(bare, bare))
    if value and not value.startswith('"') and (types is None or types & _types_of(value)):
        return value
    return json.dumps(text, ensure_ascii=False)


def _valid(text: str) -> str:
    """The JSON value that `text` is, as `JsonValue` gives it, or nothing."""
    value, found = JsonValue(), ""
    try:
        for place, char in enumerate(text + " "):  # a number ends at what follows it
            if value.done:
                return found if place == len(text) else ""
            found += value.feed(char) or ""
    except Malformed:
        return ""
    return found if value.done else ""
