"""Clients that misbehave, on raw sockets against a real server, and what others notice of them."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.e2e.scripts import ENDLESS, scripted
from tests.e2e.server import Server

pytestmark = pytest.mark.e2e

CHAT = "/v1/chat/completions"
LONG = "word and " * 3_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with scripted(tmp_path_factory.mktemp("misbehave"), ENDLESS) as server:
        yield server


def chat_body(text: str, **fields: Any) -> bytes:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 100_000, **fields}
    return json.dumps(body).encode()


def connect(server: Server) -> socket.socket:
    address = urlsplit(server.url)
    assert address.hostname and address.port
    connection = socket.create_connection((address.hostname, address.port), timeout=30)
    connection.settimeout(30)
    return connection


def send_chat(server: Server, body: bytes, announced: int | None = None) -> socket.socket:
    """Send a request, or the part of it that `body` is of the `announced` bytes."""
    connection = connect(server)
    size = len(body) if announced is None else announced
    connection.sendall(
        f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {size}\r\n\r\n".encode()
    )
    connection.sendall(body)
    return connection


def longest_gap(server: Server, load: Callable[[], None]) -> float:
    """The longest pause, in seconds, of a running stream while `load` lasts."""
    pauses: list[float] = []
    body = chat_body("endless", stream=True)
    headers = {"content-type": "application/json"}
    with httpx.stream("POST", server.url + CHAT, content=body, headers=headers) as response:
        chunks = response.iter_raw()
        next(chunks)
        loading = threading.Thread(target=load)
        loading.start()
        last = time.monotonic()
        while loading.is_alive():
            next(chunks)
            pauses.append(time.monotonic() - last)
            last = time.monotonic()
        loading.join()
    return max(pauses)


def post(server: Server, path: str, body: bytes) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return httpx.post(server.url + path, content=body, headers=headers, timeout=120)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("how", ["close", "reset", "half-close"])
def test_a_client_that_leaves_frees_its_slot(server: Server, stream: bool, how: str) -> None:
    connection = send_chat(server, chat_body("endless", stream=stream))
    server.wait_for_health(live_rows=1)
    if how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    if how == "half-close":
        connection.shutdown(socket.SHUT_WR)
    else:
        connection.close()
    server.wait_for_health(seconds=2, live_rows=0)
    connection.close()


def test_a_thousand_idle_connections_do_no_harm(server: Server) -> None:
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    with ExitStack() as open_ones:
        for _ in range(1000):
            open_ones.enter_context(connect(server))
        assert server.chat().status_code == 200
        assert process.memory_info().rss - before < 30e6


def test_slow_bodies_hold_nobody_up(server: Server) -> None:
    body = chat_body("Hi")
    with ExitStack() as open_ones:
        slow = [open_ones.enter_context(send_chat(server, body[:9], len(body))) for _ in range(100)]

        def load() -> None:
            for position in range(9, 29):
                for connection in slow:
                    connection.sendall(body[position : position + 1])
            assert server.chat().status_code == 200

        assert longest_gap(server, load) < 1
        slow[0].sendall(body[29:])
        assert slow[0].recv(100).startswith(b"HTTP/1.1 200 OK\r\n")


# The gaps measured are below 0.25 s; the bounds leave room for a machine with other work.
def test_a_body_of_very_many_values_holds_nobody_up(server: Server) -> None:
    body = b'{"messages":[{"role":"user","content":"x"}],"x":[' + b"1," * 14_000_000 + b"1]}"
    answers: list[httpx.Response] = []
    assert longest_gap(server, lambda: answers.append(post(server, CHAT, body))) < 1
    assert answers[0].status_code == 400
    assert "JSON parts" in answers[0].json()["error"]["message"]


def test_long_prompts_hold_nobody_up_and_end_with_their_clients(server: Server) -> None:
    long = [send_chat(server, chat_body(LONG)) for _ in range(3)]

    def load() -> None:
        started = time.monotonic()
        assert server.chat().status_code == 200
        assert time.monotonic() - started < 2

    assert longest_gap(server, load) < 1
    for connection in long:
        connection.close()
    # One of them alone takes seconds.
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "on " * 100_000}]})
    started = time.monotonic()
    counted = post(server, "/v1/messages/count_tokens", body.encode())
    assert counted.json()["input_tokens"] > 100_000
    assert time.monotonic() - started < 3


def test_many_token_counts_hold_nobody_up(server: Server) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "on " * 150_000}]})

    def load() -> None:
        path = "/v1/messages/count_tokens"
        counts = [
            threading.Thread(target=post, args=(server, path, body.encode())) for _ in range(12)
        ]
        for count in counts:
            count.start()
        for count in counts:
            count.join()

    assert longest_gap(server, load) < 1


def test_what_is_no_http_gets_json(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(9999), b""))
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"


def test_a_signal_ends_the_server_in_the_middle_of_a_long_prompt(tmp_path: Path) -> None:
    with scripted(tmp_path) as server:
        connection = send_chat(server, chat_body(LONG))
        process = psutil.Process(server.process.pid)
        used = process.cpu_times().user
        while process.cpu_times().user - used < 1.5:
            server.health()
        started = time.monotonic()
        assert server.stop(signal.SIGINT) == 0
        assert time.monotonic() - started < 2
        assert "Traceback" not in server.output
        connection.close()
