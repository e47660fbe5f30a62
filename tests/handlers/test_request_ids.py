from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from starlette.types import Receive, Scope, Send

from handlers.request_ids import RequestIds, id_headers
from tests.handlers.asgi import Connection


class Inner:
    """The application inside; keeps the scopes that reach it."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)


@pytest.fixture
async def tagged() -> AsyncIterator[tuple[Connection, Scope]]:
    inner = Inner()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await inner(scope, receive, send)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"x"})

    connection = Connection()
    await connection.serve(RequestIds(app))
    yield connection, inner.scopes[0]


async def test_every_response_gets_the_id_that_its_scope_carries(
    tagged: tuple[Connection, Scope],
) -> None:
    connection, scope = tagged
    headers = dict(connection.messages[0]["headers"])
    assert headers[b"a"] == b"b"
    assert headers[b"x-request-id"].decode() == scope["request_id"]
    assert connection.body == b"x"


async def test_ids_differ() -> None:
    inner = Inner()
    for _ in range(2):
        await Connection().serve(RequestIds(inner))
    first, second = (scope["request_id"] for scope in inner.scopes)
    assert first != second


def test_messages_clients_find_the_id_under_their_own_name_too() -> None:
    assert id_headers("req_1", "/v1/messages/count_tokens") == [
        (b"x-request-id", b"req_1"),
        (b"request-id", b"req_1"),
    ]
    assert id_headers("req_1", "/v1/models") == [(b"x-request-id", b"req_1")]
