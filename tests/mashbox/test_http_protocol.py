"""Limits below the application, seen from raw sockets."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from contextlib import suppress
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mashbox import http_protocol
from mashbox.http_protocol import MAX_HEAD_BYTES, MAX_TARGET_BYTES, LimitedHttp
from tests.mashbox.listening import listening

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def no_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "_LINGER_SECONDS", 0.05)


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "REQUEST_SECONDS", 0.05)
    monkeypatch.setattr(http_protocol, "READ_SECONDS", 0.05)


def parse(answer: bytes) -> tuple[int, dict[str, str], Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, json.loads(body)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET http://host HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (CHUNKED + b"ZZ\r\n", 400),
        (b"GET /" + b"x" * MAX_TARGET_BYTES + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\na: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (MAX_HEAD_BYTES // 6 + 1) + b"\r\n", 431),
        (CHUNKED + b"0\r\na: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n", 431),
    ],
)
async def test_what_cannot_be_a_request_is_refused_in_json(
    request_bytes: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as server:
        got, headers, body = parse(await server.ask(request_bytes))
    assert (got, headers["connection"]) == (status, "close")
    assert headers["content-type"] == "application/json"
    assert headers["x-request-id"].startswith("req_") and "date" in headers
    assert body["error"]["type"] == "invalid_request_error"
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert not caplog.records


async def test_a_refusal_is_logged_under_the_id_that_the_client_got(
    caplog: pytest.LogCaptureFixture,
) -> None:
    key = b"Authorization: Bearer 0123456789abcdef\r\n"
    large = (
        b"GET /0123456789abcdef HTTP/1.1\r\n" + key + b"a: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n"
    )
    caplog.set_level(logging.INFO, "mashbox.requests")
    async with listening() as server:
        _, headers, _ = parse(await server.ask(large))
        await server.ask(b"\x16\x03\x01\x02\r\n\r\n")
    known, unknown = caplog.records
    assert known.getMessage() == "GET /[key] 431"
    assert known.fields["request_id"] == headers["x-request-id"]  # type: ignore[attr-defined]
    assert unknown.getMessage() == "- - 400"


@pytest.mark.parametrize(
    "start", [b"GET /", b"GET / HTTP/1.1\r\na: ", CHUNKED + b"1;", CHUNKED + b"1\r\na\r\n0\r\na: "]
)
async def test_what_never_ends_is_refused_when_it_is_too_long(
    start: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    pieces = [b"x" * 4096] * 400
    async with listening() as server:
        status, _, _ = parse(await server.ask(start, *pieces))
    assert status in (414, 431)
    assert not caplog.records


async def test_a_trailer_is_no_header() -> None:
    async with listening() as server:
        reader, writer = await server.open()
        writer.write(CHUNKED + b"4\r\nbody\r\n0\r\nHost: evil\r\nOrigin: evil\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n4")).startswith(b"HTTP/1.1 200 ")
        writer.close()
    assert server.app.headers == [b"host", b"transfer-encoding"]


async def test_messages_gets_its_own_shape() -> None:
    async with listening() as server:
        answer = await server.ask(b"POST /v1/messages?x HTTP/1.1\r\nno header\r\n\r\n")
    status, headers, body = parse(answer)
    assert (status, body["type"], body["error"]["type"]) == (400, "error", "invalid_request_error")
    assert headers["request-id"] == headers["x-request-id"]


async def test_the_largest_request_head_and_long_bodies_pass() -> None:
    head = b"GET /" + b"x" * (MAX_TARGET_BYTES - 1) + b" HTTP/1.1\r\nConnection: close\r\n"
    header = b"a: " + b"x" * (MAX_HEAD_BYTES - 32) + b"\r\n\r\n"
    chunks = b"".join(b"400\r\n" + b"x" * 1024 + b"\r\n" for _ in range(1024)) + b"0\r\n\r\n"
    long = CHUNKED.replace(b"Host", b"Connection: close\r\nHost") + chunks
    async with listening() as server:
        assert (await server.ask(head + header)).startswith(b"HTTP/1.1 200 ")
        assert (await server.ask(long)).endswith(b"\r\n\r\n1048576")


async def test_requests_one_after_the_other_are_counted_alone() -> None:
    large = b"GET / HTTP/1.1\r\na: " + b"x" * (MAX_HEAD_BYTES // 2) + b"\r\n\r\n"
    async with listening() as server:
        reader, writer = await server.open()
        for _ in range(4):
            writer.write(large)
            assert (await reader.readuntil(b"\r\n\r\n0")).startswith(b"HTTP/1.1 200 ")
        writer.close()


@pytest.mark.parametrize("wish", [b"Upgrade", b"upgrade, HTTP2-Settings", b"keep-alive, Upgrade"])
async def test_a_wish_to_upgrade_is_ignored(wish: bytes, caplog: pytest.LogCaptureFixture) -> None:
    upgrade = POST.replace(b"Host", b"Connection: " + wish + b"\r\nUpgrade: h2c\r\nHost")
    bare = GET.replace(b"Host", b"Connection: Upgrade\r\nUpgrade: websocket\r\nHost")
    async with listening() as server:
        reader, writer = await server.open()
        for pieces, size in ((upgrade + b"body",), 4), ((upgrade, b"body"), 4), ((bare,), 0):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n%d" % size)
            assert answer.startswith(b"HTTP/1.1 200 OK")
        writer.close()
    assert not caplog.records


@pytest.mark.parametrize("more", [b"", b"Connection: Upgrade\r\nUpgrade: x\r\n"])
@pytest.mark.parametrize("start", [b"CONNECT a:443 HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n"])
async def test_a_tunnel_is_no_request(start: bytes, more: bytes) -> None:
    async with listening() as server:
        status, _, _ = parse(await server.ask(start + more + b"\r\nSM\r\n\r\n"))
    assert status == 400


@pytest.mark.usefixtures("brisk")
@pytest.mark.parametrize("start", [b"", b"GET", GET[:-2]])
async def test_a_client_that_does_not_finish_its_headers_is_left(start: bytes) -> None:
    async with listening() as server:
        assert await server.ask(start) == b""
        assert not server.app.called.is_set()


@pytest.mark.usefixtures("brisk")
@pytest.mark.parametrize("start", [POST, POST + b"x", CHUNKED, CHUNKED + b"1\r\nx"])
async def test_a_body_that_stalls_gets_408_and_ends_the_request(start: bytes) -> None:
    async with listening() as server:
        status, headers, _ = parse(await server.ask(start))
        assert (status, headers["connection"]) == (408, "close")
        await asyncio.wait_for(server.app.left.wait(), 10)


async def test_a_refused_request_is_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "_LINGER_SECONDS", 10)
    async with listening() as server:
        reader, writer = await server.open()
        writer.write(CHUNKED + b"ZZ")
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
        await asyncio.wait_for(server.app.left.wait(), 10)
        assert server.state.connections
        writer.close()


@pytest.mark.parametrize("behind", [GET, b"no HTTP\r\n\r\n", b"GET"])
async def test_what_comes_behind_a_running_request_is_not_answered(behind: bytes) -> None:
    async with listening() as server:
        server.app.hold = asyncio.Event()
        reader, writer = await server.open()
        writer.write(GET + behind)
        await server.app.called.wait()
        server.app.hold.set()
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert answer.count(b"HTTP/1.1 ") == answer.count(b"connection: close\r\n") == 1


async def test_a_client_that_leaves_is_noticed_behind_what_it_pipelined() -> None:
    async with listening() as server:
        server.app.listens = True
        _, writer = await server.open()
        writer.write(POST + b"body" + GET * 3)
        await server.app.called.wait()
        writer.close()
        await asyncio.wait_for(server.app.left.wait(), 10)


@pytest.mark.usefixtures("brisk")
async def test_a_body_that_stalls_after_its_answer_only_ends_the_connection() -> None:
    async with listening() as server:
        server.app.early = True
        answer = await server.ask(POST + b"x")
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.count(b"HTTP/1.1") == 1


@pytest.mark.usefixtures("brisk")
async def test_a_body_that_the_application_leaves_unread_is_not_timed() -> None:
    size = 300_000
    async with listening() as server:
        server.app.go.clear()
        reader, writer = await server.open()
        writer.write(POST.replace(b"4", b"%d" % size) + b"x" * (size - 1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.2)
        server.app.go.set()
        writer.write(b"x")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_a_slow_body_may_take_longer_than_one_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_protocol, "REQUEST_SECONDS", 0.2)
    async with listening() as server:
        reader, writer = await server.open()
        writer.write(POST)
        started = asyncio.get_running_loop().time()
        for _ in range(4):
            with suppress(TimeoutError):
                # The silence itself is what is tested.
                await asyncio.wait_for(reader.read(1), 0.1)
            writer.write(b"x")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        assert asyncio.get_running_loop().time() - started > 0.3
        writer.close()


@pytest.mark.usefixtures("brisk")
async def test_a_request_that_runs_long_is_not_timed() -> None:
    async with listening() as server:
        server.app.hold = asyncio.Event()
        reader, writer = await server.open()
        writer.write(GET)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.2)
        server.app.hold.set()
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()


@pytest.mark.usefixtures("brisk")
async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    async with listening() as server:
        server.app.whole = b"x" * 50_000_000
        _, writer = await server.open()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(GET)
        await server.app.called.wait()
        await server.until_closed()
        writer.close()


async def test_a_client_that_reads_slowly_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    # Shorter than the whole answer takes, longer than a busy machine keeps this client waiting.
    monkeypatch.setattr(http_protocol, "READ_SECONDS", 0.4)
    size = 20_000_000
    async with listening() as server:
        server.app.whole = b"x" * size
        reader, writer = await server.open()
        writer.write(GET)
        got = 0
        while piece := await reader.read(200_000):
            got += len(piece)
            if got > size:
                break
            await asyncio.sleep(0.008)
        assert got > size
        (connection,) = server.state.connections
        assert isinstance(connection, LimitedHttp)
        assert connection._read_timer is None
        writer.close()


async def test_a_client_that_closes_its_sending_side_has_left() -> None:
    async with listening() as server:
        _, writer = await server.open()
        writer.write(POST)
        await server.app.called.wait()
        writer.write_eof()
        await asyncio.wait_for(server.app.left.wait(), 10)
        writer.close()


async def test_no_clock_outlives_its_connection() -> None:
    async with listening() as server:
        _, writer = await server.open()
        writer.write(POST)
        await server.app.called.wait()
        (connection,) = server.state.connections
        assert isinstance(connection, LimitedHttp)
        assert connection._request_timer
        writer.close()
        await server.until_closed()
        assert (connection._request_timer, connection._read_timer) == (None, None)


def test_uvicorn_still_has_what_the_protocol_stands_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    overridden = {name for name in vars(LimitedHttp) if hasattr(asyncio.Protocol, name)}
    callbacks = {name for name in vars(LimitedHttp) if name.startswith("on_")}
    assert overridden | callbacks <= set(dir(HttpToolsProtocol))
    assert hasattr(HttpToolsProtocol, "_unset_keepalive_if_required")
    protocol = inspect.getsource(HttpToolsProtocol)
    cycle = inspect.getsource(RequestResponseCycle)
    for name in ("url", "parser", "cycle", "flow", "loop", "server_state"):
        assert f"self.{name}" in protocol
    for name in ("more_body", "response_started", "response_complete", "disconnected"):
        assert f"self.{name} = " in cycle
    assert "self.keep_alive = " in cycle and "self.message_event = " in cycle
