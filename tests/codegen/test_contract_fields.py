"""The names that openapi.json has to have, by a table: `data/contract_fields.json`.

A star marks what is required, a dot leads into an object. Requests have these fields and no
others; answers may have more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from codegen.document import Json, resolve
from tests.codegen.conftest import ROOT

TABLE: dict[str, dict[str, list[str]]] = json.loads(
    (ROOT / "tests/data/contract_fields.json").read_text()
)


def objects(document: Json, schema: Json) -> Iterator[Json]:
    """The object schemas that a schema lets pass."""
    schema = resolve(document, schema)
    members = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    for member in members:
        yield from objects(document, member)
    if "properties" in schema:
        yield schema


def names(document: Json, schema: Json, prefix: str = "", depth: int = 2) -> set[str]:
    """The fields of a schema and of the objects in them, starred where always required."""
    found: set[str] = set()
    required = [set(each.get("required", ())) for each in objects(document, schema)]
    for each in objects(document, schema):
        for name, field in each["properties"].items():
            star = "*" if all(name in fields for fields in required) and not prefix else ""
            found.add(f"{prefix}{name}{star}")
            if depth > 1:
                found |= names(document, field, f"{prefix}{name}.", depth - 1)
    return found


def body(document: Json, route: str) -> Json:
    method, path = route.split()
    operation = document["paths"][path][method.lower()]
    schema: Json = operation["requestBody"]["content"]["application/json"]["schema"]
    return schema


def missing(document: Json) -> list[str]:
    """What the table has and the document lacks."""
    lines = []
    schemas = document["components"]["schemas"]
    rows = [(route, body(document, route), fields) for route, fields in TABLE["requests"].items()]
    rows += [(name, schemas.get(name, {}), fields) for name, fields in TABLE["schemas"].items()]
    for place, schema, fields in rows:
        found = names(document, schema)
        # Answers may promise more than the table asks for.
        lines += [f"{place}: {field}" for field in fields if not found & {field, f"{field}*"}]
    return lines


def test_every_field_is_there_under_its_name(document: Json) -> None:
    assert missing(document) == []


@pytest.mark.parametrize("route", TABLE["requests"])
def test_requests_have_no_other_fields(document: Json, route: str) -> None:
    found = names(document, body(document, route), depth=1)
    assert found == {field for field in TABLE["requests"][route] if "." not in field}


def test_every_route_and_status_is_there(document: Json) -> None:
    for route, statuses in TABLE["routes"].items():
        method, path = route.split()
        assert set(statuses) <= document["paths"][path][method.lower()]["responses"].keys(), route
    assert len(TABLE["routes"]) == sum(len(item) for item in document["paths"].values())


def rename(fields: dict[str, Any], name: str) -> None:
    fields[name + "_"] = fields.pop(name)


@pytest.mark.parametrize(
    ("schema", "field", "line"),
    [
        ("ChatTimings", "queue_ms", "ChatTimings: queue_ms*"),
        ("ChatCompletionRequest", "merge", "POST /v1/chat/completions: merge"),
        (
            "StreamOptions",
            "include_usage",
            "POST /v1/chat/completions: stream_options.include_usage",
        ),
        ("OutputFunctionCall", "arguments", "ResponseItem: arguments"),
    ],
)
def test_a_renamed_field_is_missed(document: Json, schema: str, field: str, line: str) -> None:
    changed = deepcopy(document)
    rename(changed["components"]["schemas"][schema]["properties"], field)
    assert missing(changed) == [line]


def test_a_field_that_is_not_required_any_more_is_missed(document: Json) -> None:
    changed = deepcopy(document)
    changed["components"]["schemas"]["Health"]["required"].remove("status")
    assert missing(changed) == ["Health: status*"]
