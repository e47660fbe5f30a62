"""JSON Schema with sentences people can use: where a value breaks its schema, and what fits there.

A sentence names the field and never its value: answers may be confidential.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from handlers.body import render_path

Json = dict[str, Any]

# Marks errors whose message is a predicate of ours; jsonschema's would repeat the value.
_OURS = "mashbox"
_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def resolve(document: Json, node: Json) -> Json:
    """Give what a `$ref` into the document means, or the node itself if it has none."""
    if "$ref" not in node:
        return node
    target: Any = document
    for key in node["$ref"].removeprefix("#/").split("/"):
        target = target[key]
    return resolve(document, target)


class SchemaCheck:
    """Checks values against schemas of one OpenAPI document."""

    def __init__(self, document: Json) -> None:
        self._validator = _validator_class(document)
        self._made = cache(lambda key: self._validator(json.loads(key)))

    def faults(self, schema: Json, value: Any) -> Iterator[str]:
        """Say what is wrong with a value: sentences that begin with the field, one a field."""
        validator = self._made(json.dumps(schema))
        found: dict[str, str] = {}
        for error in validator.iter_errors(value):
            cause = best_match([error])
            path = render_path(tuple(cause.absolute_path)) or "The body"
            # The first is the type's, and whatever else is wrong follows from that.
            found.setdefault(path, f"{path} {_predicate(cause)}.")
        yield from found.values()


def _validator_class(document: Json) -> Callable[[Json], Validator]:
    def follow(validator: Any, reference: str, value: Any, schema: Json) -> Iterator[Any]:
        yield from validator.descend(value, resolve(document, {"$ref": reference}))

    def choose(validator: Any, branches: list[Json], value: Any, schema: Json) -> Iterator[Any]:
        """Descend only where the discriminator points: the errors of one branch say enough."""
        if not (rule := schema.get("discriminator")):
            yield from Draft202012Validator.VALIDATORS["oneOf"](validator, branches, value, schema)
            return
        if not isinstance(value, dict):
            yield ValidationError("should be an object", validator=_OURS)
            return
        name = value.get(rule["propertyName"])
        if isinstance(name, str) and (target := rule["mapping"].get(name)):
            yield from validator.descend(value, resolve(document, {"$ref": target}))
        else:
            wanted = f"should be {_listed(rule['mapping'])}"
            yield ValidationError(wanted, validator=_OURS, path=(rule["propertyName"],))

    keywords = {"$ref": follow, "oneOf": choose, "required": _required}
    # Its type hints leave the result open.
    made: Callable[[Json], Validator] = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
    return made


def _required(validator: Any, names: list[str], value: Any, schema: Json) -> Iterator[Any]:
    """Put the missing field into the path, like every other field that is wrong."""
    if isinstance(value, dict):
        for name in names:
            if name not in value:
                yield ValidationError("is missing", validator=_OURS, path=(name,))


def _predicate(error: ValidationError) -> str:
    keyword, rule = str(error.validator), cast(Any, error.validator_value)
    if keyword == _OURS:
        return error.message
    if keyword == "type":
        return f"should be {_types(rule)}, not {_type_of(error.instance)}"
    if words := _PREDICATES.get(keyword):
        return words(rule)
    return f"breaks the schema's `{keyword}`"


_PREDICATES: dict[str, Callable[[Any], str]] = {
    "const": lambda value: f"should be {json.dumps(value)}",
    "enum": lambda values: f"should be {_listed(values)}",
    "minimum": lambda limit: f"should be at least {limit}",
    "maximum": lambda limit: f"should be at most {limit}",
    "exclusiveMinimum": lambda limit: f"should be greater than {limit}",
    "exclusiveMaximum": lambda limit: f"should be less than {limit}",
    "pattern": lambda pattern: f"should match {pattern}",
    "minLength": lambda least: _at_least(least, "characters"),
    "minItems": lambda least: _at_least(least, "items"),
    "maxItems": lambda most: f"should have at most {most} items",
    "anyOf": lambda _: "fits none of the forms that the contract lists",
    "oneOf": lambda _: "does not fit exactly one of the forms that the contract lists",
}


def _at_least(number: int, nouns: str) -> str:
    return "must not be empty" if number == 1 else f"should have at least {number} {nouns}"


def _listed(values: Any) -> str:
    *most, last = map(json.dumps, values)
    return f"{', '.join(most)} or {last}" if most else last


def _types(names: str | list[str]) -> str:
    listed = [names] if isinstance(names, str) else names
    return " or ".join(_NAMES[name] for name in listed)


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
    return "an object"
