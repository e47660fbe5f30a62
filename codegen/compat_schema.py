"""What two versions of a schema mean to clients: which values are refused, or new, by the later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from codegen.document import Json, resolve

Direction = Literal["request", "response"]
"""Who writes the value: in a request less may not be allowed, in a response not more."""

_ANY = "any value"
# Who takes numbers takes integers.
_NUMBERS = {"integer": "number"}


@dataclass(frozen=True)
class SchemaComparison:
    """Compares schemas of two documents; each pair of named schemas once in each direction."""

    old: Json
    new: Json
    _seen: set[tuple[str, str, Direction]] = field(default_factory=set)

    def breaks(self, place: str, old: Json, new: Json, direction: Direction) -> Iterator[str]:
        """Yield a line for each change between two schemas at `place` that can break a client."""
        if "$ref" in old and "$ref" in new:
            key = (old["$ref"], new["$ref"], direction)
            if key in self._seen:
                return
            self._seen.add(key)
        if "$ref" in new:
            place = f"{direction} {new['$ref'].rpartition('/')[2]}"
        old, new = resolve(self.old, old), resolve(self.new, new)
        if not (new if direction == "request" else old):
            return  # Any value could be meant, or may be sent.
        if direction == "request" and old.get("default") != new.get("default"):
            yield f"{place}: the default {old.get('default')!r} is now {new.get('default')!r}"
        yield from self._kinds(place, old, new, direction)

    def _kinds(self, place: str, old: Json, new: Json, direction: Direction) -> Iterator[str]:
        """Compare kind by kind what a union, a list of types or a plain schema lets pass."""
        befores, afters = _kinds_of(self.old, old), _kinds_of(self.new, new)
        for kind in befores if direction == "request" else afters:
            before, after = _partner(befores, kind), _partner(afters, kind)
            if direction == "request" and after is None:
                yield f"{place}: does not take {kind} any more"
            elif direction == "response" and before is None:
                yield f"{place}: can now be {kind}"
            elif before is not None and after is not None:
                inner = f"{place}<{kind}>" if len(afters) > 1 and " " in kind else place
                yield from _value_breaks(inner, before, after, direction)
                yield from self._part_breaks(inner, before, after, direction)

    def _part_breaks(self, place: str, old: Json, new: Json, direction: Direction) -> Iterator[str]:
        """Compare the fields, the items and the values of further fields."""
        befores, afters = old.get("properties", {}), new.get("properties", {})
        yield from _required_breaks(place, old, new, direction)
        for name, before in befores.items():
            if name in afters:
                yield from self.breaks(f"{place}.{name}", before, afters[name], direction)
            else:
                yield f"{place}.{name}: is gone"
        for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
            before, after = _as_schema(old.get(key)), _as_schema(new.get(key))
            if before or after:
                yield from self.breaks(place + mark, before, after, direction)


def _as_schema(value: Any) -> Json:
    """Write true, false and nothing as the schemas that they mean."""
    if value is False:
        return {"enum": []}
    return value if isinstance(value, dict) else {}


def _kinds_of(document: Json, schema: Json) -> dict[str, Json]:
    """Split a schema into one for each JSON type, and objects by the name in their `type`."""
    schema = resolve(document, schema)
    kinds: dict[str, Json] = {}
    for member in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        kinds |= _kinds_of(document, member)
    if kinds:
        return kinds
    types = schema.get("type", _ANY)
    for name in [types] if isinstance(types, str) else types:
        # Bounds, values and fields say nothing about null.
        part = {**schema, "type": name} if name != "null" else {}
        kinds |= dict.fromkeys(_names(name, schema), part)
    return kinds


def _names(json_type: str, schema: Json) -> list[str]:
    """Name a kind; an object has one name for each value that its `type` may have."""
    tag = schema.get("properties", {}).get("type", {})
    values = [tag["const"]] if "const" in tag else tag.get("enum", ())
    if json_type != "object" or not values:
        return [json_type]
    return [f"object {value}" for value in values if value is not None]


def _partner(kinds: dict[str, Json], kind: str) -> Json | None:
    """Find the kind in the other version that has all values of this one; 4 is a number too."""
    for name in (kind, _NUMBERS.get(kind), kind.partition(" ")[0], _ANY):
        if name in kinds:
            return kinds[name]
    return None


def _required_breaks(place: str, old: Json, new: Json, direction: Direction) -> Iterator[str]:
    before, after = old.get("required", ()), new.get("required", ())
    if direction == "request":
        yield from (f"{place}.{name}: is now required" for name in after if name not in before)
    else:
        # A field that is gone altogether is told of elsewhere.
        left = [name for name in before if name in new.get("properties", {})]
        yield from (f"{place}.{name}: may now be missing" for name in left if name not in after)


def _value_breaks(place: str, old: Json, new: Json, direction: Direction) -> Iterator[str]:
    """Compare constants, bounds and patterns: the narrower has to be the one that is written."""
    wide, narrow = (new, old) if direction == "request" else (old, new)
    added = [value for value in _values(narrow) or () if value not in (_values(wide) or ())]
    if _values(wide) is not None and (_values(narrow) is None or added):
        change = "does not take" if direction == "request" else "can now be"
        what = ", ".join(map(repr, added)) if added else "other values than the listed ones"
        yield f"{place}: {change} {what}"
    for name, read, is_beyond in _BOUNDS:
        limit, written = read(wide), read(narrow)
        if limit is not None and (written is None or is_beyond(written, limit)):
            yield f"{place}: the {name} {_bound(read(old))} is now {_bound(read(new))}"
    for key in _RULES:
        if wide.get(key, False) not in (False, narrow.get(key)):
            yield f"{place}: the {key} {old.get(key)!r} is now {new.get(key)!r}"


def _values(schema: Json) -> list[Any] | None:
    """List the only values that a schema lets pass, null aside; None if it names none."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return None if values is None else [value for value in values if value is not None]


# What else a value can be held to; only the same rule is known to let the same values pass.
_RULES = (
    *("pattern", "format", "multipleOf", "uniqueItems", "prefixItems", "contains"),
    *("propertyNames", "patternProperties", "dependentRequired", "dependentSchemas"),
    *("allOf", "not", "if", "then", "else"),
)

Bound = tuple[float, float]
"""A limit, and 1 or -1 where the limit itself is out of bounds, else 0."""


_LEAST = ("minimum", "minLength", "minItems", "minProperties")
_MOST = ("maximum", "maxLength", "maxItems", "maxProperties")


def _lower(schema: Json) -> Bound | None:
    bounds = [(schema[key], 0.0) for key in _LEAST if key in schema]
    bounds += [(schema[key], 1.0) for key in ("exclusiveMinimum",) if key in schema]
    return max(bounds, default=None)


def _upper(schema: Json) -> Bound | None:
    bounds = [(schema[key], 0.0) for key in _MOST if key in schema]
    bounds += [(schema[key], -1.0) for key in ("exclusiveMaximum",) if key in schema]
    return min(bounds, default=None)


def _bound(bound: Bound | None) -> str:
    if bound is None:
        return "(none)"
    return f"{bound[0]} (exclusive)" if bound[1] else str(bound[0])


_BOUNDS: list[tuple[str, Callable[[Json], Bound | None], Callable[[Bound, Bound], bool]]] = [
    ("lower bound", _lower, lambda written, limit: written < limit),
    ("upper bound", _upper, lambda written, limit: written > limit),
]
