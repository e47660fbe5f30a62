from __future__ import annotations

import json
from typing import Any

import pytest

from engine.argument_schema import ANY_OBJECT, usable_schema, usable_value_schema
from tests.engine.tool_schemas import BROKEN, SCHEMAS


def of_property(schema: Any) -> Any:
    """What is left of one property's schema."""
    return usable_schema({"type": "object", "properties": {"a": schema}})["properties"]["a"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_real_schemas_keep_their_properties(name: str) -> None:
    usable = usable_schema(SCHEMAS[name])
    assert usable["properties"].keys() == SCHEMAS[name]["properties"].keys()
    assert usable.get("required") == SCHEMAS[name].get("required")


@pytest.mark.parametrize("name", BROKEN)
def test_schemas_that_cannot_be_followed_become_any_object(name: str) -> None:
    assert usable_schema(BROKEN[name]) == ANY_OBJECT


def test_empty_schema_is_any_object() -> None:
    assert usable_schema({}) == ANY_OBJECT


@pytest.mark.parametrize(
    "more",
    [
        {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}},
        {"dependentRequired": {"a": ["b"]}},
        {"dependentSchemas": {"a": {"required": ["b"]}}},
    ],
)
def test_properties_that_are_not_listed_but_may_be_required_are_allowed(
    more: dict[str, Any],
) -> None:
    usable = usable_schema({"type": "object", "properties": {"a": {}}, "required": ["a"], **more})
    assert usable["properties"] == {"a": {}}
    assert "additionalProperties" not in usable


def test_listed_properties_are_all_there_are_unless_the_schema_says_otherwise() -> None:
    listed = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert usable_schema(listed)["additionalProperties"] is False
    assert usable_schema({**listed, "additionalProperties": True})["additionalProperties"] is True
    assert "additionalProperties" not in usable_schema({**listed, "required": ["b"]})
    assert "additionalProperties" not in usable_schema({**listed, "anyOf": [{"required": ["a"]}]})


@pytest.mark.parametrize(
    ("schema", "left"),
    [
        ({"type": "string", "pattern": "(?=a)b"}, {"type": "string"}),
        ({"type": "string", "pattern": r"(a)\1"}, {"type": "string"}),
        ({"type": "string", "pattern": "\ud800"}, {"type": "string"}),
        ({"type": "string", "pattern": "[0-9]+"}, {"type": "string", "pattern": "[0-9]+"}),
        ({"$ref": "https://example.com/x"}, {}),
        ({"type": "file"}, {}),
        ({"type": "integer", "const": 2**63}, {"type": "integer"}),
        ({"enum": [{"a": [2**70]}]}, {}),
        ({"anyOf": []}, {}),
        ({"type": "string", "maxLength": 10**18}, {"type": "string"}),
        ({"type": "integer", "description": "n", "title": "N", "default": 1}, {"type": "integer"}),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        (
            {"type": "array", "items": [{"type": "string"}]},
            {"type": "array", "prefixItems": [{"type": "string"}]},
        ),
    ],
)
def test_only_what_cannot_be_followed_is_dropped(schema: Any, left: Any) -> None:
    assert of_property(schema) == left


def test_properties_named_like_keywords_stay() -> None:
    names = ["pattern", "$ref", "description", "type", "enum", "nullable"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    assert list(usable_schema(schema)["properties"]) == names


def test_values_of_const_are_left_alone() -> None:
    assert of_property({"const": {"title": "x", "nullable": True}}) == {
        "const": {"title": "x", "nullable": True}
    }


def test_a_demand_that_costs_too_much_is_dropped_alone() -> None:
    hard = {"type": "integer", "multipleOf": 999_999_937, "minimum": 1, "maximum": 10**15}
    assert of_property(hard) == {"type": "integer"}


def test_a_value_keeps_the_definitions_it_refers_to() -> None:
    root = {"$defs": {"n": {"type": "integer"}}}
    value = usable_value_schema({"$ref": "#/$defs/n"}, root)
    assert json.dumps(value) == '{"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}'
    assert usable_value_schema({"$ref": "#/elsewhere"}, root) == {}
    endless = {"$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert usable_value_schema({"$ref": "#/$defs/a"}, endless) == {}
