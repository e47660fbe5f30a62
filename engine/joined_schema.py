"""Two JSON Schemas made into one that asks for what both ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]


def joined(one: Any, other: Any) -> Any:
    """Return the schema of what both allow, as far as their keywords can be joined.

    Of keywords that cannot, the second's stands.
    """
    if one is True or other is False:
        return other
    if other is True or not isinstance(one, dict) or not isinstance(other, dict):
        return one
    both = {
        key: _JOINS[key](one[key], other[key]) for key in one.keys() & other.keys() & _JOINS.keys()
    }
    return {**one, **other, **both}


def _maps(one: Schema, other: Schema) -> Schema:
    return {**one, **{k: joined(one.get(k, True), schema) for k, schema in other.items()}}


def _lists(one: list[Any], other: list[Any]) -> list[Any]:
    return [*one, *(item for item in other if item not in one)]


def _common(one: list[Any], other: list[Any]) -> list[Any]:
    return [item for item in one if item in other]


def _types(one: str | list[str], other: str | list[str]) -> str | list[str]:
    first, second = ([t] if isinstance(t, str) else t for t in (one, other))
    if "number" in second and "integer" in first:
        second = [*second, "integer"]
    if "number" in first and "integer" in second:
        first = [*first, "integer"]
    common = _common(first, second)
    return common[0] if len(common) == 1 else common or other


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("properties", "patternProperties"), _maps),
    **dict.fromkeys(("items", "additionalProperties"), joined),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    "required": _lists,
    "enum": _common,
    "type": _types,
}
