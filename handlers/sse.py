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
SEND_SECONDS = 30.0


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
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._chunks = chunks
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the whole stream; a client that leaves or stalls only ends it."""
        try:
            await unless_disconnected(self._stream(send), receive)
        except ClientLeft:
            pass
        finally:
            await self._chunks.aclose()

    async def _stream(self, send: Send) -> None:
        wire = _Wire(send, self._keep_alive)
        await wire.start(self.status_code, self.raw_headers)
        watcher = asyncio.ensure_future(wire.watch(asyncio.current_task()))
        try:
            async for chunk in self._chunks:
                await wire.send(chunk)
            await wire.end()
        except asyncio.CancelledError:
            if not wire.stalled:
                raise
            raise ClientLeft from None
        finally:
            watcher.cancel()


class _Wire:
    """One response's way out; a single watcher does all timing, so that a chunk costs no timer."""

    def __init__(self, send: Send, keep_alive: Callable[[], bytes]) -> None:
        self._send = send
        self._keep_alive = keep_alive
        self._lock = asyncio.Lock()
        self._sending_since: float | None = None
        self._last_sent = time.monotonic()
        self.stalled = False

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, chunk: bytes) -> None:
        await self._body(chunk, more=True)

    async def end(self) -> None:
        await self._body(b"", more=False)

    async def _body(self, chunk: bytes, more: bool) -> None:
        async with self._lock:
            self._sending_since = time.monotonic()
            await self._send({"type": "http.response.body", "body": chunk, "more_body": more})
            self._last_sent, self._sending_since = time.monotonic(), None

    async def watch(self, sender: asyncio.Task[None] | None) -> None:
        """Keep a silent stream alive; cancel the sender when the client reads nothing."""
        while not await self._stalls():
            await asyncio.sleep(KEEP_ALIVE_SECONDS / 3)
        self.stalled = True
        if sender:
            sender.cancel()

    async def _stalls(self) -> bool:
        """Send what a silence needs; tell whether the client reads nothing."""
        now = time.monotonic()
        if self._sending_since is not None:
            return now - self._sending_since >= SEND_SECONDS
        if now - self._last_sent >= KEEP_ALIVE_SECONDS:
            # Nobody watches the watcher: its own send is timed here.
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self.send(self._keep_alive())
            except TimeoutError:
                return True
        return False
