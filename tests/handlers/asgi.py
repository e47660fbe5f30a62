"""ASGI without a server: a connection that a test holds in its hand, and an HTTP client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Container
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Scope

from handlers.routes import ServedEngine
from handlers.tenants import NO_KEYS, Tenants
from mashbox.app import create_app
from mashbox.hosts import LOOPBACK_NAMES
from tests.contract.judged import Judged

CHAT = "/v1/chat/completions"
QUESTION = {"messages": [{"role": "user", "content": "Hi"}]}


def http_scope(method: str = "GET", path: str = "/", **headers: str) -> Scope:
    """A request's scope; header names are written with underscores, Host is there by default."""
    pairs = {"host": "127.0.0.1:8000"} | headers
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(k.replace("_", "-").encode(), v.encode("latin-1")) for k, v in pairs.items()],
    }


class Connection:
    """One client: sends `pieces` as its body, leaves when told to, and keeps what it gets.

    While `reading` is not set it takes nothing, like a client with a full buffer.
    """

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self.left = asyncio.Event()
        self.reading = asyncio.Event()
        self.reading.set()
        self.stuck = asyncio.Event()
        self.messages: list[Message] = []
        self._news = asyncio.Condition()

    async def receive(self) -> Message:
        if self._pieces:
            piece = self._pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if not self.reading.is_set():
            self.stuck.set()
            await self.reading.wait()
        async with self._news:
            self.messages.append(message)
            self._news.notify_all()

    async def until(self, text: bytes) -> None:
        """Wait until `text` has been sent."""
        async with self._news:
            await self._news.wait_for(lambda: text in self.body)

    async def serve(self, app: ASGIApp, scope: Scope | None = None) -> None:
        """Have one request answered; a response that hangs raises TimeoutError."""
        async with asyncio.timeout(10):
            await app(scope or http_scope(), self.receive, self.send)

    @property
    def body(self) -> bytes:
        return b"".join(m.get("body", b"") for m in self.messages)

    @property
    def status(self) -> int:
        status: int = self.messages[0]["status"]
        return status

    @property
    def complete(self) -> bool:
        bodies = [m for m in self.messages if m["type"] == "http.response.body"]
        return bool(bodies) and not bodies[-1].get("more_body", False)


def judged_app(
    engine: ServedEngine, hosts: Container[str] = LOOPBACK_NAMES, tenants: Tenants = NO_KEYS
) -> ASGIApp:
    """The whole application over `engine`, whose every answer is held to the contract."""
    return Judged(create_app(engine, hosts, tenants))


def client(engine: ServedEngine) -> httpx.AsyncClient:
    """An HTTP client of the whole application over `engine`."""
    transport = httpx.ASGITransport(judged_app(engine))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")


def sse_events(body: str) -> list[Any]:
    """The events of a stream that has to end with its marker; comments are left out."""
    blocks = [b for b in body.split("\n\n") if b and not b.startswith(":")]
    assert body.endswith("data: [DONE]\n\n")
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-1]]


def named_events(body: str) -> list[Any]:
    """The events of a stream whose events are named like their type; comments are left out."""
    events = []
    for block in body.removesuffix("\n\n").split("\n\n"):
        if not block.startswith(":"):
            name, data = block.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {events[-1]['type']}"
    return events


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error object of a refusal, whose shape is checked."""
    body = response.json()
    assert list(body) == ["error"]
    assert set(body["error"]) == {"message", "type", "param", "code"}
    error: dict[str, Any] = body["error"]
    return error
