"""What openapi.json itself has to hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from codegen.document import Json, operations, resolve


def nodes(value: Any) -> Iterator[Json]:
    """Every object inside a JSON value, itself included."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from nodes(inner)


def references(value: Any) -> set[str]:
    return {node["$ref"] for node in nodes(value) if isinstance(node.get("$ref"), str)}


def reached(document: Json, start: Any) -> set[str]:
    """All references that lead on from a part of the document."""
    found: set[str] = set()
    todo = references(start)
    while todo:
        reference = todo.pop()
        found.add(reference)
        todo |= references(resolve(document, {"$ref": reference})) - found
    return found


def responses(document: Json) -> Iterator[tuple[str, Json]]:
    """Every response with its status."""
    for operation in operations(document):
        node = document["paths"][operation.path][operation.method.lower()]
        for status, response in node["responses"].items():
            yield status, resolve(document, response)


def test_document_is_valid_openapi_3_1(document: Json) -> None:
    assert document["openapi"].startswith("3.1.")
    OpenAPIV31SpecValidator(document).validate()


def test_routes(document: Json) -> None:
    assert {f"{op.method} {op.path}" for op in operations(document)} == {
        "GET /v1/health",
        "HEAD /v1/health",
        "GET /health",
        "GET /",
        "GET /v1/models",
        "GET /v1/models/{model}",
        "POST /v1/chat/completions",
        "GET /openapi.json",
    }


def test_every_reference_resolves_and_every_component_is_used(document: Json) -> None:
    used = reached(document, document["paths"])
    parts = document["components"].items()
    assert used == {f"#/components/{part}/{name}" for part, named in parts for name in named}


def test_schemas_are_flat(document: Json) -> None:
    assert not any("allOf" in node for node in nodes(document["components"]["schemas"]))


def test_optional_request_fields_are_nullable(document: Json) -> None:
    body = document["paths"]["/v1/chat/completions"]["post"]["requestBody"]
    for reference in reached(document, body):
        schema = resolve(document, {"$ref": reference})
        for name, field in schema.get("properties", {}).items():
            validator = Draft202012Validator({**field, "components": document["components"]})
            assert validator.is_valid(None) == (name not in schema.get("required", ())), name


def test_every_response_has_a_request_id_and_busy_ones_a_retry_after(document: Json) -> None:
    for status, response in responses(document):
        assert "X-Request-Id" in response["headers"]
        assert ("Retry-After" in response["headers"]) == (status in ("429", "503"))
        assert ("Allow" in response["headers"]) == (status == "405")


def test_statuses_of_the_chat_route(document: Json) -> None:
    found = document["paths"]["/v1/chat/completions"]["post"]["responses"]
    assert " ".join(found) == "200 400 403 404 405 413 415 429 500 503"


def test_examples_fit_their_schemas(document: Json) -> None:
    checked = 0
    for node in nodes(document):
        if not isinstance(node.get("schema"), dict):
            continue
        schema = {**node["schema"], "components": document["components"]}
        values = [node["example"]] if "example" in node else []
        values += [example["value"] for example in node.get("examples", {}).values()]
        for value in values:
            Draft202012Validator(schema).validate(value)
            checked += 1
    assert checked >= 17


def test_examples_speak_of_one_model(document: Json) -> None:
    model = document["info"]["x-mashbox-model"]
    for node in nodes(document["paths"]):
        if isinstance(node.get("model"), str) and not node["model"].startswith("$"):
            assert node["model"] == model


CHUNK = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
}
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
TIMINGS = {
    **dict.fromkeys(("prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "cache_n"), 1),
    **{"queue_ms": 0.5, "prompt_per_second": None, "predicted_per_second": None},
}
FAULT = {"message": "m", "type": "server_error", "code": None, "request_id": "chatcmpl-1"}


@pytest.mark.parametrize(
    "chunk",
    [
        {**CHUNK, "usage": USAGE, "timings": TIMINGS},
        {**CHUNK, "choices": [], "usage": USAGE, "timings": TIMINGS},
        {
            **CHUNK,
            "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}],
            "error": FAULT,
        },
    ],
)
def test_finish_usage_and_error_chunks_are_valid(document: Json, chunk: Json) -> None:
    schema = document["components"]["schemas"]["ChatCompletionChunk"]
    Draft202012Validator({**schema, "components": document["components"]}).validate(chunk)
