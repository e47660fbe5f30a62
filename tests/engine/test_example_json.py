from __future__ import annotations

from functools import reduce
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from engine.example_json import example_arguments
from tests.engine.random_schemas import argument_schemas
from tests.engine.tool_schemas import SCHEMAS

NODE = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["next"],
}


def object_with(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **more}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        object_with({"type": "string"}),
        object_with({"type": "string", "minLength": 7}),
        object_with({"type": "string", "format": "date-time"}),
        object_with({"enum": ["x", 3]}),
        object_with({"const": {"k": [1]}}),
        object_with({"type": "integer", "minimum": 7}),
        object_with({"type": "number", "exclusiveMinimum": 2, "multipleOf": 5}),
        object_with({"type": "integer", "maximum": -3}),
        object_with({"type": "integer", "exclusiveMaximum": 0}),
        object_with({"type": "array", "items": {"type": "boolean"}, "minItems": 3}),
        object_with({"type": ["null", "integer"]}),
        object_with({"type": ["null"]}),
        object_with({"anyOf": [{"type": "null"}, {"type": "string"}]}),
        object_with({"oneOf": [{"type": "array"}], "minItems": 2, "items": {"type": "null"}}),
        object_with({"$ref": "#/$defs/b~1c"}, **{"$defs": {"b/c": {"enum": [9]}}}),
        object_with({"allOf": [object_with({"type": "null"}), {"required": ["b"]}]}),
        object_with({"allOf": [{"$ref": "#/$defs/x"}]}, **{"$defs": {"x": object_with({})}}),
        object_with({"properties": {"deep": {"type": "integer"}}, "required": ["deep"]}),
        object_with({"type": "string", "pattern": r"^(feat|fix)\([a-z]+\): .{3,}$"}),
        object_with({"type": "string", "pattern": r"^[A-Z]\w*$", "minLength": 9}),
        object_with({"type": "string", "maxLength": 0}),
        object_with({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        object_with({"type": "number", "minimum": 0.25, "multipleOf": 0.1}),
        object_with({"type": "integer", "enum": ["no", 7], "minimum": 5}),
        object_with(
            {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 3, "uniqueItems": True}
        ),
        object_with({"type": "array", "contains": {"const": 4}, "minContains": 2}),
        object_with(
            {"type": "array", "prefixItems": [{"const": 1}, {"const": "x"}], "minItems": 2}
        ),
        object_with({"type": "object", "minProperties": 2, "additionalProperties": {"const": 3}}),
        object_with(
            {"type": "object", "patternProperties": {"^x-": {"const": 1}}, "minProperties": 1}
        ),
        {"type": "object", "minProperties": 1, "propertyNames": {"pattern": "^[a-z]{3}$"}},
        {"type": "object", "minProperties": 2, "propertyNames": {"enum": ["x", "y"]}},
        reduce(lambda inner, _: object_with(inner), range(30), {"type": "string"}),
        object_with({"not": {"type": "string"}}),
        object_with({"not": {"const": True}, "type": "boolean"}),
        object_with({"type": "string"}, dependentRequired={"a": ["b"]}),
        object_with(
            {"enum": [1, 2]},
            **{"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}},
        ),
        object_with(
            {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 0}, {"type": "null"}]}
        ),
        {"$ref": "#/$defs/whole", "$defs": {"whole": object_with({"const": 5})}},
    ],
)
def test_the_example_is_valid(schema: dict[str, Any]) -> None:
    jsonschema.validate(example_arguments(schema, {}), schema)


def test_only_required_arguments_are_made_in_the_schemas_order() -> None:
    schema = {
        "type": "object",
        "properties": {"z": {"type": "string"}, "y": {}, "b": {"type": "string"}},
        "required": ["b", "z"],
    }
    assert list(example_arguments(schema, {}).items()) == [("z", "a"), ("b", "a")]


def test_what_is_given_is_taken_where_it_fits() -> None:
    schema = {
        "type": "object",
        "properties": {
            "mode": {"enum": ["slow"]},
            "limit": {"type": "integer"},
            "command": {"type": "string"},
        },
        "required": ["command", "mode"],
    }
    given = {"command": "ls", "mode": "fast", "limit": 3, "other": 1}
    assert example_arguments(schema, given) == {"mode": "slow", "limit": 3, "command": "ls"}
    assert example_arguments(schema, {"command": ["ls"]})["command"] == "a"


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"properties": 3},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"minLength": "x"}}, "required": ["a"]},
        {"type": "string"},
    ],
)
def test_a_schema_that_cannot_be_read_has_no_arguments(schema: Any) -> None:
    assert example_arguments(schema, {}) == {}


def test_a_pattern_that_is_none_gets_a_text_all_the_same() -> None:
    schema = object_with({"type": "string", "pattern": "[("})
    assert example_arguments(schema, {}) == {"a": "a"}


def test_a_schema_without_end_gives_a_finite_example() -> None:
    schema = {"$ref": "#/$defs/node", "$defs": {"node": NODE}}
    assert "next" in example_arguments(schema, {})


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_example_is_valid_under_schemas_of_real_tools(name: str) -> None:
    jsonschema.validate(example_arguments(SCHEMAS[name], {}), SCHEMAS[name])


@settings(max_examples=150, deadline=None)
@given(argument_schemas())
def test_the_example_is_valid_under_any_schema(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema).validate(example_arguments(schema, {}))


def test_a_reference_never_leads_to_the_network() -> None:
    assert example_arguments(object_with({"$ref": "http://127.0.0.1:9/schema"}), {}) == {}
