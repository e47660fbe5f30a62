"""What openapi.json itself has to hold."""

from __future__ import annotations

import re
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


def responses(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Every response with its path and status."""
    for operation in operations(document):
        node = document["paths"][operation.path][operation.method.lower()]
        for status, response in node["responses"].items():
            yield operation.path, status, resolve(document, response)


def posts(document: Json) -> dict[str, Json]:
    """The operations with a body, by path."""
    return {path: item["post"] for path, item in document["paths"].items() if "post" in item}


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
        "POST /v1/completions",
        "POST /v1/messages",
        "POST /v1/messages/count_tokens",
        "POST /v1/responses",
        "GET /metrics",
        "GET /openapi.json",
    }


def test_every_reference_resolves_and_every_component_is_used(document: Json) -> None:
    used = reached(document, document["paths"])
    # Security schemes are named without a reference.
    parts = [item for item in document["components"].items() if item[0] != "securitySchemes"]
    assert used == {f"#/components/{part}/{name}" for part, named in parts for name in named}


def test_schemas_are_flat(document: Json) -> None:
    assert not any("allOf" in node for node in nodes(document["components"]["schemas"]))


def test_optional_request_fields_are_nullable(document: Json) -> None:
    for post in posts(document).values():
        for reference in reached(document, post["requestBody"]):
            schema = resolve(document, {"$ref": reference})
            for name, field in schema.get("properties", {}).items():
                validator = Draft202012Validator({**field, "components": document["components"]})
                required = name in schema.get("required", ())
                assert validator.is_valid(None) == (not required), (reference, name)


def test_every_response_has_a_request_id_and_busy_ones_a_retry_after(document: Json) -> None:
    for path, status, response in responses(document):
        assert "X-Request-Id" in response["headers"]
        assert ("request-id" in response["headers"]) == path.startswith("/v1/messages")
        assert ("Retry-After" in response["headers"]) == (status in ("429", "503", "529"))
        assert ("x-should-retry" in response["headers"]) == (status == "529")
        assert ("Allow" in response["headers"]) == (status == "405")
        assert ("WWW-Authenticate" in response["headers"]) == (status == "401")
        assert ("Upgrade" in response["headers"]) == (status == "426")
        streams = "text/event-stream" in response.get("content", {})
        assert ("Cache-Control" in response["headers"]) == streams


def test_the_description_names_the_paths_that_take_keys(document: Json) -> None:
    sentences = document["info"]["description"].split(". ")
    named = re.findall(r"/[\w.]+", next(s for s in sentences if "started with keys" in s))
    assert named == ["/v1", "/metrics", "/openapi.json"]
    assert {op.path for op in operations(document) if op.needs_key} == {
        path for path in document["paths"] if path.startswith("/v1/") or path in named
    }


def test_keys_are_for_all_but_readiness_and_optional_unless_the_server_has_some(
    document: Json,
) -> None:
    for operation in operations(document):
        node = document["paths"][operation.path][operation.method.lower()]
        assert operation.needs_key == (
            operation.method != "HEAD" and operation.path not in ("/", "/health")
        )
        assert operation.needs_key == ("401" in node["responses"])
        keys = [{"bearer": []}, {"apiKey": []}, {}]
        assert node["security"] == (keys if operation.needs_key else [])


def test_errors_have_the_shape_of_their_path(document: Json) -> None:
    for path, status, response in responses(document):
        if int(status) >= 400 and "content" in response and status != "503":
            name = "AnthropicError" if path.startswith("/v1/messages") else "ErrorBody"
            assert references(response["content"]) == {f"#/components/schemas/{name}"}


OPENAI_STATUSES = "200 400 401 403 404 405 408 413 414 415 426 429 431 500 503"
GET_STATUSES = "200 400 401 403 405 414 426 431"


@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        ("/v1/chat/completions", OPENAI_STATUSES),
        ("/v1/completions", OPENAI_STATUSES),
        ("/v1/responses", OPENAI_STATUSES),
        ("/v1/messages", "200 400 401 403 405 408 413 414 415 426 429 431 500 529"),
        ("/v1/messages/count_tokens", "200 400 401 403 405 408 413 414 415 426 431 500 529"),
    ],
)
def test_statuses_of_the_routes(document: Json, path: str, statuses: str) -> None:
    assert " ".join(posts(document)[path]["responses"]) == statuses


@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        ("/v1/health", "200 400 401 403 405 414 426 431 503"),
        ("/health", "200 400 403 405 414 426 431 503"),
        ("/", "200 400 403 405 414 426 431 503"),
        ("/v1/models", GET_STATUSES),
        ("/v1/models/{model}", "200 400 401 403 404 405 414 426 431"),
        ("/metrics", GET_STATUSES),
        ("/openapi.json", GET_STATUSES),
    ],
)
def test_statuses_of_the_routes_without_a_body(document: Json, path: str, statuses: str) -> None:
    assert " ".join(document["paths"][path]["get"]["responses"]) == statuses


def test_every_body_has_an_example(document: Json) -> None:
    bodies = [(path, "request", post["requestBody"]) for path, post in posts(document).items()]
    bodies += responses(document)
    for path, status, body in bodies:
        for media_type, media in body.get("content", {}).items():
            assert media.get("example") or media.get("examples"), (path, status, media_type)


def test_unions_of_models_with_fixed_types_have_a_discriminator(document: Json) -> None:
    schemas = document["components"]["schemas"]
    unions = {name: schema for name, schema in schemas.items() if "oneOf" in schema}
    for name, union in unions.items():
        mapping: dict[str, str] = {}
        for member in union["oneOf"]:
            field = resolve(document, member).get("properties", {}).get("type", {})
            required = "type" in resolve(document, member).get("required", ())
            types = [field["const"]] if "const" in field else field.get("enum", [])
            mapping |= dict.fromkeys(types if required else [], member["$ref"])
        is_open = len(set(mapping.values())) < len(union["oneOf"])
        found = union.get("discriminator", {}).get("mapping", {})
        assert found == ({} if is_open else mapping), name
    assert len([union for union in unions.values() if "discriminator" in union]) >= 11


SAMPLING = {
    *("max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "seed"),
    *("stop", "stop_sequences", "repetition_penalty", "frequency_penalty", "presence_penalty", "n"),
}


@pytest.mark.parametrize("name", ["CompletionRequest", "MessagesRequest", "ResponsesRequest"])
def test_a_field_means_the_same_in_every_protocol(document: Json, name: str) -> None:
    schemas = document["components"]["schemas"]
    chat = schemas["ChatCompletionRequest"]["properties"]
    for field in SAMPLING:
        assert schemas[name]["properties"][field] == chat[field]


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
    assert checked >= 80


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
