"""Makes small values that JSON Schemas allow, for tool calls without a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from engine.example_text import texts
from engine.joined_schema import joined

_DEEPEST = 40
_MOST_VALUES = 5_000
_LARGEST_SIZE = 1_000
_LARGEST_ARRAY = 10_000  # values in it, at every depth
_TRIES = 200

Schema = dict[str, Any]


def example_arguments(schema: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that `schema` allows: the required ones, and what of `given` fits it.

    They are in the schema's order. A schema that cannot be read has no arguments.
    """
    try:
        examples = _Examples(schema)
        whole = examples.resolved(schema)
        properties = whole.get("properties", {})
        made = examples.of(schema)
        found = made if isinstance(made, dict) else {}
        for name, value in given.items():
            taken = {**found, name: value}
            if examples.allows(value, properties.get(name, False)) and examples.allows(
                taken, schema
            ):
                found = taken
    # Schemas are the client's: whatever is wrong with one, there is an answer.
    except Exception:
        return {}
    order = [name for name in properties if name in found]
    return {name: found[name] for name in dict.fromkeys([*order, *found])}


class _Examples:
    """Values for the parts of one schema: what may fit is tried, the first that is valid is taken.

    Where none is, as under a schema that contradicts itself, the first is taken all the same.
    """

    def __init__(self, root: Any) -> None:
        # Imported here: it takes half as long as all else that the worker needs to start.
        from jsonschema import Draft202012Validator
        from referencing import Registry

        self._root = root
        # A registry of its own: a reference never leads to the network.
        self._validator = Draft202012Validator(root, registry=Registry())
        self._left = _MOST_VALUES

    def allows(self, value: Any, schema: Any) -> bool:
        """Whether `value` is valid under a part of the schema; what cannot be checked is."""
        try:
            valid: bool = self._validator.evolve(schema=schema).is_valid(value)
        # Such as a pattern that is none, or a reference to itself.
        except Exception:
            return True
        return valid

    def of(self, schema: Any, depth: int = 0) -> Any:
        """Return the example, None for want of one."""
        tried = list(islice(self._valid(schema, depth), 1))
        return tried[0] if tried else next(self._some(schema, depth), None)

    def _valid(self, schema: Any, depth: int) -> Iterator[Any]:
        candidates = islice(self._some(schema, depth), _TRIES)
        return (value for value in candidates if self.allows(value, schema))

    def _some(self, schema: Any, depth: int) -> Iterator[Any]:
        """Give values that may fit, the simplest first."""
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            return
        if not isinstance(schema, dict):
            yield from ("a", None) if schema is True else ()
            return
        whole = self.resolved(schema)
        if "const" in whole:
            yield whole["const"]
        elif "enum" in whole:
            yield from whole["enum"]
        elif alternatives := _alternatives(whole, depth):
            yield from chain.from_iterable(self._some(a, depth + 1) for a in alternatives)
        else:
            for name in _types_of(whole):
                yield from self._typed(name, whole, depth)

    def _typed(self, name: str, schema: Schema, depth: int) -> Iterable[Any]:
        match name:
            case "object":
                return (self._object(schema, extra, depth) for extra in (False, True))
            case "array":
                return (self._array(schema, distinct, depth) for distinct in (False, True))
            case "string":
                return texts(schema)
            case "integer" | "number":
                return _numbers(schema, whole=name == "integer")
            case "boolean":
                return (True, False)
        return (None,)

    def _object(self, schema: Schema, extra: bool, depth: int) -> dict[str, Any]:
        """Make an object of what has to be there; with `extra` also of all that is listed."""
        properties = schema.get("properties", {})
        names = set(schema.get("required", [])) | (set(properties) if extra else set())
        for name, needed in schema.get("dependentRequired", {}).items():
            names |= set(needed) if name in names else set()
        order = [*(n for n in properties if n in names), *sorted(names - set(properties))]
        made = {n: self.of(_property(schema, n), depth + 1) for n in order}
        rule = schema.get("propertyNames", True)
        unused = (n for n in (*properties, *_names(schema)) if n not in made)
        spare = (n for n in unused if self.allows(n, rule))
        while len(made) < min(schema.get("minProperties", 0), _LARGEST_SIZE):
            name = next(spare)
            made[name] = self.of(_property(schema, name), depth + 1)
        return made

    def _array(self, schema: Schema, distinct: bool, depth: int) -> list[Any]:
        items, first = schema.get("items", True), schema.get("prefixItems", [])
        made = [self.of(item, depth + 1) for item in first][: schema.get("minItems", 0)]
        if "contains" in schema:
            wanted = joined(items, schema["contains"])
            made += [self.of(wanted, depth + 1)] * schema.get("minContains", 1)
        missing = schema.get("minItems", 0) - len(made)
        if missing <= 0:
            return made
        if not distinct:
            item = self.of(items, depth + 1)
            return [*made, *[item] * min(missing, _LARGEST_ARRAY // _size(item))]
        for value in self._valid(items, depth + 1):
            made += [value] if value not in made else []
            if (missing := schema["minItems"] - len(made)) <= 0:
                break
        return made

    def resolved(self, schema: Schema) -> Schema:
        """Return `schema` with what it refers to, and all of allOf, put into it."""
        parts = [part for part in schema.get("allOf", ()) if isinstance(part, dict)]
        rest = {key: value for key, value in schema.items() if key not in ("allOf", "$ref")}
        if "$ref" in schema and self._left > 0:
            self._left -= 1
            parts.append(self._target(schema["$ref"]))
        for part in parts:
            rest = joined(rest, self.resolved(part) if isinstance(part, dict) else part)
        return rest

    def _target(self, reference: str) -> Any:
        found = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            found = found[step.replace("~1", "/").replace("~0", "~")]
        return found


def _alternatives(schema: Schema, depth: int) -> list[Schema]:
    """Return what each branch of `schema` makes of it, none where it has no branches."""
    for name in ("anyOf", "oneOf"):
        if branches := schema.get(name):
            rest = {key: value for key, value in schema.items() if key != name}
            # Deep inside, what refers to itself has to come to an end.
            ordered = sorted(branches, key=lambda branch: depth > 2 and "$ref" in str(branch))
            return [joined(rest, branch) for branch in ordered]
    if "if" in schema:
        rest = {key: value for key, value in schema.items() if key not in ("if", "then", "else")}
        then = joined(schema["if"], schema.get("then", True))
        return [rest, joined(rest, schema.get("else", True)), joined(rest, then)]
    return []


def _types_of(schema: Schema) -> list[str]:
    stated = schema.get("type")
    if isinstance(stated, list):
        return sorted(stated, key=lambda name: name == "null")
    if stated is None:
        kinds = {
            "object": ("properties", "required", "minProperties", "additionalProperties"),
            "array": ("items", "prefixItems", "minItems", "contains"),
            "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        }
        hinted = [kind for kind, keys in kinds.items() if any(key in schema for key in keys)]
        return [*hinted, "string", "number", "boolean", "object", "array", "null"]
    return [stated]


def _names(schema: Schema) -> Iterator[str]:
    """Give names for properties that are not listed."""
    if isinstance(rule := schema.get("propertyNames"), dict):
        yield from rule.get("enum", ())
        yield from islice(texts(rule), _TRIES)
    for pattern in schema.get("patternProperties", {}):
        yield from texts({"pattern": pattern})
    for number in range(_LARGEST_SIZE):
        yield f"a{number}"


def _property(schema: Schema, name: str) -> Any:
    if name in (listed := schema.get("properties", {})):
        return listed[name]
    patterns = schema.get("patternProperties", {})
    fitting = [value for pattern, value in patterns.items() if name in texts({"pattern": pattern})]
    return fitting[0] if fitting else schema.get("additionalProperties", True)


def _numbers(schema: Schema, whole: bool) -> Iterator[int | float]:
    step: int | float = schema.get("multipleOf", 1)
    low = max(schema.get(n, -float("inf")) for n in ("minimum", "exclusiveMinimum"))
    high = min(schema.get(n, float("inf")) for n in ("maximum", "exclusiveMaximum"))
    yield from (1, 0)
    bounds = [bound for bound in (low, high) if abs(bound) != float("inf")]
    yield from (int(bound) if bound == int(bound) else bound for bound in bounds if not whole)
    if bounds:
        # From the lower bound upwards, or from the only one, the upper, downwards.
        first = -(-bounds[0] // step) if bounds[0] == low else bounds[0] // step
        towards = 1 if bounds[0] == low else -1
        yield from (_plain((first + towards * n) * step) for n in range(_TRIES // 4))
    if len(bounds) == 2:
        yield (low + high) / 2
    yield from (_plain(n * step) for n in range(1, _TRIES // 4))


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number


def _size(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, inside))
