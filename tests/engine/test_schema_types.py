from typing import Any

import pytest

from engine.schema_types import json_types, written_value

ROOT = {"$defs": {"a/b": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}}}


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["string", "null", 5]}, {"string", "null"}),
        ({"enum": ["a", 1, None]}, {"string", "integer", "number", "null"}),
        ({"const": {"a": 1}}, {"object"}),
        ({"anyOf": [{"type": "string"}, {"const": 1.5}]}, {"string", "number"}),
        ({"oneOf": [{"type": "string"}, {}]}, None),
        ({"allOf": [{"minLength": 1}, {"type": "string"}]}, {"string"}),
        ({"$ref": "#/$defs/a~1b"}, {"integer"}),
        ({"$ref": "#/$defs/loop"}, None),
        ({"$ref": "#/$defs/none"}, None),
        ({"$ref": "https://example.com/x"}, None),
        ({}, None),
        (True, None),
        (None, None),
    ],
)
def test_types_of_a_schema(schema: Any, types: set[str] | None) -> None:
    found = json_types(schema, ROOT)
    assert (None if found is None else set(found)) == types


@pytest.mark.parametrize(
    ("text", "types", "value"),
    [
        ("5", {"integer"}, "5"),
        ("5", {"number"}, "5"),
        ("5.0", {"integer"}, '"5.0"'),
        (" [1, 2]\n", {"array"}, "[1, 2]"),
        ("True", {"boolean"}, "true"),
        ("None", {"string", "null"}, "null"),
        ("null", {"string"}, '"null"'),
        ("", None, '""'),
        ('{"a": 1} x', None, '"{\\"a\\": 1} x"'),
        ("Infinity", None, '"Infinity"'),
        ("é", {"integer"}, '"é"'),
    ],
)
def test_value_written_without_quotes(text: str, types: set[str] | None, value: str) -> None:
    assert written_value(text, frozenset(types) if types else None) == value
