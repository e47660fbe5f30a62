from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from generated.models import ChatDelta, PingEvent, TextDelta
from handlers import sse
from handlers.sse import DONE, KEEP_ALIVE, EventStream, data, event
from tests.handlers.asgi import Connection


class Chunks:
    """Chunks for a stream; waits for `go` in front of the last one."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks
        self.waiting, self.go = asyncio.Event(), asyncio.Event()
        self.cleaned = False

    async def make(self) -> AsyncGenerator[bytes, None]:
        try:
            for chunk in self.chunks[:-1]:
                yield chunk
            self.waiting.set()
            await self.go.wait()
            yield self.chunks[-1]
        finally:
            self.cleaned = True

    def stream(self) -> EventStream:
        return EventStream(self.make())


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.003)


def test_an_event_is_one_line_of_the_fields_that_were_set() -> None:
    text = "a\r\nb\x85\u2028\n\ndata: x"
    written = data(ChatDelta(content=text))
    assert written.startswith(b"data: ") and written.endswith(b"\n\n")
    assert json.loads(written.removeprefix(b"data: ")) == {"content": text}
    assert written.count(b"\n") == 2 and b"\r" not in written


def test_a_named_event_is_called_like_its_type() -> None:
    assert event(PingEvent(type="ping")) == b'event: ping\ndata: {"type":"ping"}\n\n'
    delta = TextDelta(type="text_delta", text="a\r\n\nevent: x")
    assert event(delta).count(b"\n") == 3 and b"\r" not in event(delta)


async def test_chunks_leave_one_by_one_as_they_come() -> None:
    chunks, connection = Chunks(b"one", b"two"), Connection()
    serving = asyncio.ensure_future(connection.serve(chunks.stream()))
    await connection.until(b"one")
    assert connection.body == b"one"
    assert not connection.complete
    chunks.go.set()
    await serving
    assert connection.body == b"onetwo"
    assert connection.complete
    assert chunks.cleaned


async def test_the_headers_say_what_it_is_and_that_nobody_may_hold_it_back() -> None:
    chunks, connection = Chunks(DONE), Connection()
    chunks.go.set()
    await connection.serve(chunks.stream())
    headers = {k.decode(): v.decode() for k, v in connection.messages[0]["headers"]}
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert "content-length" not in headers


async def test_a_client_that_leaves_ends_the_stream() -> None:
    chunks, connection = Chunks(b"one", b"two"), Connection()
    serving = asyncio.ensure_future(connection.serve(chunks.stream()))
    await chunks.waiting.wait()
    connection.left.set()
    await serving
    assert chunks.cleaned
    assert not connection.complete


async def test_a_client_that_leaves_before_the_first_byte_ends_it() -> None:
    chunks, connection = Chunks(b"one"), Connection()
    connection.reading.clear()
    serving = asyncio.ensure_future(connection.serve(chunks.stream()))
    await connection.stuck.wait()
    connection.left.set()
    await serving
    assert connection.messages == []


async def test_an_exception_of_the_chunks_comes_out() -> None:
    async def failing() -> AsyncGenerator[bytes, None]:
        yield b"one"
        raise KeyError("x")

    connection = Connection()
    with pytest.raises(KeyError):
        await connection.serve(EventStream(failing()))
    assert not connection.complete


async def test_the_chunks_end_when_the_server_cancels_the_request() -> None:
    chunks, connection = Chunks(b"one", b"two"), Connection()
    serving = asyncio.ensure_future(connection.serve(chunks.stream()))
    await chunks.waiting.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert chunks.cleaned


@pytest.mark.usefixtures("brisk")
async def test_a_silence_is_filled_with_comments_between_whole_chunks() -> None:
    chunks, connection = Chunks(b"one", b"two"), Connection()
    serving = asyncio.ensure_future(connection.serve(chunks.stream()))
    await connection.until(KEEP_ALIVE * 2)
    chunks.go.set()
    await serving
    assert connection.body.replace(KEEP_ALIVE, b"") == b"onetwo"
    assert connection.complete


@pytest.mark.usefixtures("brisk")
async def test_a_silence_is_filled_with_the_streams_own_sign_of_life() -> None:
    chunks, connection = Chunks(b"one", b"two"), Connection()
    signs = iter([b"A", b"B", *[b"C"] * 1000])
    stream = EventStream(chunks.make(), signs.__next__)
    serving = asyncio.ensure_future(connection.serve(stream))
    async with asyncio.timeout(10):
        await connection.until(b"oneABC")
    chunks.go.set()
    await serving
    assert connection.body.replace(b"C", b"") == b"oneABtwo"
    assert KEEP_ALIVE not in connection.body


async def test_no_comment_is_sent_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    nap = asyncio.sleep

    async def short_nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 9:
            chunks.go.set()
        await nap(0)

    chunks, connection = Chunks(b"one", b"two"), Connection()
    monkeypatch.setattr(asyncio, "sleep", short_nap)
    await connection.serve(chunks.stream())
    assert connection.body == b"onetwo"
    assert set(naps) == {5.0}


@pytest.mark.usefixtures("brisk")
async def test_nothing_keeps_running_after_a_stream() -> None:
    chunks, connection = Chunks(b"one", b"two"), Connection()
    before = asyncio.all_tasks()
    serving = asyncio.ensure_future(connection.serve(chunks.stream()))
    await connection.until(KEEP_ALIVE)
    chunks.go.set()
    await serving
    left_over = asyncio.all_tasks() - before
    await asyncio.wait_for(asyncio.gather(*left_over, return_exceptions=True), timeout=10)
