"""The generated models against the schemas they come from."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from codegen.document import Json
from codegen.models import model_view
from generated import models
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
    "CompletionRequest": {"prompt": "a"},
    "MessagesRequest": {"messages": [{"role": "user", "content": ""}]},
    "CountTokensRequest": {"messages": [{"role": "user", "content": ""}]},
    "MessageParam": {"role": "user", "content": ""},
    "TextBlockParam": {"type": "text", "text": ""},
    "ThinkingBlockParam": {"type": "thinking", "thinking": ""},
    "RedactedThinkingBlockParam": {"type": "redacted_thinking"},
    "ToolUseBlockParam": {"type": "tool_use", "id": "1", "name": "f", "input": {}},
    "ToolResultBlockParam": {"type": "tool_result", "tool_use_id": "1"},
    "ToolReferenceBlockParam": {"type": "tool_reference", "tool_name": "f"},
    "OtherResultBlockParam": {"type": "image"},
    "ServerToolBlockParam": {"type": "web_search_tool_result"},
    "MessagesTool": {},
    "MessagesToolChoiceMode": {"type": "any"},
    "MessagesNamedToolChoice": {"type": "tool", "name": "f"},
    "ThinkingOptions": {"type": "adaptive"},
    "OutputConfig": {},
    "ResponsesRequest": {"input": ""},
    "InputTextPart": {"type": "input_text", "text": ""},
    "InputRefusalPart": {"type": "refusal", "refusal": ""},
    "InputMessage": {"role": "user", "content": ""},
    "InputFunctionCall": {"type": "function_call", "call_id": "", "name": "", "arguments": ""},
    "InputFunctionCallOutput": {"type": "function_call_output", "call_id": "", "output": ""},
    "InputCustomToolCall": {"type": "custom_tool_call", "call_id": "", "name": "", "input": ""},
    "InputCustomToolCallOutput": {"type": "custom_tool_call_output", "call_id": "", "output": ""},
    "LocalShellAction": {"command": []},
    "InputLocalShellCall": {"type": "local_shell_call", "action": {"command": ["ls"]}},
    "InputLocalShellCallOutput": {"type": "local_shell_call_output", "output": ""},
    "SummaryPart": {"type": "summary_text", "text": ""},
    "ThoughtPart": {"type": "reasoning_text", "text": ""},
    "InputReasoning": {"type": "reasoning"},
    "InputItemReference": {"type": "item_reference", "id": "1"},
    "InputOtherItem": {"type": "web_search_call"},
    "ResponsesTool": {},
    "ResponsesNamedToolChoice": {},
    "ReasoningOptions": {},
    "TextOptions": {},
}
REQUESTS = [name for name in VALID if name.endswith("Request")]
UNIONS = [name for name, schema in SCHEMAS.items() if "oneOf" in schema]
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
WORDS = ["", "a", "text", "user", "auto", "function", "4", "true", "tool_result", "logprobs"]
PARTS = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text"}, {"name": "f"}]
CALLS = [{"function": {"name": "f", "arguments": "{}"}}, {"function": {"arguments": 5}}]
LEAVES: list[Any] = [None, True, False, *NUMBERS, *WORDS, *PARTS, *CALLS, *VALID.values()]
VALUES: list[Any] = [*LEAVES, [], *([leaf] for leaf in LEAVES)]


def is_valid(model: TypeAdapter[Any], body: Json) -> bool:
    try:
        model.validate_json(json.dumps(body))
    except ValidationError:
        return False
    return True


def test_every_schema_of_a_request_is_checked() -> None:
    found: set[str] = set()
    todo = set(REQUESTS)
    while todo:
        found |= todo
        text = json.dumps([SCHEMAS[name] for name in todo])
        todo = set(re.findall('"#/components/schemas/([^"]*)"}', text)) - found
    assert {name for name in found if "properties" in SCHEMAS[name]} == VALID.keys()


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_request_models_agree_with_json_schema(name: str, field: str) -> None:
    model: TypeAdapter[Any] = TypeAdapter(getattr(models, name))
    validator = Draft202012Validator({**SCHEMAS[name], "components": {"schemas": SCHEMAS}})
    for value in VALUES:
        body = {**VALID[name], field: value}
        assert is_valid(model, body) == validator.is_valid(body), value


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_required_field_cannot_be_left_out(name: str, field: str) -> None:
    body = {key: value for key, value in VALID[name].items() if key != field}
    model: TypeAdapter[Any] = TypeAdapter(getattr(models, name))
    assert is_valid(model, body) == (field not in SCHEMAS[name].get("required", ()))


@pytest.mark.parametrize("name", UNIONS)
def test_unions_agree_with_json_schema(name: str) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(getattr(models, name))
    validator = Draft202012Validator({**SCHEMAS[name], "components": {"schemas": SCHEMAS}})
    for value in [*VALUES, *({"type": value, "text": ""} for value in VALUES)]:
        assert is_valid(adapter, value) == validator.is_valid(value), value


def test_no_schema_is_lost() -> None:
    assert [name for name in SCHEMAS if not hasattr(models, name)] == []


def test_no_field_is_lost() -> None:
    for name, schema in SCHEMAS.items():
        if "properties" in schema:
            assert list(getattr(models, name).model_fields) == list(schema["properties"]), name


@pytest.mark.parametrize("schema", REQUESTS)
def test_defaults_stand_for_null(schema: str) -> None:
    fields = SCHEMAS[schema]["properties"]
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    body = {**VALID[schema], **dict.fromkeys(defaults)}
    request = getattr(models, schema).model_validate_json(json.dumps(body))
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


@pytest.mark.parametrize(
    ("name", "field", "value", "path"),
    [
        ("CompletionRequest", "prompt", [], "prompt"),
        ("CompletionRequest", "prompt", ["a", "b"], "prompt"),
        ("CompletionRequest", "prompt", [1], "prompt[0]"),
        ("CompletionRequest", "logprobs", 0, "logprobs"),
        ("MessagesRequest", "output_config", {"format": {"type": "json"}}, "output_config.format"),
        ("MessagesRequest", "messages", [{"role": "user"}], "messages[0].content"),
        ("MessagesRequest", "tool_choice", {"type": "tool"}, "tool_choice.name"),
        ("MessagesRequest", "tool_choice", "auto", "tool_choice"),
        ("MessagesRequest", "system", [{"type": "text"}], "system[0].text"),
        ("MessagesRequest", "thinking", {}, "thinking.type"),
        ("ResponsesRequest", "input", 5, "input"),
        ("ResponsesRequest", "input", [], "input"),
        ("ResponsesRequest", "input", ["Hi"], "input[0]"),
        ("ResponsesRequest", "input", [{"content": ""}], "input[0].role"),
        ("ResponsesRequest", "input", [{"type": "function_call"}], "input[0].call_id"),
        ("ResponsesRequest", "input", [{"type": "input_image"}], "input[0]"),
        ("ResponsesRequest", "include", ["x", "a.logprobs"], "include[1]"),
        ("ResponsesRequest", "text", {"format": {"type": "json_object"}}, "text.format.type"),
        ("ResponsesRequest", "tool_choice", "any", "tool_choice"),
    ],
)
def test_the_first_error_of_every_protocol_leads_to_the_field(
    name: str, field: str, value: object, path: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        getattr(models, name).model_validate_json(json.dumps({**VALID[name], field: value}))
    assert json_path(caught.value.errors()[0]["loc"]) == path


BLOCK_SENTENCE = (
    "Input should be an object with a type such as "
    "text, thinking, redacted_thinking, tool_use or tool_result"
)


@pytest.mark.parametrize("block", [{"type": "image"}, {"type": "document"}, {"text": "a"}, "a", 5])
def test_a_block_that_no_message_may_hold_gives_one_error(block: object) -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}, block]}]}
    with pytest.raises(ValidationError) as caught:
        models.MessagesRequest.model_validate_json(json.dumps(body))
    (error,) = caught.value.errors()
    assert json_path(error["loc"]) == "messages[0].content[1]"
    assert error["msg"] == BLOCK_SENTENCE


def json_path(location: tuple[int | str, ...]) -> str:
    steps = [step for step in location if not re.fullmatch("<.*>", str(step))]
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps).lstrip(".")


def test_absent_and_null_fields_of_an_answer_are_told_apart() -> None:
    answer = models.ChatAnswer(role="assistant", content=None)
    assert answer.model_dump_json(exclude_unset=True) == '{"role":"assistant","content":null}'
    answer.reasoning_content = "hm"
    assert answer.model_dump(exclude_unset=True)["reasoning_content"] == "hm"


def test_what_an_open_object_holds_is_kept() -> None:
    body = {"type": "web_search_call", "action": {"query": "x"}}
    item = TypeAdapter(models.InputItem).validate_json(json.dumps(body))
    assert isinstance(item, models.InputOtherItem)
    assert item.model_dump(exclude_unset=True) == body


def view(schema: Json) -> Any:
    document = {"openapi": "3.1.1", "info": {}, "components": {"schemas": {"X": schema}}}
    return model_view(document)["components"]["schemas"]["X"]


def test_a_constant_number_becomes_bounds() -> None:
    assert view({"type": "integer", "const": 0}) == {"type": "integer", "minimum": 0, "maximum": 0}


def test_a_constant_that_has_no_exact_model_is_refused() -> None:
    with pytest.raises(ValueError, match="no exact model for the constant True"):
        view({"type": "object", "properties": {"a": {"anyOf": [{"const": True}]}}})


def test_a_union_by_type_needs_no_discriminator() -> None:
    members = [{"$ref": "#/A"}, {"$ref": "#/B"}]
    schema = {"oneOf": members, "discriminator": {"propertyName": "type"}}
    assert view(schema) == {"anyOf": members}


def test_a_field_that_is_always_null_gets_a_type_of_its_own() -> None:
    field = {"type": "null"}
    changed = view({"type": "object", "properties": {"a": field}})["properties"]["a"]
    assert changed == {"type": "null", "customTypePath": "generated._base.OnlyNull"}
    assert view({"anyOf": [field]}) == {"anyOf": [field]}


def test_null_goes_where_a_default_stands_and_stays_elsewhere() -> None:
    assert view({"type": ["number", "null"], "default": 0.0})["type"] == "number"
    assert view({"type": ["number", "null"]})["type"] == ["number", "null"]


def test_a_union_in_a_union_is_one_union(document: Json) -> None:
    view = model_view(document)["components"]["schemas"]
    names = [member["$ref"].rpartition("/")[2] for member in view["InputItem"]["anyOf"]]
    assert names[:2] == ["InputMessage", "InputFunctionCall"]
    assert names[-2:] == ["InputItemReference", "InputOtherItem"]
    assert len(names) == 10
