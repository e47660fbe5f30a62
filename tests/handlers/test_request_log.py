from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from engine.errors import QueueFull, WorkerFailed
from engine.events import FinishReason
from handlers.request_log import RequestLog, printable
from mashbox.logs import JsonFormatter, TextFormatter
from tests.handlers.asgi import CHAT, QUESTION, Connection, client, http_scope, judged_app
from tests.handlers.scripted_engine import Hold, ScriptedAnswer, ScriptedEngine, text_events

KEY = "sk-0123456789abcdef"
Lines = Callable[[], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """The request log's lines so far, as text."""
    caplog.set_level(logging.DEBUG, "mashbox.requests")
    formatter = TextFormatter()
    return lambda: [
        formatter.format(record).split(" ", 2)[2]
        for record in caplog.records
        if record.name == "mashbox.requests"
    ]


async def ask(
    engine: ScriptedEngine, path: str = CHAT, headers: dict[str, str] | None = None, **fields: Any
) -> int:
    async with client(engine) as http:
        response = await http.post(path, json=QUESTION | fields, headers=headers)
    return response.status_code


@pytest.mark.parametrize(
    ("method", "path", "status", "level"),
    [
        ("GET", "/health", 200, "DEBUG"),
        ("GET", "/metrics", 200, "DEBUG"),
        ("HEAD", "/anything", 200, "DEBUG"),
        ("GET", "/v1/models", 200, "INFO"),
        ("GET", "/v1/models/x?key=secret", 404, "INFO"),
        ("GET", "/no%20where%0a", 404, "INFO"),
        ("POST", "/health", 405, "INFO"),
        ("POST", CHAT, 415, "INFO"),
    ],
)
async def test_every_request_is_one_line(
    lines: Lines, method: str, path: str, status: int, level: str
) -> None:
    async with client(ScriptedEngine()) as http:
        response = await http.request(method, path)
    (line,) = lines()
    shown = path.partition("?")[0].replace("%0a", "%0A")
    assert line.startswith(f"{level} {method} {shown} {status} seconds=0.0")
    assert f" request_id={response.headers['x-request-id']}" in line


async def test_json_has_method_path_and_status_apart(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mashbox.requests")
    async with client(ScriptedEngine()) as http:
        await http.get("/nowhere")
    line = json.loads(JsonFormatter().format(caplog.records[-1]))
    assert line["message"] == "GET /nowhere 404"
    assert (line["method"], line["path"], line["status"]) == ("GET", "/nowhere", 404)


async def test_a_refusal_by_the_queue_is_seen(lines: Lines) -> None:
    assert await ask(ScriptedEngine(QueueFull("full", 3, tenant_limit=True))) == 429
    assert f"POST {CHAT} 429 " in lines()[0]


async def test_no_word_of_the_prompt_and_no_key_is_logged(
    lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"authorization": f"Bearer {KEY}", "x-session-id": f"mine {KEY}"}
    await ask(ScriptedEngine(), f"/v1/models/{KEY}", headers, messages=[])
    await ask(
        ScriptedEngine(), CHAT, headers, messages=[{"role": "user", "content": "my prompt text"}]
    )
    await ask(ScriptedEngine(), f"/{KEY}", {"authorization": KEY})
    assert 'session="mine [key]"' in lines()[0]
    assert KEY not in caplog.text
    assert "prompt text" not in caplog.text
    assert KEY not in "".join(lines())


async def test_the_header_s_session_tag_wins_over_the_body_s(lines: Lines) -> None:
    await ask(ScriptedEngine(), prompt_cache_key="body", stream=True)
    await ask(ScriptedEngine(), headers={"x-session-id": "header"}, prompt_cache_key="body")
    first, second = lines()
    assert "session=body stream=true" in first
    assert "session=header" in second and "body" not in second


async def test_a_client_that_left_before_the_answer_is_a_499(lines: Lines) -> None:
    hold, connection = Hold(), Connection(json.dumps(QUESTION).encode())
    app = judged_app(ScriptedEngine([hold, *text_events("Hello")]))
    scope = http_scope("POST", CHAT, content_type="application/json")
    serving = asyncio.ensure_future(connection.serve(app, scope))
    await hold.reached.wait()
    connection.left.set()
    await serving
    assert f"POST {CHAT} 499 " in lines()[0]


async def test_a_client_that_left_a_stream_is_an_abort(lines: Lines) -> None:
    hold, connection = Hold(), Connection(json.dumps(QUESTION | {"stream": True}).encode())
    app = judged_app(ScriptedEngine([*text_events("Hel", "lo")[:3], hold]))
    scope = http_scope("POST", CHAT, content_type="application/json")
    serving = asyncio.ensure_future(connection.serve(app, scope))
    await hold.reached.wait()
    connection.left.set()
    await serving
    assert f"POST {CHAT} 200 " in lines()[0]
    assert " finish=abort" in lines()[0]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"messages": [{"role": 7, "my secret": 1}]}, "invalid_request_error (messages)"),
        ({"model": "my secret"}, "model_not_found (model)"),
        ({"temperature": 9}, "invalid_request_error (temperature)"),
    ],
)
async def test_a_refusal_says_why_in_words_that_are_not_the_clients(
    lines: Lines, fields: dict[str, Any], reason: str
) -> None:
    assert await ask(ScriptedEngine(), **fields) in (400, 404)
    assert f'error="{reason}"' in lines()[0]
    assert "secret" not in lines()[0]


async def test_a_response_that_breaks_is_an_error(lines: Lines) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError

    with pytest.raises(KeyError):
        await Connection().serve(RequestLog(broken))
    assert lines()[0].startswith("INFO GET / 200 ") or lines()[0].startswith("DEBUG GET / 200 ")
    assert lines()[0].endswith(" finish=error")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_s_numbers_are_logged(lines: Lines, stream: bool) -> None:
    engine = ScriptedEngine(text_events("Hello", reason=FinishReason.LENGTH))
    await ask(engine, stream=stream)
    tail = lines()[0].partition(" response_id=")[2]
    assert tail.startswith("chatcmpl-")
    assert tail.endswith(
        f" stream={str(stream).lower()} prompt_tokens=12 cached_tokens=4 completion_tokens=3 "
        "finish=length"
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_ended_in_an_error_says_so(lines: Lines, stream: bool) -> None:
    broken = [*text_events("Hello")[:3], WorkerFailed("the worker died")]
    await ask(ScriptedEngine(broken), stream=stream)
    assert f" {200 if stream else 500} " in lines()[0]
    assert lines()[0].endswith(' finish=error error="the worker died"')


async def test_the_tenant_and_the_times_are_logged(lines: Lines) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        answer = ScriptedAnswer(ScriptedEngine())
        answer.stats.queue_seconds, answer.stats.ttft_seconds = 0.0005, 0.0211
        answer.stats.first_token_at, answer.stats.last_token_at = 10.0, 10.25
        answer.stats.completion_tokens = 11
        scope["record"].tenant = "alice"
        scope["record"].read_answer("cmpl-1", answer)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    await Connection().serve(RequestLog(app), http_scope("POST", CHAT))
    assert " response_id=cmpl-1 tenant=alice prompt_tokens=12 " in lines()[0]
    assert lines()[0].endswith(" finish=abort queue_ms=0.5 ttft_ms=21.1 tokens_per_second=40.0")


@pytest.mark.parametrize(
    ("tag", "shown"),
    [
        ("pi-42", "pi-42"),
        ("Zoë 東京", "Zoë 東京"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\x1b[31m\x7f", r"\x1b[31m\x7f"),
        ("\u2028\x85\u202e\ufeff", r"\u2028\x85\u202e\ufeff"),
        ("\ud800", r"\ud800"),
        ("A" * 200_000, "A" * 64),
    ],
)
def test_a_client_s_text_cannot_leave_its_place(tag: str, shown: str) -> None:
    assert printable(tag, 64) == shown


async def test_a_tag_in_utf_8_is_read_as_such_and_other_bytes_are_escaped(lines: Lines) -> None:
    for raw in ("Zoë".encode(), b"a\x85\xff"):
        connection, app = Connection(json.dumps(QUESTION).encode()), judged_app(ScriptedEngine())
        headers = {"content_type": "application/json", "x_session_id": raw.decode("latin-1")}
        await connection.serve(app, http_scope("POST", CHAT, **headers))
    first, second = lines()
    assert 'session="Zoë"' in first
    assert r'session="a\\x85\\xff"' in second
