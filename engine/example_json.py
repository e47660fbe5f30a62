"""Makes small values that JSON Schemas allow, for tool calls without a model."""

from __future__ import annotations

from typing import Any

_DEEPEST = 12
_FORMATS = {
    "date": "2026-01-31",
    "time": "12:00:00Z",
    "date-time": "2026-01-31T12:00:00Z",
    "email": "a@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
}


def example_arguments(schema: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that `schema` allows: the required ones, and what of `given` fits it.

    They are in the schema's order. A schema that cannot be read has no arguments.
    """
    try:
        examples = _Examples(schema)
        properties = schema.get("properties", {})
        fitting = {n: v for n, v in given.items() if examples.fits(v, properties.get(n))}
        found = {**(examples.of(schema) or {}), **fitting}
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
        return {}
    order = [name for name in properties if name in found]
    return {name: found[name] for name in dict.fromkeys([*order, *found])}


class _Examples:
    """Values for the parts of one schema; null where it contradicts itself or refers to nothing.

    Patterns are not followed.
    """

    def __init__(self, root: Any) -> None:
        self._root = root

    def fits(self, value: Any, schema: Any) -> bool:
        """Whether `value` is of the type that `schema` asks for, and one of those it lists."""
        if not isinstance(schema, dict):
            return False
        listed = schema.get("enum", [schema["const"]] if "const" in schema else [value])
        return type(value) is type(self.of(schema)) and value in listed

    def of(self, schema: Any, depth: int = 0) -> Any:
        """Return the example."""
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return None
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        if "$ref" in schema:
            return self.of(self._resolve(schema["$ref"]), depth + 1)
        for name in ("anyOf", "oneOf"):
            if schema.get(name):
                return self.of({**_without(schema, name), **schema[name][0]}, depth + 1)
        if schema.get("allOf"):
            return self.of(self._joined(schema), depth + 1)
        return self._typed(schema, depth)

    def _typed(self, schema: dict[str, Any], depth: int) -> Any:
        match _type_of(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return [self.of(schema.get("items", {}), depth + 1)] * schema.get("minItems", 0)
            case "string":
                text = _FORMATS.get(schema.get("format", ""), "a")
                return text.ljust(schema.get("minLength", 0), "a")
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return True
        return None

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        order = [name for name in properties if name in required]
        names = dict.fromkeys([*order, *required])
        return {name: self.of(properties.get(name), depth + 1) for name in names}

    def _resolve(self, reference: str) -> Any:
        found = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            found = found[step.replace("~1", "/").replace("~0", "~")]
        return found

    def _joined(self, schema: dict[str, Any]) -> dict[str, Any]:
        joined = _without(schema, "allOf")
        for part in schema["allOf"]:
            part = self._resolve(part["$ref"]) if "$ref" in part else part
            properties = joined.get("properties", {}) | part.get("properties", {})
            required = [*joined.get("required", []), *part.get("required", [])]
            joined |= {**part, "properties": properties, "required": required}
        return joined


def _without(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != name}


def _type_of(schema: dict[str, Any]) -> str:
    stated = schema.get("type")
    if isinstance(stated, list):
        stated = next((name for name in stated if name != "null"), "null")
    if stated is None and ("properties" in schema or "required" in schema):
        stated = "object"
    return stated or "string"


def _number(schema: dict[str, Any]) -> int | float:
    step: int | float = schema.get("multipleOf", 1)
    value: int | float = 1
    if "maximum" in schema or "exclusiveMaximum" in schema:
        below = schema.get("exclusiveMaximum", float("inf")) - step
        value = min(value, schema.get("maximum", below), below)
    if "minimum" in schema or "exclusiveMinimum" in schema:
        above = schema.get("exclusiveMinimum", float("-inf")) + step
        value = max(value, schema.get("minimum", above), above)
    return -(-value // step) * step
