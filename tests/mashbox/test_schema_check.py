"""Sentences for what breaks a schema; the validation itself is jsonschema's."""

from __future__ import annotations

from typing import Any

import pytest

from mashbox.app import contract
from mashbox.schema_check import SchemaCheck

DOCUMENT: dict[str, Any] = {
    "components": {
        "schemas": {
            "Ping": {"properties": {"type": {"const": "ping"}, "n": {"type": "integer"}}},
            "Stop": {"required": ["type", "why"]},
            "Event": {
                "oneOf": [{"$ref": "#/components/schemas/Ping"}],
                "discriminator": {
                    "propertyName": "type",
                    "mapping": {
                        "ping": "#/components/schemas/Ping",
                        "stop": "#/components/schemas/Stop",
                    },
                },
            },
        }
    }
}
EVENT = {"$ref": "#/components/schemas/Event"}


def faults(schema: dict[str, Any], value: object) -> list[str]:
    return list(SchemaCheck(DOCUMENT).faults(schema, value))


@pytest.mark.parametrize(
    ("schema", "value", "sentence"),
    [
        ({"type": "string"}, 1, "should be a string, not a number"),
        ({"type": ["integer", "null"]}, True, "should be an integer or null, not a boolean"),
        ({"type": "integer"}, None, "should be an integer, not null"),
        ({"type": "number"}, "secret", "should be a number, not a string"),
        ({"type": "object"}, [], "should be an object, not an array"),
        ({"type": "array"}, {}, "should be an array, not an object"),
        ({"const": "x"}, "secret", 'should be "x"'),
        ({"enum": ["a", "b", None]}, "secret", 'should be "a", "b" or null'),
        ({"minimum": 1}, 0, "should be at least 1"),
        ({"maximum": 1}, 2, "should be at most 1"),
        ({"exclusiveMinimum": 0}, 0, "should be greater than 0"),
        ({"exclusiveMaximum": 0}, 0, "should be less than 0"),
        ({"pattern": "^msg_"}, "secret", "should match ^msg_"),
        ({"minLength": 1}, "", "must not be empty"),
        ({"minItems": 1}, [], "must not be empty"),
        ({"minItems": 2}, [1], "should have at least 2 items"),
        ({"maxItems": 1}, [1, 2], "should have at most 1 items"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "fits none of the forms that"),
        ({"oneOf": [{"const": "x"}, {"const": "y"}]}, "secret", "does not fit exactly one of"),
        ({"multipleOf": 2}, 3, "breaks the schema's `multipleOf`"),
    ],
)
def test_a_value_that_breaks_a_keyword(
    schema: dict[str, Any], value: object, sentence: str
) -> None:
    (said,) = faults({"properties": {"a": {"items": schema}}}, {"a": [value]})
    assert said.startswith(f"a[0] {sentence}")
    assert "secret" not in said


def test_every_missing_field_is_named() -> None:
    schema = {"properties": {"a": {"required": ["b", "c", "d"]}}}
    assert faults(schema, {"a": {"c": 1}}) == ["a.b is missing.", "a.d is missing."]


def test_of_a_field_with_a_wrong_type_nothing_else_is_said() -> None:
    schema = {"properties": {"a": {"type": "string", "const": "x", "pattern": "x"}}}
    assert faults(schema, {"a": 1}) == ["a should be a string, not a number."]


def test_of_a_union_only_the_branch_that_was_meant_speaks() -> None:
    assert faults(EVENT, {"type": "ping", "n": "x"}) == ["n should be an integer, not a string."]
    assert faults(EVENT, {"type": "stop"}) == ["why is missing."]


def test_a_value_that_names_no_branch() -> None:
    wanted = 'type should be "ping" or "stop".'
    assert [faults(EVENT, v) for v in ({}, {"type": "x"}, {"type": [1]})] == [[wanted]] * 3
    assert faults(EVENT, 1) == ["The body should be an object."]


def test_one_half_of_a_choice_with_null_speaks_for_itself() -> None:
    schema = {"anyOf": [{"$ref": "#/components/schemas/Stop"}, {"type": "null"}]}
    assert faults(schema, {"type": "stop"}) == ["why is missing."]


def test_every_choice_of_the_contract_has_a_discriminator_that_lists_it_whole() -> None:
    choices = [s for s in contract()["components"]["schemas"].values() if "discriminator" in s]
    assert choices
    for schema in choices:
        listed = {branch["$ref"] for branch in schema["oneOf"]}
        assert listed == set(schema["discriminator"]["mapping"].values())
