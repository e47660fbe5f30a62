"""The servers under comparison, as processes that can be started, measured and ended."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
import psutil

START_SECONDS = 600
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Peer:
    """A server: its command, the model name its clients send, and the path that tells readiness."""

    name: str
    command: tuple[str, ...]
    port: int
    model: str

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"


def mashbox(folder: Path, port: int, slots: int) -> Peer:
    """This server in float32."""
    options = ("--port", str(port), "--ctx", "2048", "--slots", str(slots), "--dtype", "float32")
    command = (sys.executable, "-m", "mashbox", "run", str(folder), *options)
    return Peer("mashbox", command, port, folder.name)


def transformers_serve(folder: Path, port: int) -> Peer:
    """`transformers serve` with continuous batching in float32, on the same weights."""
    program = str(Path(sys.executable).with_name("transformers"))
    options = ("--continuous-batching", "--dtype", "float32", "--device", "cpu")
    command = (program, "serve", str(folder), "--port", str(port), *options)
    return Peer("transformers serve", command, port, str(folder))


class Running:
    """A started peer, its peak memory and processor seconds over all its processes."""

    def __init__(self, peer: Peer, process: subprocess.Popen[bytes]) -> None:
        self.peer = peer
        self.peak_bytes = 0
        self._process = psutil.Process(process.pid)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The process id of the one that was started."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Processor seconds so far."""
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
def started(peer: Peer, threads: int, log: Path) -> Iterator[Running]:
    """Start a peer with `threads` arithmetic threads, wait until it answers, end it after."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    with log.open("ab") as out:
        process = subprocess.Popen(peer.command, stdout=out, stderr=out, env=environment)
    running = Running(peer, process)
    try:
        _wait_until_ready(peer, process, log)
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
