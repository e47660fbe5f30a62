"""Request ids: what a client quotes when it asks about a response, and what the log names."""

from __future__ import annotations

import secrets

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handlers.errors import is_messages


def new_request_id() -> str:
    """Make an id that no other response has."""
    return "req_" + secrets.token_hex(8)


def id_headers(request_id: str, path: str) -> list[tuple[bytes, bytes]]:
    """Give the headers that carry the id of a response on `path`."""
    # Messages' clients look for it under a name of their own.
    names = [b"x-request-id"] + [b"request-id"] * is_messages(path)
    return [(name, request_id.encode()) for name in names]


class RequestIds:
    """Gives every response an id, and the scope the same as `request_id`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request_id = new_request_id()

        async def tag(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = id_headers(request_id, scope["path"])
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        await self._app({**scope, "request_id": request_id}, receive, tag)
