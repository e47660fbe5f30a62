"""The generated models against the schemas they come from."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from codegen.document import Json
from codegen.models import model_view
from generated import models
from generated._base import ApiModel
from tests.codegen.conftest import ROOT

SCHEMAS: Json = json.loads((ROOT / "openapi.json").read_text())["components"]["schemas"]
VALID: dict[str, Json] = {
    "ChatCompletionRequest": {"messages": [{"role": "user"}]},
    "ChatMessage": {"role": "user"},
    "ChatTextPart": {"type": "text", "text": ""},
    "ChatToolCallParam": {},
    "ChatFunctionCallParam": {},
    "ChatTool": {},
    "FunctionName": {"name": "f"},
    "ChatNamedToolChoice": {},
    "StreamOptions": {},
    "ChatTemplateKwargs": {},
    "TextFormat": {"type": "text"},
}
FIELDS = [(name, field) for name in VALID for field in SCHEMAS[name]["properties"]]
NUMBERS = [
    0,
    1,
    -1,
    2,
    4,
    1.0,
    0.0,
    4.5,
    -2,
    2.5,
    1e-9,
    1e30,
    -(2**63),
    -(2**63) - 1,
    2**64 - 1,
    2**64,
]
WORDS = ["", "a", "text", "user", "auto", "function", "4", "true"]
PARTS = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text"}, {"name": "f"}]
CALLS = [{"function": {"name": "f", "arguments": "{}"}}, {"function": {"arguments": 5}}]
LEAVES: list[Any] = [None, True, False, *NUMBERS, *WORDS, *PARTS, *CALLS, *VALID.values()]
VALUES: list[Any] = [*LEAVES, [], *([leaf] for leaf in LEAVES)]


def is_valid(model: type[ApiModel], body: Json) -> bool:
    try:
        model.model_validate_json(json.dumps(body))
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_request_models_agree_with_json_schema(name: str, field: str) -> None:
    model: type[ApiModel] = getattr(models, name)
    validator = Draft202012Validator({**SCHEMAS[name], "components": {"schemas": SCHEMAS}})
    for value in VALUES:
        body = {**VALID[name], field: value}
        assert is_valid(model, body) == validator.is_valid(body), value


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_required_field_cannot_be_left_out(name: str, field: str) -> None:
    body = {key: value for key, value in VALID[name].items() if key != field}
    assert is_valid(getattr(models, name), body) == (field not in SCHEMAS[name].get("required", ()))


def test_no_schema_is_lost() -> None:
    assert [name for name in SCHEMAS if not hasattr(models, name)] == []


def test_no_field_is_lost() -> None:
    for name, schema in SCHEMAS.items():
        if "properties" in schema:
            assert list(getattr(models, name).model_fields) == list(schema["properties"]), name


def test_defaults_stand_for_null() -> None:
    fields = SCHEMAS["ChatCompletionRequest"]["properties"]
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    body = {"messages": [{"role": "user"}], **dict.fromkeys(defaults)}
    request = models.ChatCompletionRequest.model_validate_json(json.dumps(body))
    assert {name: getattr(request, name) for name in defaults} == defaults


def test_template_variables_are_kept() -> None:
    kwargs = models.ChatTemplateKwargs.model_validate_json('{"enable_thinking": true, "a": [1]}')
    assert (kwargs.enable_thinking, kwargs.model_extra) == (True, {"a": [1]})


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "messages"),
        ({"messages": "text"}, "messages"),
        ({"messages": [None]}, "messages[0]"),
        ({"messages": [{}]}, "messages[0].role"),
        ({"messages": [{"role": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
            "messages[0].content[0].text",
        ),
        ({"messages": [{"role": "user"}], "n": 2}, "n"),
        ({"messages": [{"role": "user"}], "logprobs": True}, "logprobs"),
        ({"messages": [{"role": "user"}], "stop": [""]}, "stop[0]"),
    ],
)
def test_the_first_error_leads_to_the_field(body: Json, path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        models.ChatCompletionRequest.model_validate_json(json.dumps(body))
    assert json_path(caught.value.errors()[0]["loc"]) == path


def json_path(location: tuple[int | str, ...]) -> str:
    steps = [step for step in location if not re.fullmatch("<.*>", str(step))]
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps).lstrip(".")


def test_absent_and_null_fields_of_an_answer_are_told_apart() -> None:
    answer = models.ChatAnswer(role="assistant", content=None)
    assert answer.model_dump_json(exclude_unset=True) == '{"role":"assistant","content":null}'
    answer.reasoning_content = "hm"
    assert answer.model_dump(exclude_unset=True)["reasoning_content"] == "hm"


def view(schema: Json) -> Any:
    document = {"openapi": "3.1.1", "info": {}, "components": {"schemas": {"X": schema}}}
    return model_view(document)["components"]["schemas"]["X"]


def test_a_constant_number_becomes_bounds() -> None:
    assert view({"type": "integer", "const": 0}) == {"type": "integer", "minimum": 0, "maximum": 0}


def test_a_constant_that_has_no_exact_model_is_refused() -> None:
    with pytest.raises(ValueError, match="no exact model for the constant True"):
        view({"type": "object", "properties": {"a": {"anyOf": [{"const": True}]}}})


def test_null_goes_where_a_default_stands_and_stays_elsewhere() -> None:
    assert view({"type": ["number", "null"], "default": 0.0})["type"] == "number"
    assert view({"type": ["number", "null"]})["type"] == ["number", "null"]
