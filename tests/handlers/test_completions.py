"""Completions: reading bodies, chunks and the whole answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from openai.types import Completion

from engine.events import Event, Finished, FinishReason, PartDelta
from engine.request import GenerationRequest, TextPrompt
from generated.models import CompletionRequest
from handlers.body import parse_body
from handlers.completions import CompletionEncoder, read_completion_request
from handlers.errors import ApiError, internal_error
from handlers.sse import DONE
from tests.handlers.event_streams import event_streams
from tests.handlers.schemas import schema


def read(**fields: object) -> GenerationRequest:
    body = parse_body(CompletionRequest, json.dumps({"prompt": "One two"} | fields).encode())
    assert isinstance(body, CompletionRequest)
    return read_completion_request(body, "cmpl-1", "served")


@pytest.mark.parametrize("prompt", ["One <|im_end|> two", ["One <|im_end|> two"]])
def test_a_prompt_is_a_string_or_a_list_of_one(prompt: object) -> None:
    request = read(prompt=prompt, stream_options={"include_usage": True})
    assert request.prompt == TextPrompt("One <|im_end|> two")
    assert (request.id, request.prompt_field) == ("cmpl-1", "prompt")


@pytest.mark.parametrize("prompt", [None, "", [], [""], ["a", "b"], [1, 2], [["a"]], 7, {"a": 1}])
def test_other_prompts_are_refused_by_name(prompt: object) -> None:
    with pytest.raises(ApiError) as refusal:
        read(prompt=prompt)
    assert refusal.value.status == 400
    assert (refusal.value.param or "").startswith("prompt")


@pytest.mark.parametrize("fields", [{"logprobs": 1}, {"logprobs": 0}, {"n": 2}])
def test_what_is_not_offered_is_refused_by_name(fields: dict[str, object]) -> None:
    with pytest.raises(ApiError) as refusal:
        read(**fields)
    assert (refusal.value.status, refusal.value.param) == (400, next(iter(fields)))


def test_null_fields_read_like_absent_ones() -> None:
    optional = set(CompletionRequest.model_fields) - {"prompt", "seed"}
    assert read(**dict.fromkeys(optional), seed=1) == read(seed=1)


def test_max_completion_tokens_wins() -> None:
    assert read(max_tokens=3).sampling.max_tokens == 3
    assert read(max_tokens=3, max_completion_tokens=5).sampling.max_tokens == 5


def test_another_model_is_refused() -> None:
    with pytest.raises(ApiError) as refusal:
        read(model="other")
    assert refusal.value.code == "model_not_found"
    assert read(model="served")


def encoder() -> CompletionEncoder:
    return CompletionEncoder("cmpl-1", "served", seed=7)


def encode(events: list[Event], encoder: CompletionEncoder) -> list[Any]:
    """Run a whole stream; gives its chunks, each checked against the contract and the SDK."""
    wire = encoder.start() + [chunk for event in events for chunk in encoder.feed(event)]
    assert wire.pop() == DONE
    chunks = [json.loads(chunk.removeprefix(b"data: ")) for chunk in wire]
    for chunk in chunks:
        schema("Completion").validate(chunk)
        choice = chunk["choices"][0]
        # The SDK has one type for both forms, whose finish reason is never null.
        known = {
            **chunk,
            "choices": [choice | {"finish_reason": choice["finish_reason"] or "stop"}],
        }
        Completion.model_validate_json(json.dumps(known), strict=True)
    return chunks


@given(events=event_streams())
def test_the_stream_folds_to_the_whole_answer(events: list[Event]) -> None:
    completion = encoder()
    chunks = encode(events, completion)
    whole = json.loads(completion.result().model_dump_json(exclude_unset=True))
    schema("Completion").validate(whole)
    Completion.model_validate_json(json.dumps(whole), strict=True)

    usage = whole.pop("usage")
    folded = dict(chunks[-1])
    text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
    folded["choices"] = [folded["choices"][0] | {"text": text}]
    assert folded == whole
    assert text == "".join(event.text for event in events if isinstance(event, PartDelta))
    assert not any("usage" in chunk for chunk in chunks)
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks[:-1])
    last = events[-1]
    assert isinstance(last, Finished)
    cut = last.reason is FinishReason.LENGTH
    assert whole["choices"][0]["finish_reason"] == ("length" if cut else "stop")
    assert usage == {
        "prompt_tokens": last.usage.prompt_tokens,
        "completion_tokens": last.usage.completion_tokens,
        "total_tokens": last.usage.prompt_tokens + last.usage.completion_tokens,
    }


def test_every_chunk_names_the_seed() -> None:
    for chunk in (*encoder().feed(PartDelta(0, "x")), encoder().fail(internal_error())[0]):
        assert json.loads(chunk.removeprefix(b"data: "))["system_fingerprint"] == "seed-7"


def test_a_failed_stream_ends_with_an_error_chunk() -> None:
    chunk, done = encoder().fail(internal_error("cmpl-1"))
    assert done == DONE
    read = json.loads(chunk.removeprefix(b"data: "))
    schema("Completion").validate(read)
    assert read["choices"] == [{"index": 0, "text": "", "finish_reason": "error"}]
    assert read["error"]["request_id"] == "cmpl-1"
    assert read["error"]["type"] == "server_error"
    assert read["error"]["message"].startswith("internal server error: ")


def test_there_is_no_whole_answer_before_the_end() -> None:
    with pytest.raises(RuntimeError):
        encoder().result()
