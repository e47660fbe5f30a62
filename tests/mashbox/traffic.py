"""Recorded traffic of the application, as JSON lines and as a HAR file."""

from __future__ import annotations

import base64
import copy
import io
import json
from typing import Any

import httpx

from mashbox.check_traffic import check_traffic
from tests.handlers.asgi import QUESTION, client
from tests.handlers.scripted_engine import ScriptedEngine, text_events

Json = dict[str, Any]

CLAIM: Json = QUESTION | {"max_tokens": 8}
KEY = "a-secret-key-of-24-chars"
REQUESTS: list[tuple[str, str, Json | None]] = [
    ("GET", "/health", None),
    ("HEAD", "/", None),
    ("GET", "/v1/models", None),
    ("GET", "/v1/models/other", None),
    ("GET", "/metrics", None),
    ("GET", "/openapi.json", None),
    ("POST", "/v1/messages/count_tokens", CLAIM),
    ("POST", "/v1/chat/completions", CLAIM),
    ("POST", "/v1/chat/completions", CLAIM | {"stream": True}),
    ("POST", "/v1/completions", {"prompt": "Hi"}),
    ("POST", "/v1/completions", {"prompt": "Hi", "stream": True}),
    ("POST", "/v1/messages", CLAIM),
    ("POST", "/v1/messages", CLAIM | {"stream": True}),
    ("POST", "/v1/responses", {"input": "Hi"}),
    ("POST", "/v1/responses", {"input": "Hi", "stream": True}),
]


async def record(*requests: tuple[str, str, Json | None]) -> list[Json]:
    """Make requests of the application over a scripted engine; gives one JSON line for each."""
    lines = []
    engine = ScriptedEngine(*[text_events("Hello ", "you")] * len(requests))
    async with client(engine) as http:
        for method, path, body in requests:
            headers = {"Authorization": f"Bearer {KEY}"}
            lines.append(line(await http.request(method, path, json=body, headers=headers)))
    return lines


def line(response: httpx.Response) -> Json:
    """One exchange as a JSON line."""
    sent = response.request
    return {
        "request": {
            "method": sent.method,
            "url": str(sent.url),
            "headers": dict(sent.headers),
            "body": sent.content.decode(),
        },
        "response": {
            "status": response.status_code,
            "headers": dict(response.headers),
            "body": response.text,
        },
    }


def json_lines(lines: list[Json]) -> bytes:
    return "\n".join(map(json.dumps, lines)).encode()


def har(lines: list[Json], encoded: bool = False) -> bytes:
    """A HAR file as browsers write it, the responses' bodies in base64 if `encoded`."""
    entries = []
    for recorded in copy.deepcopy(lines):
        for message in recorded.values():
            pairs = message["headers"].items()
            message["headers"] = [{"name": name.title(), "value": value} for name, value in pairs]
        request, response = recorded["request"], recorded["response"]
        request["postData"] = {"mimeType": "application/json", "text": request.pop("body")}
        text = response.pop("body")
        content = {"size": len(text), "text": text}
        if encoded:
            content |= {"text": base64.b64encode(text.encode()).decode(), "encoding": "base64"}
        entries.append(recorded | {"time": 1, "response": response | {"content": content}})
    log = {"version": "1.2", "creator": {"name": "tests"}, "pages": [], "entries": entries}
    return json.dumps({"log": log}, indent=1).encode()


def check(recording: bytes) -> list[str]:
    """The lines that `check-traffic` writes."""
    written: list[str] = []
    check_traffic(io.BytesIO(recording), written.append)
    return written


def findings(*lines: Json) -> list[str]:
    """The findings in JSON lines, without number, path and status."""
    return [text.split(": ", 2)[2] for text in check(json_lines(list(lines)))[:-1]]
