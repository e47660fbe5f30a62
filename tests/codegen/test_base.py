"""The value types of generated/_base.py against JSON Schema's own verdict."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import Field, StrictBool, TypeAdapter, ValidationError

from generated._base import (
    ApiModel,
    ByJsonType,
    ByTypeField,
    NullIsDefault,
    OnlyFalse,
    OnlyNull,
    StrictFloat,
    StrictInt,
)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-9, 9).map(float),
    st.sampled_from(["4", "4.0", "yes", "true", "", "NaN"]),
)
TYPES: list[tuple[Any, dict[str, Any]]] = [
    (StrictInt, {"type": "integer"}),
    (StrictFloat, {"type": "number"}),
    (StrictBool, {"type": "boolean"}),
    (OnlyFalse, {"type": "boolean", "const": False}),
    (OnlyNull, {"type": "null"}),
]


def accepts(adapter: TypeAdapter[Any], text: str) -> bool:
    """Tell whether a type takes a JSON text; both ways of reading it have to agree."""
    verdicts = set()
    for read, value in ((adapter.validate_json, text), (adapter.validate_python, json.loads(text))):
        try:
            read(value)
            verdicts.add(True)
        except ValidationError:
            verdicts.add(False)
    assert len(verdicts) == 1, text
    return verdicts.pop()


@pytest.mark.parametrize(("python_type", "schema"), TYPES)
def test_scalar_types_agree_with_json_schema(python_type: Any, schema: dict[str, Any]) -> None:
    adapter = TypeAdapter(python_type)
    validator = Draft202012Validator(schema)

    @given(SCALARS)
    @example(True)
    @example(False)
    @example(0)
    @example(1)
    @example(4.0)
    @example(-0.0)
    @example(0.5)
    @example(2**64)
    @example("4")
    def agree(value: object) -> None:
        assert accepts(adapter, json.dumps(value)) == validator.is_valid(value)

    agree()


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("python_type", [StrictInt, StrictFloat])
def test_numbers_are_finite(python_type: Any, text: str) -> None:
    assert not accepts(TypeAdapter(python_type), text)


def test_a_whole_float_becomes_an_integer() -> None:
    value = TypeAdapter(StrictInt).validate_json("4.0")
    assert (value, type(value)) == (4, int)


class Options(ApiModel):
    heat: Annotated[StrictFloat, NullIsDefault] = 0.5
    name: str | None = None


class Holder(ApiModel):
    value: Annotated[str | list[Options] | Options | None, ByJsonType] = None


def test_null_is_the_default_and_absent_stays_absent() -> None:
    null, absent = (Options.model_validate_json(body) for body in ('{"heat": null}', "{}"))
    assert null.heat == absent.heat == 0.5
    assert absent.model_dump_json(exclude_unset=True) == "{}"


def test_unknown_fields_pass_and_are_dropped() -> None:
    assert Options.model_validate_json('{"other": 1}').model_extra is None


def test_json_has_set_fields_with_null_but_no_absent_ones() -> None:
    assert Options(name=None).model_dump_json(exclude_unset=True) == '{"name":null}'


@pytest.mark.parametrize(
    ("value", "location"),
    [
        (5, ("value",)),
        (True, ("value",)),
        ([5], ("value", "<array>", 0)),
        ([{"heat": "x"}], ("value", "<array>", 0, "heat")),
        ({"heat": "x"}, ("value", "<object>", "heat")),
    ],
)
def test_a_wrong_value_of_a_union_gives_one_error_at_its_place(
    value: object, location: tuple[str | int, ...]
) -> None:
    with pytest.raises(ValidationError) as caught:
        Holder.model_validate_json(json.dumps({"value": value}))
    assert [error["loc"] for error in caught.value.errors()] == [location]


@pytest.mark.parametrize("value", [None, "", "x", [], [{}], {}, {"heat": 1}])
def test_each_member_of_a_union_is_taken(value: object) -> None:
    Holder.model_validate_json(json.dumps({"value": value}))


def test_a_union_of_two_object_types_is_refused() -> None:
    with pytest.raises(TypeError, match="two members of a union are of the JSON type <object>"):
        TypeAdapter(Annotated[Options | Holder, ByJsonType])


class Square(ApiModel):
    type: Literal["square", "box"]
    side: StrictInt


class Circle(ApiModel):
    type: Literal["circle"] | None = None
    radius: StrictInt


class OtherShape(ApiModel):
    type: Annotated[str, Field(pattern="_shape$")]


Shape = Annotated[Square | Circle | OtherShape, ByTypeField]
SHAPE: TypeAdapter[Any] = TypeAdapter(Shape)


@pytest.mark.parametrize(
    ("value", "member"),
    [
        ({"type": "square", "side": 1}, Square),
        ({"type": "box", "side": 1}, Square),
        ({"type": "circle", "radius": 1}, Circle),
        ({"type": None, "radius": 1}, Circle),
        ({"radius": 1}, Circle),
        ({"type": "odd_shape"}, OtherShape),
        (Square(type="box", side=1), Square),
    ],
)
def test_the_field_type_chooses_the_model(value: object, member: type[ApiModel]) -> None:
    assert type(SHAPE.validate_python(value)) is member


@pytest.mark.parametrize(
    ("value", "location"),
    [
        ({"type": "square"}, ("<square>", "side")),
        ({"type": "box", "side": "x"}, ("<square>", "side")),
        ({}, ("<circle>", "radius")),
        ({"type": "oval"}, ()),
        ({"type": 5}, ()),
        ({"type": ["square"]}, ()),
        ("square", ()),
        (None, ()),
    ],
)
def test_a_wrong_model_gives_one_error_at_its_place(
    value: object, location: tuple[str | int, ...]
) -> None:
    with pytest.raises(ValidationError) as caught:
        SHAPE.validate_json(json.dumps(value))
    assert [error["loc"] for error in caught.value.errors()] == [location]


@pytest.mark.parametrize(
    ("union", "sentence"),
    [
        (Shape, "Input should be an object with a type such as square, box or circle"),
        (
            Annotated[Square | Circle, ByTypeField],
            "Input should be an object with the type square, box or circle",
        ),
        (
            Annotated[Circle | OtherShape, ByTypeField],
            "Input should be an object with a type such as circle",
        ),
    ],
)
def test_an_unknown_type_is_told_which_ones_there_are(union: Any, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        TypeAdapter(union).validate_python({"type": "oval"})


class Box(ApiModel):
    type: Literal["box"]


def test_two_models_with_one_type_are_refused() -> None:
    with pytest.raises(TypeError, match="two members of a union have the type <box>"):
        TypeAdapter(Annotated[Square | Box, ByTypeField])


def test_only_the_set_fields_of_a_chosen_model_are_written() -> None:
    shapes = TypeAdapter(list[Shape])
    written = shapes.dump_json([Circle(radius=1), Square(type="box", side=2)], exclude_unset=True)
    assert written == b'[{"radius":1},{"type":"box","side":2}]'
