"""Server-sent events: the wire format and the response that sends them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from handlers.disconnect import ClientLeft, unless_disconnected

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"
KEEP_ALIVE_SECONDS = 15.0


class TypedEvent(Protocol):
    """A model whose `type` is the name of its event."""

    @property
    def type(self) -> str:
        """The name."""

    def model_dump_json(self, *, exclude_unset: bool) -> str:
        """Write it as JSON."""


def data(model: BaseModel) -> bytes:
    """Write one unnamed event; fields that were not set are left out."""
    return b"data: " + model.model_dump_json(exclude_unset=True).encode() + b"\n\n"


def event(model: TypedEvent) -> bytes:
    """Write one event that is named like its `type`; fields that were not set are left out."""
    return f"event: {model.type}\ndata: {model.model_dump_json(exclude_unset=True)}\n\n".encode()


def comment() -> bytes:
    """Give the sign of life that is no event."""
    return KEEP_ALIVE


class EventStream(Response):
    """Sends `chunks` as they come and ends when the client leaves.

    What `keep_alive` gives is sent in long silences.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        keep_alive: Callable[[], bytes] = comment,
    ) -> None:
        # nginx would gather the chunks of a response without X-Accel-Buffering.
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._chunks = chunks
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the whole stream; a client that leaves only ends it."""
        try:
            await unless_disconnected(self._stream(send), receive)
        except ClientLeft:
            pass
        finally:
            await self._chunks.aclose()

    async def _stream(self, send: Send) -> None:
        wire = _Wire(send, self._keep_alive)
        await wire.start(self.status_code, self.raw_headers)
        watcher = asyncio.ensure_future(wire.fill_silences())
        try:
            async for chunk in self._chunks:
                await wire.send(chunk)
            await wire.end()
        finally:
            watcher.cancel()


class _Wire:
    """One response's way out; a single watcher does all timing, so that a chunk costs no timer."""

    def __init__(self, send: Send, keep_alive: Callable[[], bytes]) -> None:
        self._send = send
        self._keep_alive = keep_alive
        # The watcher sends too.
        self._lock = asyncio.Lock()
        self._last_sent = time.monotonic()

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, chunk: bytes) -> None:
        await self._body(chunk, more=True)

    async def end(self) -> None:
        await self._body(b"", more=False)

    async def _body(self, chunk: bytes, more: bool) -> None:
        async with self._lock:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": more})
            self._last_sent = time.monotonic()

    async def fill_silences(self) -> None:
        """Send a sign of life into each long silence."""
        while True:
            if time.monotonic() - self._last_sent >= KEEP_ALIVE_SECONDS:
                await self.send(self._keep_alive())
            await asyncio.sleep(KEEP_ALIVE_SECONDS / 3)
