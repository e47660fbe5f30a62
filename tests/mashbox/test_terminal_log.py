"""Log lines as a person at a terminal sees them."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from mashbox.console import Console
from mashbox.terminal_log import TerminalHandler, request_line

CHAT = {"method": "POST", "path": "/v1/chat/completions", "status": 200}
ANSWER: dict[str, Any] = {
    "seconds": 2.013,
    "request_id": "req_7f3a9d21e5c0",
    "session": "pi-42",
    "stream": True,
    "prompt_tokens": 31,
    "cached_tokens": 24,
    "completion_tokens": 64,
    "finish": "stop",
    "queue_ms": 0.1,
    "ttft_ms": 213.4,
    "tokens_per_second": 38.2,
}


def test_an_answer_is_one_line_of_columns() -> None:
    assert request_line(CHAT, ANSWER) == (
        "chat      200 stop        31 in (24 cached)  64 out  ttft 0.21 s  38.2 tok/s  2.0 s  "
        "req 7f3a9d21  session pi-42"
    )


@pytest.mark.parametrize(
    ("parts", "fields", "said"),
    [
        (CHAT | {"status": 499}, {}, "chat      499 cancelled "),
        (CHAT, {"finish": "abort"}, "chat      200 cancelled "),
        (CHAT | {"status": 429}, {"error": "rate_limit_exceeded"}, "chat      429 queue full "),
        (CHAT | {"status": 404}, {"error": "model_not_found (model)"}, "model not found (model)"),
        ({"method": "GET", "path": "/v1/models", "status": 200}, {}, "GET /v1/models 200 "),
        (CHAT | {"path": "/v1/messages"}, {"finish": "length"}, "messages  200 length "),
    ],
)
def test_how_a_request_ended_is_said_in_words(
    parts: dict[str, Any], fields: dict[str, Any], said: str
) -> None:
    assert said in request_line(parts, {"request_id": "req_1", **fields})


def test_what_is_unknown_is_left_out() -> None:
    line = request_line(CHAT, {"request_id": "req_1", "prompt_tokens": 5, "cached_tokens": 0})
    assert re.fullmatch(r"chat +200 +5 in  0 out  req 1", line)


@pytest.mark.parametrize(
    ("level", "parts", "colour"),
    [
        (logging.INFO, CHAT, ""),
        (logging.INFO, CHAT | {"status": 404}, "33"),
        (logging.INFO, CHAT | {"status": 500}, "31"),
        (logging.WARNING, {}, "33"),
        (logging.ERROR, {}, "31"),
    ],
)
def test_what_went_wrong_has_a_colour(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    level: int,
    parts: dict[str, Any],
    colour: str,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    record = logging.LogRecord("mashbox.x", level, "", 0, "said %d", (1,), None)
    if parts:
        record.parts, record.fields = parts, {"request_id": "req_1"}
    TerminalHandler(Console()).handle(record)
    line = capsys.readouterr().err
    found = re.fullmatch(r"(?:\x1b\[(\d+)m)?\d\d:\d\d:\d\d (.+?)(?:\x1b\[0m)?\n", line)
    assert found and (found[1] or "") == colour
    assert ("said 1" if not parts else "req 1") in found[2]
