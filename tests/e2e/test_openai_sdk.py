"""The official openai SDK against a running server."""

from __future__ import annotations

import json

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.e2e.server import Server

pytestmark = pytest.mark.e2e

ASK = {
    "model": "smollm2-135m",
    "messages": [{"role": "user", "content": "Write two sentences about the sea. 🌊"}],
    "max_tokens": 40,
}


@pytest.fixture(scope="module")
def client(server: Server) -> OpenAI:
    return OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def events(server: Server, body: dict[str, object]) -> list[str]:
    with httpx.stream(
        "POST", server.url + "/v1/chat/completions", json={**body, "stream": True}, timeout=120
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = list(response.iter_lines())
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


def test_every_chunk_and_the_whole_answer_are_valid_in_the_sdks_strict_types(
    server: Server,
) -> None:
    for options in ({}, {"stream_options": {"include_usage": True}}):
        *chunks, end = events(server, {**ASK, **options})
        assert end == "[DONE]"
        for chunk in chunks:
            ChatCompletionChunk.model_validate_json(chunk, strict=True)
    whole = httpx.post(server.url + "/v1/chat/completions", json=ASK, timeout=120)
    ChatCompletion.model_validate_json(whole.text, strict=True)


def test_the_accumulated_stream_equals_the_whole_answer(client: OpenAI) -> None:
    # The SDK's accumulator takes a cut answer for an error, so the model must end by itself.
    ask = {**ASK, "max_tokens": 300, "messages": [{"role": "user", "content": "Name a planet."}]}
    # Both find the same prompt in the cache.
    client.chat.completions.create(**{**ask, "max_tokens": 1})
    whole = client.chat.completions.create(**ask)
    assert whole.choices[0].finish_reason == "stop"
    with client.chat.completions.stream(**ask, stream_options={"include_usage": True}) as stream:
        folded = stream.get_final_completion()
    assert folded.choices[0].message.content == whole.choices[0].message.content
    assert folded.choices[0].finish_reason == whole.choices[0].finish_reason
    assert folded.usage and whole.usage
    assert folded.usage.to_dict() == whole.usage.to_dict()


def test_models_are_listed_and_found(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["smollm2-135m"]
    assert client.models.retrieve("smollm2-135m").owned_by == "mashbox-labs"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another/model")


def test_refusals_are_the_sdks_own_exceptions(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(**{**ASK, "model": "other"})
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(**ASK, temperature=9)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(
            model="smollm2-135m", messages=[{"role": "user", "content": "word " * 3000}]
        )
    assert long.value.code == "context_length_exceeded"


def test_the_served_document_names_the_running_model(server: Server) -> None:
    document = httpx.get(server.url + "/openapi.json").json()
    assert document["info"]["x-mashbox-model"] == "smollm2-135m"
    assert document["openapi"].startswith("3.1")
    assert "/v1/chat/completions" in json.dumps(document["paths"])
