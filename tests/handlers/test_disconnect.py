from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from handlers.disconnect import ClientLeft, unless_disconnected
from tests.handlers.asgi import Connection


class Work:
    """Work that lasts until it is cancelled, and then takes a moment to clean up."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.cleaned = False

    async def run(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.cleaned = True


async def test_work_that_ends_gives_its_result() -> None:
    async def work() -> int:
        return 5

    assert await unless_disconnected(work(), Connection(b"", b"").receive) == 5


async def test_what_else_the_client_sends_does_not_end_the_work() -> None:
    asked_again = asyncio.Event()
    connection = Connection(b"late", b"body")

    async def receive() -> Message:
        message = await connection.receive()
        if not message.get("more_body", True):
            asked_again.set()
        return message

    async def work() -> int:
        await asked_again.wait()
        return 5

    assert await unless_disconnected(work(), receive) == 5


async def test_work_that_fails_raises() -> None:
    async def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await unless_disconnected(work(), Connection().receive)


async def test_work_ends_before_client_left_is_raised() -> None:
    work, connection = Work(), Connection(b"late body")
    watching = asyncio.ensure_future(unless_disconnected(work.run(), connection.receive))
    await work.began.wait()
    connection.left.set()
    with pytest.raises(ClientLeft):
        await watching
    assert work.cleaned


async def test_nothing_is_left_running_when_the_caller_is_cancelled() -> None:
    work, connection = Work(), Connection()
    before = asyncio.all_tasks()
    watching = asyncio.ensure_future(unless_disconnected(work.run(), connection.receive))
    await work.began.wait()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert work.cleaned
    assert asyncio.all_tasks() == before
