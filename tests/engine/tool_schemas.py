"""Argument schemas as real tools have them, and some that nobody should write."""

from __future__ import annotations

from functools import reduce
from typing import Any

SCHEMAS: dict[str, dict[str, Any]] = {
    "plain": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
    "nothing": {"type": "object", "properties": {}},
    "enum and const": {
        "type": "object",
        "properties": {
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "version": {"const": 2},
            "mixed": {"enum": ["a", 1, None, True]},
        },
        "required": ["unit", "version", "mixed"],
    },
    "any of": {
        "type": "object",
        "properties": {"value": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}},
        "required": ["value"],
    },
    "one of objects": {
        "type": "object",
        "properties": {
            "shape": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"r": {"type": "number"}},
                        "required": ["r"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "properties": {"w": {"type": "integer"}, "h": {"type": "integer"}},
                        "required": ["w", "h"],
                        "additionalProperties": False,
                    },
                ]
            }
        },
        "required": ["shape"],
    },
    "references": {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "required": ["tree"],
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "name": {"enum": ["leaf", "branch"]},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 1},
                },
                "required": ["name"],
                "additionalProperties": False,
            }
        },
    },
    "old definitions": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"level": {"$ref": "#/definitions/level"}},
        "required": ["level"],
        "definitions": {"level": {"type": "integer", "minimum": 1, "maximum": 5}},
    },
    "nullable": {
        "type": "object",
        "properties": {"note": {"type": ["string", "null"], "maxLength": 5}},
        "required": ["note"],
    },
    "big integers": {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": -(2**53) + 1, "maximum": 2**53 - 1},
            "largest": {"const": 2**63 - 1},
        },
        "required": ["id", "largest"],
    },
    "arrays": {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 1, "maxItems": 3},
            "pair": {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "null"}]},
        },
        "required": ["tags"],
    },
    "pattern and format": {
        "type": "object",
        "properties": {
            "date": {"type": "string", "format": "date"},
            "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
        },
        "required": ["date", "code"],
    },
    "names with quotes": {
        "type": "object",
        "properties": {'a "b" \\ é': {"type": "boolean"}},
        "required": ['a "b" \\ é'],
    },
    "lookaround": {
        "type": "object",
        "properties": {"word": {"type": "string", "pattern": "^(?!x)[a-z]+$", "enum": ["a", "b"]}},
        "required": ["word"],
    },
}

# Nothing but an object can be promised for these.
BROKEN: dict[str, dict[str, Any]] = {
    "remote reference": {"type": "object", "$ref": "https://example.com/schema.json"},
    "reference to nothing": {"properties": {"a": {"$ref": "#/$defs/gone"}}},
    "endless reference": {"$ref": "#"},
    "unknown type": {"type": "dict"},
    "no schema at all": {"type": 5, "properties": [1, 2], "required": "a"},
    "impossible": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["b"],
        "additionalProperties": False,
    },
    "deep": reduce(lambda inner, _: {"type": "object", "properties": {"a": inner}}, range(300), {}),
    "long": {"type": "object", "properties": {"a": {"enum": ["x" * 2**18]}}},
}
