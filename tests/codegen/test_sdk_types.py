"""The examples of answers and events in openapi.json against the types of the vendors' SDKs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import anthropic.types
import openai.types
import openai.types.chat
import openai.types.responses
import pytest
from anthropic.types.shared import ErrorResponse
from pydantic import TypeAdapter

from codegen.document import Json, resolve
from generated import models
from tests.codegen.conftest import ROOT

DOCUMENT: Json = json.loads((ROOT / "openapi.json").read_text())
JSON, STREAM = "application/json", "text/event-stream"
RESPONSES_EVENTS = {
    get_args(event.model_fields["type"].annotation)[0]: event
    for event in get_args(get_args(openai.types.responses.ResponseStreamEvent)[0])
}


def examples(path: str, media_type: str, status: str = "200") -> Iterator[Json]:
    response = resolve(DOCUMENT, DOCUMENT["paths"][path]["post"]["responses"][status])
    media = response["content"][media_type]
    yield from [media["example"]] if "example" in media else []
    for example in media.get("examples", {}).values():
        yield example["value"]


def check(sdk_type: Any, value: Json) -> None:
    TypeAdapter(sdk_type).validate_json(json.dumps(value), strict=True)


def test_chat_answers_and_chunks() -> None:
    for answer in examples("/v1/chat/completions", JSON):
        check(openai.types.chat.ChatCompletion, answer)
    for chunk in examples("/v1/chat/completions", STREAM):
        # The SDK raises for a chunk with an error before it looks at the rest.
        if "error" not in chunk:
            check(openai.types.chat.ChatCompletionChunk, chunk)


def test_completions() -> None:
    for answer in examples("/v1/completions", JSON):
        check(openai.types.Completion, answer)
    for chunk in examples("/v1/completions", STREAM):
        # The SDK has one type for both, whose finish reason is never null.
        choice = {**chunk["choices"][0], "finish_reason": "stop"}
        check(openai.types.Completion, {**chunk, "choices": [choice]})


def test_messages_and_their_events() -> None:
    for answer in examples("/v1/messages", JSON):
        check(anthropic.types.Message, answer)
    for event in examples("/v1/messages", STREAM):
        # Two events without a type in the SDK: one is skipped, one raised.
        if event["type"] == "error":
            check(ErrorResponse, event)
        elif event["type"] != "ping":
            check(anthropic.types.RawMessageStreamEvent, event)


def test_token_counts() -> None:
    for answer in examples("/v1/messages/count_tokens", JSON):
        check(anthropic.types.MessageTokensCount, answer)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_errors_of_messages(path: str) -> None:
    # The SDK knows `request_too_large`, the type of a 413, by the status alone.
    statuses = set(DOCUMENT["paths"][path]["post"]["responses"]) - {"200", "413"}
    for status in statuses:
        for error in examples(path, JSON, status):
            check(ErrorResponse, error)


def test_responses_and_their_events() -> None:
    for answer in examples("/v1/responses", JSON):
        check(openai.types.responses.Response, answer)
    for event in examples("/v1/responses", STREAM):
        check(RESPONSES_EVENTS[event["type"]], event)


@pytest.mark.parametrize(
    ("path", "union"),
    [("/v1/messages", "MessageStreamEvent"), ("/v1/responses", "ResponseStreamEvent")],
)
def test_every_event_has_an_example(path: str, union: str) -> None:
    mapping = DOCUMENT["components"]["schemas"][union]["discriminator"]["mapping"]
    assert {event["type"] for event in examples(path, STREAM)} == set(mapping)


@pytest.mark.parametrize(
    ("path", "media_type", "model"),
    [
        ("/v1/chat/completions", JSON, models.ChatCompletion),
        ("/v1/chat/completions", STREAM, models.ChatCompletionChunk),
        ("/v1/completions", JSON, models.Completion),
        ("/v1/completions", STREAM, models.Completion),
        ("/v1/messages", JSON, models.Message),
        ("/v1/messages", STREAM, models.MessageStreamEvent),
        ("/v1/messages/count_tokens", JSON, models.TokenCount),
        ("/v1/responses", JSON, models.ResponseObject),
        ("/v1/responses", STREAM, models.ResponseStreamEvent),
    ],
)
def test_our_models_write_the_examples_as_they_are(path: str, media_type: str, model: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(model)
    for example in examples(path, media_type):
        value = adapter.validate_python(example)
        assert json.loads(adapter.dump_json(value, exclude_unset=True)) == example
