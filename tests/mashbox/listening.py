"""An application behind the server's HTTP protocol, and a client that writes bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from mashbox.http_protocol import LimitedHttp


class App:
    """Answers with the length of the body it read; `whole` is an answer instead of it.

    It waits for `go` before it reads anything, and for `hold`, if that is there, before it answers.
    An `early` answer is given without reading; one that `listens` waits for the client to leave.
    """

    def __init__(self) -> None:
        self.called, self.left = asyncio.Event(), asyncio.Event()
        self.whole: bytes | None = None
        self.go = asyncio.Event()
        self.go.set()
        self.hold: asyncio.Event | None = None
        self.early = False
        self.listens = False
        self.headers: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.called.set()
        await self.go.wait()
        self.headers = [name for name, _ in scope["headers"]]
        size, more = 0, not self.early
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return
            size, more = size + len(message["body"]), message["more_body"]
        if self.listens:
            assert (await receive())["type"] == "http.disconnect"
            self.left.set()
            return
        if self.hold:
            await self.hold.wait()
        body = b"%d" % size if self.whole is None else self.whole
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Listening:
    """An application behind the protocol, on a port."""

    def __init__(self, app: App, port: int, state: ServerState) -> None:
        self.app, self.port, self.state = app, port, state

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, *pieces: bytes) -> bytes:
        """Everything that comes until the server closes; each piece is a read of its own."""
        reader, writer = await self.open()
        for piece in pieces:
            writer.write(piece)
            with suppress(ConnectionError):
                await writer.drain()
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()
        return answer

    async def until_closed(self) -> None:
        async with asyncio.timeout(10):
            while self.state.connections:
                await asyncio.sleep(0)


@asynccontextmanager
async def listening() -> AsyncIterator[Listening]:
    app, state = App(), ServerState()
    state.default_headers = [(b"date", b"today")]
    config = uvicorn.Config(app, log_config=None, ws="none", lifespan="off")
    server = await asyncio.get_running_loop().create_server(
        lambda: LimitedHttp(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    try:
        yield Listening(app, server.sockets[0].getsockname()[1], state)
    finally:
        for connection in list(state.connections):
            assert isinstance(connection, LimitedHttp)
            connection.transport.abort()
        server.close()
