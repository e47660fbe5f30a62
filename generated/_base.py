# Generated from openapi.json by `python -m codegen`; do not edit.
"""Base class and value types of the generated models: JSON values as JSON Schema reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    Strict,
    StrictBool,
)
from pydantic_core import CoreSchema, PydanticCustomError, PydanticUseDefault, core_schema


class ApiModel(BaseModel):
    """A JSON object of the API; fields that its schema does not list are read past.

    `model_dump_json(exclude_unset=True)` writes what was set, null included, and nothing else.
    """

    model_config = ConfigDict(extra="ignore")


def _integral_float_to_int(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _refuse_true(value: bool) -> bool:
    if value:
        raise PydanticCustomError("only_false", "Input should be false")
    return value


def _refuse_all_but_null(value: object) -> object:
    if value is not None:
        raise PydanticCustomError("only_null", "Input should be null")
    return value


def _null_to_default(value: object) -> object:
    if value is None:
        raise PydanticUseDefault
    return value


StrictInt = Annotated[int, Strict(), BeforeValidator(_integral_float_to_int)]
"""JSON Schema's integer: 4 and 4.0, neither true nor "4"."""

StrictFloat = Annotated[float, Strict(), Field(allow_inf_nan=False)]
"""JSON Schema's number: neither true nor "4", and never infinite or NaN."""

OnlyFalse = Annotated[StrictBool, AfterValidator(_refuse_true)]
"""The boolean constant false; `Literal[False]` would let 0 pass."""

OnlyNull = Annotated[None, BeforeValidator(_refuse_all_but_null)]
"""Null and nothing else."""

NullIsDefault = BeforeValidator(_null_to_default)
"""Marks an optional field whose null means its default."""


def _json_type(value: object) -> str:
    """Name the JSON type of a value; the brackets keep it apart from field names in error paths."""
    match value:
        case str():
            return "<string>"
        case list():
            return "<array>"
        case dict() | BaseModel():
            return "<object>"
    return "<other>"


_JSON_TYPE_OF_SCHEMA = {
    "str": "<string>",
    "literal": "<string>",
    "list": "<array>",
    "dict": "<object>",
    "model": "<object>",
}


def _tag_union(union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """Let the JSON type of a value choose the member, so that a wrong value gives one error."""
    choices = {}
    for choice in union["choices"]:
        tag = _JSON_TYPE_OF_SCHEMA[handler.resolve_ref_schema(choice)["type"]]
        if tag in choices:
            raise TypeError(f"two members of a union are of the JSON type {tag}")
        choices[tag] = choice
    names = " or ".join(tag.strip("<>") for tag in choices)
    return core_schema.tagged_union_schema(
        choices,
        _json_type,
        custom_error_type="wrong_json_type",
        custom_error_message=f"Input should be of type {names}",
    )


class ByJsonType:
    """Marks a union whose members, null aside, are a string, an array or an object type each."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Turn the plain union that pydantic makes of the annotation into a tagged one."""
        schema: Any = handler(source)
        if schema["type"] == "nullable":
            return core_schema.nullable_schema(_tag_union(schema["schema"], handler))
        return _tag_union(schema, handler)


def _names_of_type(member: Any) -> tuple[list[str | None], str | None]:
    """Read from a model's schema which names its `type` may have, and the pattern of others."""
    field = member["schema"]["fields"]["type"]["schema"]
    names: list[str | None] = []
    while field["type"] in ("default", "nullable"):
        names += [None] if field["type"] == "nullable" else []
        field = field["schema"]
    return [*field.get("expected", ()), *names], field.get("pattern")


def _type_chooser(tags: Mapping[str | None, str], others: str | None) -> Callable[[Any], Any]:
    def choose(value: Any) -> str | None:
        if not isinstance(value, (dict, BaseModel)):
            return None
        name = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
        if not isinstance(name, str):
            return tags.get(None) if name is None else None
        fits = others is not None and re.search(others, name)
        return tags.get(name, "<other>" if fits else None)

    return choose


def _listed(names: Iterable[str | None]) -> str:
    *most, last = filter(None, names)
    return f"{', '.join(most)} or {last}" if most else last


def _tag_models(union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """Let the field `type` choose the member, so that a wrong value gives the errors of one."""
    tags: dict[str | None, str] = {}
    choices, others = {}, None
    for choice in union["choices"]:
        names, pattern = _names_of_type(handler.resolve_ref_schema(choice))
        tag = f"<{names[0]}>" if names else "<other>"
        if tag in choices or tags.keys() & names:
            raise TypeError(f"two members of a union have the type {tag}")
        tags |= dict.fromkeys(names, tag)
        choices[tag] = choice
        others = others or pattern
    wanted = "a type such as" if others else "the type"
    return core_schema.tagged_union_schema(
        choices,
        _type_chooser(tags, others),
        custom_error_type="wrong_type",
        custom_error_message=f"Input should be an object with {wanted} {_listed(tags)}",
    )


class ByTypeField:
    """Marks a union of models that are told apart by their field `type`.

    A member whose `type` may be null is taken where there is none, and a member whose `type` has a
    pattern for all names that fit it and no other member has.
    """

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Turn the plain union that pydantic makes of the annotation into a tagged one."""
        return _tag_models(handler(source), handler)


class FailFast:
    """Marks a list that is refused at its first wrong item: a body has room for millions.

    pydantic's own mark of this name is not hashable, which a member of a union has to be.
    """

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Set the flag in the list's schema."""
        schema: Any = handler(source)
        return {**schema, "fail_fast": True}


Item = TypeVar("Item")
JsonArray = Annotated[list[Item], FailFast]
"""A list of the API."""
