"""The servers under comparison, as processes that can be started, measured and ended."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx
import psutil

START_SECONDS = 600
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Peer:
    """A server: its command and environment, and the model name that its clients send."""

    name: str
    command: tuple[str, ...]
    port: int
    model: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


class Running:
    """A started peer: how long it took, peak memory and processor seconds of all its processes."""

    def __init__(self, peer: Peer, process: subprocess.Popen[bytes]) -> None:
        self.peer = peer
        self.peak_bytes = 0
        self.start_seconds = 0.0
        self._process = psutil.Process(process.pid)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The process id of the one that was started."""
        return self._process.pid

    def own_cpu_seconds(self) -> float:
        """Processor seconds so far of the one that was started, without its children."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def cpu_seconds(self) -> float:
        """Processor seconds so far, of all."""
        return sum(t.user + t.system for t in self._each(lambda p: p.cpu_times()))

    def stop(self) -> None:
        """Stop watching."""
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            used = sum(m.rss for m in self._each(lambda p: p.memory_info()))
            self.peak_bytes = max(self.peak_bytes, used)

    def _each(self, read: Callable[[psutil.Process], T]) -> Iterator[T]:
        with contextlib.suppress(psutil.Error):
            for process in [self._process, *self._process.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    yield read(process)


@contextlib.contextmanager
def started(peer: Peer, log: Path) -> Iterator[Running]:
    """Start a peer, wait until it answers, end it after."""
    environment, began = {**os.environ, **peer.environment}, time.monotonic()
    with log.open("ab") as out:
        process = subprocess.Popen(peer.command, stdout=out, stderr=out, env=environment)
    running = Running(peer, process)
    try:
        _wait_until_ready(peer, process, log)
        running.start_seconds = time.monotonic() - began
        yield running
    finally:
        running.stop()
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(peer: Peer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{peer.name} ended at start; see {log}")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(peer.url + "/health", timeout=5).status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"{peer.name} is not ready after {START_SECONDS} s; see {log}")
