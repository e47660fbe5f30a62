"""A server's life: loading, worker death, signals, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil
import pytest

from bench.protocols import Completions
from tests.e2e.scripts import ask
from tests.e2e.server import Server

pytestmark = pytest.mark.e2e

SMALL = ("smollm2-135m", "--ctx", "512", "--slots", "2")


def test_a_killed_worker_comes_back_and_is_counted() -> None:
    with Server(*SMALL).wait_ready() as server:
        pid = server.health()["worker_pid"]
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGKILL)
        loading = server.wait_for_health(status="loading")
        assert loading["worker_restarts"] == 1
        refused = server.chat()
        assert refused.status_code == 503
        assert refused.headers["retry-after"].isdigit()
        assert refused.json()["error"]["code"] == "not_ready"
        server.wait_for_health(status="ok")
        assert server.chat().status_code == 200
        assert server.health()["worker_pid"] != pid
        assert server.stop() == 0
        assert "Traceback" not in server.output


def test_an_answer_that_had_sent_nothing_survives_its_workers_death_with_its_seed() -> None:
    sampled: dict[str, Any] = {"temperature": 1.5, "max_tokens": 100}
    with Server(*SMALL).wait_ready() as server:
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(ask, server, Completions(), "A random story:", **sampled)
            health = server.wait_for_health(live_rows=1)
            os.kill(int(str(health["worker_pid"])), signal.SIGKILL)
            survived = asking.result()
        assert server.wait_for_health(status="ok")["worker_restarts"] == 1
        seed = int(survived.seed.removeprefix("seed-"))
        whole = ask(server, Completions(), "A random story:", seed=seed, **sampled)
        assert survived.complete and survived.content == whole.content


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_a_running_answer_end_and_leaves_no_process(number: int) -> None:
    with Server(*SMALL).wait_ready() as server:
        children = server.descendants()
        assert children
        body = {
            "messages": [{"role": "user", "content": "Count to twenty."}],
            "max_tokens": 30,
            "stream": True,
        }
        with httpx.stream(
            "POST", server.url + "/v1/chat/completions", json=body, timeout=60
        ) as response:
            lines = response.iter_lines()
            next(lines)
            server.process.send_signal(number)
            assert [line for line in lines if line][-1] == "data: [DONE]"
        assert server.process.wait(30) == 0
        assert "Traceback" not in server.output
        _, alive = psutil.wait_procs(children, timeout=10)
        assert not alive


def test_a_signal_while_loading_stops_at_once_and_cleanly() -> None:
    with Server(*SMALL) as server:
        while not any("loading" in line for line in list(server.lines)):
            assert server.process.poll() is None, server.output
        children = server.descendants()
        assert server.stop(signal.SIGINT) == 0
        assert "Traceback" not in server.output
        _, alive = psutil.wait_procs(children, timeout=10)
        assert not alive


def test_the_worker_dies_with_a_server_that_is_killed() -> None:
    with Server(*SMALL).wait_ready() as server:
        children = server.descendants()
        server.process.kill()
        server.process.wait(10)
        _, alive = psutil.wait_procs(children, timeout=20)
        assert not alive


def test_a_port_in_use_is_told_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "mashbox", "run", "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(f"127.0.0.1:{port} is in use. Stop the other server (pid ")
    assert done.stderr.rstrip().endswith(f"pass --port {port + 1}.")


def test_help_answers_without_heavy_imports() -> None:
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-m", "mashbox", "--help"], capture_output=True, text=True, timeout=60
    )
    after = os.times()
    assert done.returncode == 0 and "run" in done.stdout
    cpu = after.children_user - before.children_user + after.children_system
    assert cpu - before.children_system < 1.0


def test_the_processes_stay_small() -> None:
    # A server of its own: the cache pages that other tests wrote stay in memory.
    with Server("smollm2-135m", "--ctx", "2048") as server:
        server.wait_ready().chat()
        pids = {"server": server.process.pid, "worker": int(str(server.health()["worker_pid"]))}
        megabytes = {
            name: psutil.Process(pid).memory_info().rss / 1e6 for name, pid in pids.items()
        }
    assert megabytes["server"] < 160, megabytes
    assert megabytes["worker"] < 1200, megabytes
