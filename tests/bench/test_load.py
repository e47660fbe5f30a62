"""The load client's texts, and its clock."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from bench.load import Client, description, filler, prompt, user


def event(delta: dict[str, str], **fields: object) -> str:
    return f"data: {json.dumps({'choices': [{'delta': delta}], **fields})}\n\n"


def client_of(*events: str, status: int = 200) -> Client:
    async def stream() -> AsyncIterator[str]:
        for text in events:
            yield text

    async def answer(request: Request) -> Response:
        if status != 200:
            return PlainTextResponse("no room", status)
        return StreamingResponse(stream(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
    client = Client("http://test", "model")
    client._http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")
    return client


HELLO = (event({"role": "assistant", "content": ""}), event({"content": "Hel"}))
LO = event({"content": "lo"})
USAGE = 'data: {"choices": [], "usage": {"completion_tokens": 5}}\n\n'


async def test_pieces_with_text_are_timed_and_the_servers_count_is_believed() -> None:
    seen: list[int] = []
    client = client_of(*HELLO, LO, USAGE, "data: [DONE]\n\n")
    reply = await client.chat(user("Hi"), 9, on_piece=seen.append)
    assert (reply.text, reply.tokens, len(reply.times)) == ("Hello", 5, 2)
    assert seen == [1, 2] and len(reply.gaps) == 1 and reply.first > 0


async def test_pieces_are_counted_where_the_server_does_not_count() -> None:
    assert (await client_of(*HELLO, LO).chat(user("Hi"), 9)).tokens == 2


async def test_what_a_cache_held_was_not_computed() -> None:
    usage = {"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 80}}
    told = event({"content": "!"}, usage=usage)
    assert (await client_of(told).chat(user("Hi"), 9)).computed == 10
    assert (await client_of(LO, USAGE).chat(user("Hi"), 9)).computed is None


async def test_a_refusal_and_an_answer_without_text_are_no_measurements() -> None:
    with pytest.raises(RuntimeError, match="no room"):
        await client_of(status=503).chat(user("Hi"), 9)
    with pytest.raises(RuntimeError, match="without text"):
        await client_of(HELLO[0]).chat(user("Hi"), 9)


def test_texts_differ_by_seed_only() -> None:
    for make in (lambda seed: prompt(200, seed), lambda seed: filler(20, seed), description):
        assert make(1) == make(1) != make(2)
