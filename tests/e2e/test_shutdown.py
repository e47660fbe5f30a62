"""A server that is told to stop: what it still answers, what it refuses, and how it exits."""

from __future__ import annotations

import itertools
import os
import signal
import time
from pathlib import Path

import httpx
import psutil
import pytest

from bench.protocols import WIRES, Chat, Messages
from tests.e2e.scripts import ENDLESS, PARTS, Json, Pending, ask, is_right, scripted
from tests.e2e.server import Server

pytestmark = pytest.mark.e2e

# A second or two: an answer that ends within the drain.
SLOW: Json = {"match": {"user": "slow"}, "parts": PARTS, "token_delay_ms": 200}
BOTH_WAYS = list(itertools.product(WIRES, [False, True]))


def run_all(server: Server, text: str) -> list[Pending]:
    """One running request in each protocol, streamed and not."""
    requests = [Pending(server, wire, text, stream=streamed) for wire, streamed in BOTH_WAYS]
    server.wait_for_health(live_rows=len(requests), seconds=20)
    return requests


def gone(server: Server, children: list[psutil.Process]) -> bool:
    """Whether the server and all its processes have ended, without a traceback."""
    _, alive = psutil.wait_procs(children, timeout=10)
    return not alive and "Traceback" not in server.output


def test_running_answers_end_within_the_drain_and_nothing_new_begins(tmp_path: Path) -> None:
    options = ("--slots", "8", "--drain", "20")
    with scripted(tmp_path, SLOW, options=options) as server:
        children = server.descendants()
        requests = run_all(server, "slow")
        server.process.send_signal(signal.SIGTERM)
        stopping = server.wait_for_health(status="loading", seconds=10)
        assert stopping["live_rows"] == len(requests)
        assert httpx.head(server.url + "/").status_code == 503
        for wire in WIRES:
            refusal = ask(server, wire, "new")
            assert refusal.status == (529 if isinstance(wire, Messages) else 503)
            assert refusal.error_type == "overloaded_error"
        for request in requests:
            answer = request.answer()
            assert is_right(request.wire, answer), answer
        assert server.process.wait(20) == 0
        assert gone(server, children)


def test_a_signal_to_the_whole_group_drains_too(tmp_path: Path) -> None:
    options = ("--slots", "1", "--drain", "20")
    with scripted(tmp_path, SLOW, options=options) as server:
        request = Pending(server, WIRES[0], "slow", stream=False)
        server.wait_for_health(live_rows=1, seconds=20)
        os.killpg(server.process.pid, signal.SIGTERM)
        assert is_right(request.wire, request.answer())
        assert server.process.wait(20) == 0


def test_after_the_drain_running_answers_end_in_an_error_in_their_own_way(tmp_path: Path) -> None:
    options = ("--slots", "8", "--drain", "1")
    with scripted(tmp_path, ENDLESS, options=options) as server:
        children = server.descendants()
        requests = run_all(server, "endless")
        told = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        for request, (_, streamed) in zip(requests, BOTH_WAYS, strict=True):
            answer = request.answer()
            assert answer.status == (200 if streamed else 500)
            assert answer.faulted and bool(answer.text) == streamed
        assert server.process.wait(20) == 0
        assert 1 <= time.monotonic() - told < 10
        assert gone(server, children)


def test_requests_that_wait_are_sent_away_at_once(tmp_path: Path) -> None:
    with scripted(tmp_path, SLOW, options=("--slots", "1", "--drain", "20")) as server:
        running = Pending(server, Chat(), "slow")
        server.wait_for_health(live_rows=1, seconds=10)
        waiting = [Pending(server, wire, "slow", stream=streamed) for wire, streamed in BOTH_WAYS]
        server.wait_for_health(waiting=len(waiting), seconds=10)
        server.process.send_signal(signal.SIGTERM)
        for request, (wire, streamed) in zip(waiting, BOTH_WAYS, strict=True):
            answer = request.answer()
            whole = 529 if isinstance(wire, Messages) else 503
            assert answer.status == (200 if streamed else whole)
            assert "stopping" in answer.error
        assert is_right(running.wire, running.answer())
        assert server.process.wait(20) == 0


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    with scripted(tmp_path, ENDLESS, options=("--drain", "60")) as server:
        children = server.descendants()
        request = Pending(server, Chat(), "endless", stream=True)
        server.wait_for_health(live_rows=1, seconds=10)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_health(status="loading", seconds=10)
        assert server.stop(signal.SIGINT) == 130
        assert gone(server, children)
        request.leave()


def test_a_second_signal_while_loading_stops_at_once() -> None:
    with Server("mock") as server:
        while not (children := server.descendants()):
            assert server.process.poll() is None, server.output
        server.process.send_signal(signal.SIGTERM)
        assert server.stop(signal.SIGINT) == 130
        assert gone(server, children)


def test_a_signal_while_the_worker_starts_again_stops_the_server(tmp_path: Path) -> None:
    with scripted(tmp_path) as server:
        children = server.descendants()
        psutil.Process(int(str(server.health()["worker_pid"]))).kill()
        server.wait_for_health(status="loading", seconds=10)
        children += server.descendants()
        assert server.stop() == 0
        assert gone(server, children)


def test_the_worker_of_the_script_dies_with_a_server_that_is_killed(tmp_path: Path) -> None:
    with scripted(tmp_path, ENDLESS) as server:
        children = server.descendants()
        request = Pending(server, Chat(), "endless", stream=True)
        server.wait_for_health(live_rows=1, seconds=10)
        server.process.kill()
        assert gone(server, children)
        request.leave()
