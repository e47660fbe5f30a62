"""Has answers judged on their way to a test: in the application or the client's transport."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handlers.sse import DONE
from tests.contract.judge import judge

# Addresses, host and port, of the servers that answer to the contract; tests have other ones too.
ADDRESSES: set[str] = set()


class Judged:
    """The application `app`; an answer that breaks the contract raises BreaksContract."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        messages: list[Message] = []

        async def record(message: Message) -> None:
            messages.append(message)
            await send(message)

        await self._app(scope, receive, record)
        if scope["type"] == "http" and messages:
            _judge_messages(f"{scope['method']} {scope['path']}", messages)


def _judge_messages(request: str, messages: list[Message]) -> None:
    start, *bodies = messages
    headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    body = b"".join(message.get("body", b"") for message in bodies)
    whole = bool(bodies) and not bodies[-1].get("more_body", False)
    judge(request, start["status"], headers, body, whole)


def judge_transports(patch: pytest.MonkeyPatch) -> None:
    """Have what comes from ADDRESSES judged in every client of httpx and, for the SDKs, httpx2."""
    for library in (httpx, httpx2):
        handle = library.HTTPTransport.handle_request
        patch.setattr(library.HTTPTransport, "handle_request", _judging(library, handle))


def _judging(library: ModuleType, handle: Callable[..., Any]) -> Callable[..., Any]:
    stream_class = type("JudgedStream", (_JudgedStream, library.SyncByteStream), {})

    def handle_and_judge(transport: Any, request: Any) -> Any:
        response = handle(transport, request)
        if request.url.netloc.decode() in ADDRESSES:
            response.stream = stream_class(f"{request.method} {request.url.path}", response)
        return response

    return handle_and_judge


class _JudgedStream:
    """A response's body, judged when it is closed."""

    def __init__(self, request: str, response: Any) -> None:
        self._request = request
        self._status, self._headers = response.status_code, response.headers
        self._stream = response.stream
        self._pieces: list[bytes] = []
        self._whole = self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            self._pieces.append(piece)
            yield piece
        self._whole = True

    def close(self) -> None:
        self._stream.close()
        if not self._closed:
            self._closed = True
            body = b"".join(self._pieces)
            # The SDKs read no further than the end marker.
            whole = self._whole or body.endswith(DONE)
            judge(self._request, self._status, self._headers, body, whole)
