"""One exchange of the application with one thing broken: what is said of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from generated.routes import OPERATIONS
from mashbox.exchange_check import Routes
from tests.mashbox.traffic import CLAIM, Json, findings, record

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
STREAM: Json = CLAIM | {"stream": True}


async def recorded(path: str = CHAT, body: Json | None = CLAIM, method: str = "POST") -> Json:
    return (await record((method, path, body)))[0]


async def received(headers: dict[str, Any] | None = None, **changed: object) -> list[str]:
    """What is found when a chat's response is changed; a header that is None is left out."""
    line = await recorded()
    merged = line["response"]["headers"] | (headers or {})
    line["response"] |= {"headers": {k: v for k, v in merged.items() if v}, **changed}
    return findings(line)


@pytest.mark.parametrize(
    ("url", "operation_id"),
    [
        ("/v1/chat/completions", "create_chat_completion"),
        ("/llm/team-a/v1/messages", "create_message"),
        ("/v1/models/org/name", "get_model"),
        ("/v1/models/health", "get_model"),
        ("/v1/health", "get_health"),
        ("/llm/health", "get_health_short"),
        ("/", "get_root"),
    ],
)
def test_a_proxys_prefix_is_passed_over(url: str, operation_id: str) -> None:
    method = next(o.method for o in OPERATIONS if o.operation_id == operation_id)
    found = Routes().find(method, url)
    assert not isinstance(found, str)
    assert found.operation_id == operation_id


@pytest.mark.parametrize(
    "url", ["/v1/v1/chat/completions", "/v1/v1/health", "/llm/", "/v1", "/v1/models/", "/xhealth"]
)
def test_other_paths_are_unknown(url: str) -> None:
    assert Routes().find("GET", url) == "The contract has no such path."


async def test_another_method_is_named_with_those_there_are() -> None:
    assert findings(await recorded(method="PUT")) == [
        "request: /v1/chat/completions does not take PUT; use POST."
    ]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": []}),
        (CHAT, {"messages": [{"role": "user", "content": 1}]}),
        (CHAT, CLAIM | {"temperature": 5}),
        (MESSAGES, CLAIM | {"max_tokens": "8"}),
        (MESSAGES, CLAIM | {"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
        (RESPONSES, {"input": [{"type": "function_call", "name": "f"}]}),
    ],
)
async def test_of_a_request_is_said_what_the_server_says(path: str, body: Json) -> None:
    line = await recorded(path, body)
    assert line["response"]["status"] == 400
    assert findings(line) == [
        f"request: {json.loads(line['response']['body'])['error']['message']}"
    ]


async def test_a_request_without_its_type_or_with_broken_json() -> None:
    line = await recorded()
    line["request"]["headers"]["content-type"] = "text/plain"
    line["request"]["body"] = '{"messages": '
    kind, broken = findings(line)
    assert kind == "request: The body must be sent with Content-Type: application/json."
    assert broken.startswith("request: The body is not valid JSON: EOF")


@pytest.mark.parametrize(
    ("headers", "changed", "said"),
    [
        ({}, {"status": 418}, "The contract has no status 418 here."),
        ({}, {"status": 0}, "There is none: the connection broke, or the client left."),
        ({"x-request-id": None}, {}, "The header X-Request-Id is missing."),
        ({"content-type": "text/html"}, {}, "Content-Type should be application/json or text/"),
        ({"content-type": None}, {}, "Content-Type should be application/json or text/"),
        ({}, {"body": "{"}, "The body is not valid JSON: EOF while parsing"),
        ({}, {"body": None}, "The body is not valid JSON: EOF while parsing"),
        ({}, {"body": []}, "The body should be an object, not an array."),
        ({}, {"body": "\ud800"}, "The body is not UTF-8."),
        (
            {"content-encoding": "gzip"},
            {"body": "\ud800"},
            "The body is not UTF-8 but gzip; record",
        ),
    ],
)
async def test_a_broken_response(headers: Json, changed: Json, said: str) -> None:
    (found,) = await received(headers, **changed)
    assert found.startswith(f"response: {said}")


async def test_headers_have_schemas_too() -> None:
    error = {"message": "m", "type": "rate_limit_error", "param": None, "code": None}
    refused = {"status": 429, "body": {"error": error}}
    assert await received({"retry-after": "1"}, **refused) == []
    for value in ("soon", "0"):
        (found,) = await received({"retry-after": value}, **refused)
        assert found.startswith("response: The header Retry-After should be a")


async def test_a_stream_where_none_was_asked_for_and_the_reverse() -> None:
    whole, stream = await record(("POST", CHAT, CLAIM), ("POST", CHAT, STREAM))
    whole["request"], stream["request"] = stream["request"], whole["request"]
    assert findings(whole, stream) == [
        "response: Content-Type should be text/event-stream: a stream was asked for.",
        "response: Content-Type should be application/json: a whole answer was asked for.",
    ]


async def test_either_answer_of_the_root_may_come() -> None:
    page = await recorded("/", None, "GET")
    assert findings(page) == []
    page["response"]["headers"]["content-type"] = "text/html; charset=utf-8"
    page["response"]["body"] = "<!doctype html>"
    assert findings(page) == []


async def test_a_head_has_no_body() -> None:
    line = await recorded("/", None, "HEAD")
    line["response"]["body"] = "x"
    assert findings(line) == ["response: There is a body where the contract has none."]


@pytest.mark.parametrize(
    ("path", "body", "old", "new", "said"),
    [
        (CHAT, STREAM, '"role":"assistant"', '"role":1', "event 1: choices[0].delta.role should"),
        (CHAT, STREAM, "chatcmpl-", "x", "event 1 and 3 more: id should match ^chatcmpl-."),
        ("/v1/completions", {"prompt": "Hi", "stream": True}, "data: [DONE]\n\n", "", "stream: "),
        (MESSAGES, STREAM, '"text_delta"', '"t"', "event 4 and 1 more: delta.type should be"),
        (MESSAGES, STREAM, "event: ping", "event: pong", "event 2: The event's name differs"),
        (RESPONSES, STREAM | {"input": "Hi"}, '"sequence_number":3,', "", "event 3: sequence_num"),
        (
            RESPONSES,
            STREAM | {"input": "Hi"},
            '"sequence_number":3',
            '"sequence_number":4',
            "event 3: sequence_number should be 3.",
        ),
    ],
)
async def test_a_broken_event_is_named(
    path: str, body: Json, old: str, new: str, said: str
) -> None:
    line = await recorded(path, body)
    text = line["response"]["body"]
    assert findings(line) == []
    line["response"]["body"] = text.replace(old, new)
    (found,) = findings(line)
    assert found.startswith(f"response {said}")
