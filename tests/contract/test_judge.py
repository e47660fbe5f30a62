"""The judge of answers: one broken thing at a time."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from handlers import chat_encoder
from handlers.sse import DONE
from tests.contract.judge import BreaksContract, judge
from tests.handlers.asgi import CHAT, QUESTION, client
from tests.handlers.scripted_engine import ScriptedEngine, text_events

ERROR = {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}
HEADERS = {"X-Request-Id": "req_1", "Content-Type": "application/json"}


def refusal(status: int = 400, headers: dict[str, str] = HEADERS, **error: Any) -> None:
    body = json.dumps({"error": ERROR | error}).encode()
    judge(f"POST {CHAT}", status, headers, body)


async def stream() -> httpx.Response:
    async with client(ScriptedEngine(text_events("Hel", "lo"))) as http:
        return await http.post(CHAT, json={**QUESTION, "stream": True})


def test_token_counts_have_to_add_up() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 4}
    choice = {"index": 0, "text": "", "finish_reason": "stop"}
    answer = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}
    body = json.dumps({**answer, "choices": [choice], "usage": usage}).encode()
    with pytest.raises(BreaksContract, match="total_tokens is not the sum"):
        judge("POST /v1/completions", 200, HEADERS, body)


def test_what_the_contract_allows_passes() -> None:
    refusal()
    refusal(429, HEADERS | {"retry-after": "3"})
    judge("GET /nowhere", 404, HEADERS, json.dumps({"error": ERROR}).encode())
    judge("HEAD /nowhere", 200, {"x-request-id": "req_1"}, b"")


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"status": 418}, "status is not declared"),
        ({"status": 429}, "Retry-After is missing"),
        ({"status": 429, "headers": HEADERS | {"Retry-After": "soon"}}, "integer"),
        ({"headers": {"Content-Type": "application/json"}}, "X-Request-Id is missing"),
        ({"headers": HEADERS | {"Content-Type": "text/html"}}, "'text/html' is not declared"),
        ({"message": 5}, "error.message should be a string"),
    ],
)
def test_a_broken_refusal_is_told(broken: dict[str, Any], told: str) -> None:
    with pytest.raises(BreaksContract, match=told):
        refusal(**broken)


@pytest.mark.parametrize(
    ("request_line", "status", "body", "told"),
    [
        ("GET /nowhere", 200, b"{}", "status is not declared"),
        (f"DELETE {CHAT}", 200, b"{}", "status is not declared"),
        ("GET /health", 200, b'{"status": "ok", "live_rows": NaN, "waiting": 0}', "NaN"),
        ("GET /health", 200, b'{"status": "ok", ', "Expecting"),
        ("HEAD /health", 200, b"{}", "no body|none is declared"),
    ],
)
def test_a_broken_answer_is_told(request_line: str, status: int, body: bytes, told: str) -> None:
    with pytest.raises(BreaksContract, match=told):
        judge(request_line, status, HEADERS, body)


async def test_a_stream_is_judged_event_by_event_and_as_a_whole() -> None:
    answer = await stream()
    first, second, *_ = answer.content.split(b"\n\n")
    for broken in (
        answer.content.removesuffix(DONE),
        answer.content.replace(b'"index":0', b'"index":"0"', 1),
        answer.content + DONE,
        answer.content.replace(first, second, 1),
        answer.content[:-1],
    ):
        with pytest.raises(BreaksContract):
            judge(f"POST {CHAT}", 200, answer.headers, broken)


async def test_a_stream_whose_client_left_is_judged_as_far_as_it_came() -> None:
    answer = await stream()
    judge(f"POST {CHAT}", 200, answer.headers, answer.content[:-20], whole=False)
    broken = answer.content.replace(b'"choices"', b'"voices"')[:-20]
    with pytest.raises(BreaksContract, match="choices"):
        judge(f"POST {CHAT}", 200, answer.headers, broken, whole=False)


def test_an_event_of_a_type_that_no_schema_has_is_told() -> None:
    headers = {
        "x-request-id": "req_1",
        "request-id": "req_1",
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
    }
    body = b'event: message_begin\ndata: {"type": "message_begin"}\n\n'
    with pytest.raises(BreaksContract, match="type should be"):
        judge("POST /v1/messages", 200, headers, body)


async def test_a_test_of_another_purpose_fails_when_an_encoder_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def data(model: BaseModel) -> bytes:
        return b"data: " + model.model_dump_json(exclude={"object"}).encode() + b"\n\n"

    monkeypatch.setattr(chat_encoder, "data", data)
    with pytest.raises(BreaksContract, match="object is missing"):
        await stream()
