from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from codegen.compat import breaking_changes, main
from codegen.document import Json
from tests.codegen.conftest import ROOT

RELEASED = max((ROOT / "contract/released").glob("openapi-*.json"))
Change = Callable[[Json], object]

THING: Json = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 9},
        "size": {"type": ["integer", "null"], "minimum": 0, "maximum": 4, "default": 1},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "code": {"type": "string", "pattern": "^x"},
        "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "extra": {"type": "object", "additionalProperties": True},
        "part": {"$ref": "#/components/schemas/Part"},
        "text": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}
DOCUMENT: Json = {
    "paths": {
        "/things": {
            "post": {
                "operationId": "make",
                "security": [{"key": []}, {}],
                "parameters": [{"name": "tag", "in": "header", "schema": {"type": "string"}}],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/In"}}
                    },
                },
                "responses": {
                    "200": {
                        "headers": {"X-Id": {"required": True, "schema": {"type": "string"}}},
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/Out"}}
                        },
                    },
                    "400": {},
                },
            }
        }
    },
    "components": {
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "x-key"}},
        "schemas": {
            "In": THING,
            "Out": THING,
            "Part": {
                "oneOf": [
                    {"$ref": "#/components/schemas/Red"},
                    {"$ref": "#/components/schemas/Blue"},
                ]
            },
            "Red": {"type": "object", "properties": {"type": {"const": "red"}}},
            "Blue": {"type": "object", "properties": {"type": {"const": "blue"}}},
            "Green": {"type": "object", "properties": {"type": {"const": "green"}}},
        },
    },
}
POST = "POST /things"


def changes(change: Change) -> list[str]:
    # Not deepcopy: that would keep one object for the schemas In and Out.
    new = json.loads(json.dumps(DOCUMENT))
    change(new)
    return breaking_changes(DOCUMENT, new)


@pytest.mark.parametrize(
    "rule",
    [
        {"format": "uuid"},
        {"multipleOf": 2},
        {"uniqueItems": True},
        {"not": {"const": "a"}},
        {"allOf": [{"minLength": 3}]},
        {"dependentRequired": {"name": ["size"]}},
        {"maxProperties": 2},
    ],
    ids=lambda rule: next(iter(rule)),
)
def test_another_rule_narrows_requests_and_without_it_answers_widen(rule: Json) -> None:
    ruled = json.loads(json.dumps(DOCUMENT))
    for name in ("In", "Out"):
        ruled["components"]["schemas"][name]["properties"]["name"].update(rule)
    ((narrower,), (wider,)) = (breaking_changes(*p) for p in [(DOCUMENT, ruled), (ruled, DOCUMENT)])
    assert narrower.startswith("request In.name: the ")
    assert wider.startswith("response Out.name: the ")


def test_a_body_of_any_value_takes_all_that_was_taken() -> None:
    def content(document: Json) -> Any:
        return post(document)["requestBody"]["content"]["application/json"]

    assert changes(lambda d: content(d).clear()) == []


def post(document: Json) -> Any:
    return document["paths"]["/things"]["post"]


def field(document: Json, schema: str, name: str) -> Any:
    return document["components"]["schemas"][schema]["properties"][name]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda d: d["paths"].clear(), f"{POST}: is gone"),
        (lambda d: d["paths"]["/things"].clear(), f"{POST}: is gone"),
        (lambda d: post(d).update(operationId="do"), f"{POST}: the operationId make is now do"),
        (
            lambda d: post(d)["security"].pop(),
            f"{POST}: does not take calls without a key any more",
        ),
        (lambda d: post(d)["security"].pop(0), None),
        (lambda d: post(d)["parameters"].pop(), f"{POST} header tag: is gone"),
        (
            lambda d: post(d)["parameters"][0].update(required=True),
            f"{POST} header tag: is now required",
        ),
        (lambda d: post(d)["parameters"].append({"name": "n", "in": "query", "schema": {}}), None),
        (lambda d: post(d)["requestBody"].update(required=False), None),
        (
            lambda d: post(d)["requestBody"]["content"].clear(),
            f"{POST} body application/json: is gone",
        ),
        (lambda d: post(d)["responses"].pop("400"), f"{POST} 400: is gone"),
        (lambda d: post(d)["responses"].update({"429": {}}), None),
        (
            lambda d: d["paths"]["/things"].update(
                parameters=[{"name": "n", "in": "query", "required": True, "schema": {}}]
            ),
            f"{POST} query n: is now required",
        ),
        (
            lambda d: d["components"]["securitySchemes"].clear(),
            "security scheme key: is gone",
        ),
        (
            lambda d: d["components"]["securitySchemes"]["key"].update(name="x-other"),
            "security scheme key: the name 'x-key' is now 'x-other'",
        ),
        (
            lambda d: d["components"]["securitySchemes"]["key"].update(description="Another."),
            None,
        ),
        (
            lambda d: post(d)["responses"]["200"]["content"].clear(),
            f"{POST} 200 application/json: is gone",
        ),
        (
            lambda d: post(d)["responses"]["200"]["headers"].clear(),
            f"{POST} 200 header X-Id: is gone",
        ),
        (
            lambda d: post(d)["responses"]["200"]["headers"]["X-Id"].update(required=False),
            f"{POST} 200 header X-Id: may now be missing",
        ),
    ],
)
def test_operations(change: Change, line: str | None) -> None:
    assert changes(change) == ([line] if line else [])


def test_a_body_that_becomes_required_and_a_key_that_is_asked_for_now() -> None:
    old, new = deepcopy(DOCUMENT), deepcopy(DOCUMENT)
    post(old)["requestBody"]["required"] = False
    post(old)["security"], post(new)["security"] = [], [{"key": []}]
    assert breaking_changes(old, new) == [
        f"{POST}: now needs a key",
        f"{POST} body: is now required",
    ]


WORDS = {"In": "request In", "Out": "response Out"}
RULES: list[tuple[str, Json, str | None, str | None]] = [
    # Field, its new schema, the line where it stands in a request, and in a response.
    ("size", {"minimum": 1}, "the lower bound 0 is now 1", None),
    ("size", {"minimum": -1}, None, "the lower bound 0 is now -1"),
    ("size", {"maximum": 3}, "the upper bound 4 is now 3", None),
    ("size", {"maximum": 5}, None, "the upper bound 4 is now 5"),
    ("size", {"default": 2}, "the default 1 is now 2", None),
    ("size", {"type": "integer"}, "does not take null any more", None),
    ("size", {"type": ["number", "null"]}, None, "can now be number"),
    ("name", {"type": ["string", "null"]}, None, "can now be null"),
    ("name", {"minLength": 2}, "the lower bound 1 is now 2", None),
    ("name", {"maxLength": 10}, None, "the upper bound 9 is now 10"),
    ("name", {"type": "integer"}, "does not take string any more", "can now be integer"),
    (
        "share",
        {"exclusiveMinimum": 0.1},
        "the lower bound 0 (exclusive) is now 0.1 (exclusive)",
        None,
    ),
    ("kind", {"enum": ["a"]}, "does not take 'b'", None),
    ("kind", {"enum": ["a", "b", "c"]}, None, "can now be 'c'"),
    ("code", {"pattern": "^y"}, "the pattern '^x' is now '^y'", "the pattern '^x' is now '^y'"),
    ("tags", {"maxItems": 2}, "the upper bound 3 is now 2", None),
    ("text", {"anyOf": [{"type": "string"}]}, "does not take null any more", None),
    ("extra", {"description": "Other words."}, None, None),
]


@pytest.mark.parametrize("schema", WORDS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule[0]}-{rule[1]}")
def test_values(schema: str, rule: tuple[str, Json, str | None, str | None]) -> None:
    name, update, in_request, in_response = rule
    line = in_request if schema == "In" else in_response
    found = changes(lambda d: field(d, schema, name).update(update))
    assert found == ([f"{WORDS[schema]}.{name}: {line}"] if line else [])


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (lambda d: field(d, "In", "size").pop("maximum"), []),
        (
            lambda d: field(d, "Out", "size").pop("maximum"),
            ["response Out.size: the upper bound 4 is now (none)"],
        ),
        (lambda d: field(d, "In", "kind").pop("enum"), []),
        (
            lambda d: field(d, "Out", "kind").pop("enum"),
            ["response Out.kind: can now be other values than the listed ones"],
        ),
        (
            lambda d: d["components"]["schemas"]["In"]["required"].append("kind"),
            ["request In.kind: is now required"],
        ),
        (lambda d: d["components"]["schemas"]["Out"]["required"].append("kind"), []),
        (lambda d: d["components"]["schemas"]["In"]["required"].clear(), []),
        (
            lambda d: d["components"]["schemas"]["Out"]["required"].clear(),
            ["response Out.name: may now be missing"],
        ),
        (
            lambda d: d["components"]["schemas"]["In"]["properties"].pop("tags"),
            ["request In.tags: is gone"],
        ),
        (
            lambda d: d["components"]["schemas"]["Out"]["properties"].pop("name"),
            ["response Out.name: is gone"],
        ),
        (lambda d: d["components"]["schemas"]["Out"]["properties"].update(new={}), []),
        (
            lambda d: field(d, "In", "tags")["items"].update(type="integer"),
            ["request In.tags[]: does not take string any more"],
        ),
        (
            lambda d: field(d, "In", "extra").update(additionalProperties=False),
            ["request In.extra.*: does not take other values than the listed ones"],
        ),
        (
            lambda d: d["components"]["schemas"]["Part"]["oneOf"].pop(),
            ["request Part: does not take object blue any more"],
        ),
        (
            lambda d: d["components"]["schemas"]["Part"]["oneOf"].append(
                {"$ref": "#/components/schemas/Green"}
            ),
            ["response Part: can now be object green"],
        ),
    ],
)
def test_fields_and_unions(change: Change, lines: list[str]) -> None:
    assert changes(change) == lines


def test_schemas_that_hold_themselves_come_to_an_end() -> None:
    document = deepcopy(DOCUMENT)
    red = document["components"]["schemas"]["Red"]
    red["properties"]["inner"] = {"$ref": "#/components/schemas/Red"}
    assert breaking_changes(document, document) == []


def test_the_command_prints_the_changes_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = deepcopy(DOCUMENT)
    post(new)["responses"].pop("400")
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, document in zip(paths, (DOCUMENT, new), strict=True):
        path.write_text(json.dumps(document))
    assert main([str(path) for path in paths]) == 1
    assert capsys.readouterr().out == f"{POST} 400: is gone\n"
    assert main([str(paths[0])] * 2) == 0
    assert capsys.readouterr().out == "No breaking changes.\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: [Errno 2] No such file"),
        (b"", "cannot be read: Expecting value"),
        (b"\x1f\x8b", "cannot be read: 'utf-8' codec"),
        (b"[]", "is no OpenAPI document with paths. Save"),
        (b'{"error": {}}', "is no OpenAPI document with paths. Save"),
    ],
)
def test_a_file_of_no_use_does_not_look_like_a_breaking_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    path = tmp_path / "new.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit) as caught:
        main([str(RELEASED), str(path)])
    assert caught.value.code == 2
    assert f"argument new: {path} {said}" in capsys.readouterr().err


def test_the_document_breaks_nothing_that_was_released(document: Json) -> None:
    assert breaking_changes(json.loads(RELEASED.read_text(encoding="utf-8")), document) == []


def test_a_change_of_the_document_itself_is_found(document: Json) -> None:
    new = deepcopy(document)
    field(new, "ChatCompletionRequest", "temperature")["maximum"] = 2
    assert breaking_changes(document, new) == [
        "request ChatCompletionRequest.temperature: the upper bound 4 is now 2"
    ]
