"""Bodies in the forms that clients send: all are taken, and nothing of use is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from codegen.document import Json
from generated.routes import OPERATIONS
from tests.codegen.conftest import ROOT

CASES: list[Json] = json.loads((ROOT / "tests/data/client_bodies.json").read_text())
MODELS = {operation.path: operation.request_model for operation in OPERATIONS}
UNLISTED = {"cache_control", "context_management", "display", "annotations"}


def without_unlisted(value: Any) -> Any:
    match value:
        case dict():
            return {k: without_unlisted(v) for k, v in value.items() if k not in UNLISTED}
        case list():
            return [without_unlisted(item) for item in value]
    return value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["client"])
def test_the_body_of_a_client_is_kept_whole(case: Json) -> None:
    model = MODELS[case["path"]]
    assert model is not None
    written = model.model_validate_json(json.dumps(case["body"])).model_dump(exclude_unset=True)
    expected = without_unlisted(case["body"])
    if case["path"] == "/v1/completions":
        expected.pop("stream_options", None)
    assert without_unlisted(written) == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["client"])
def test_the_body_of_a_client_fits_the_schema(case: Json, document: Json) -> None:
    media = document["paths"][case["path"]]["post"]["requestBody"]["content"]["application/json"]
    schema = {**media["schema"], "components": document["components"]}
    Draft202012Validator(schema).validate(case["body"])


def test_every_route_with_a_body_has_a_client() -> None:
    assert {case["path"] for case in CASES} == {path for path in MODELS if MODELS[path]}
