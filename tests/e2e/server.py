"""Starts real servers for tests, on free loopback ports."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

from tests.contract.judged import ADDRESSES

START_SECONDS = 300.0
# Made once: a client of its own for every request would spend most of its time on certificates.
HTTP = httpx.Client(timeout=120.0, limits=httpx.Limits(max_connections=None))
_READY = re.compile(r"(http://\S+)")


class Program:
    """`mashbox` as a process, of which a thread reads; a context manager that leaves nothing."""

    def __init__(self, arguments: Sequence[str], read: Callable[[], None], **options: Any) -> None:
        command = [sys.executable, "-m", "mashbox", *arguments]
        self.process: subprocess.Popen[str] = subprocess.Popen(command, **options)
        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        """What it printed."""
        raise NotImplementedError

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; returns the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(10)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)
        if error:
            print(self.output)


class Server(Program):
    """`mashbox run`, and what tests ask of it."""

    def __init__(self, *options: str) -> None:
        self.lines: deque[str] = deque(maxlen=200)
        self._listening = threading.Event()
        self._url = ""
        super().__init__(
            ["run", "--port", "0", *options],
            self._read,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if not self._url and (found := _READY.search(line)):
                self._url = found[1]
                ADDRESSES.add(httpx.URL(self._url).netloc.decode())
                self._listening.set()
        self._listening.set()

    @property
    def output(self) -> str:
        """What it printed last."""
        return "".join(self.lines)

    def wait_ready(self) -> Server:
        """Wait for the line with the address."""
        assert self._listening.wait(START_SECONDS), self.output
        assert self._url, self.output
        return self

    @property
    def url(self) -> str:
        """Its address, once it has said so."""
        assert self._url, self.output
        return self._url

    def health(self) -> dict[str, object]:
        """The Health object, whatever the status."""
        body: dict[str, object] = HTTP.get(self.url + "/health", timeout=10).json()
        return body

    def chat(self, text: str = "Hi", **fields: object) -> httpx.Response:
        """Ask for a chat completion."""
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 8, **fields}
        return HTTP.post(self.url + "/v1/chat/completions", json=body)

    def wait_for_health(self, seconds: float = 120.0, **wanted: object) -> dict[str, object]:
        """Poll Health until the named fields have the wanted values."""
        deadline = time.monotonic() + seconds
        while True:
            health = self.health()
            if all(health.get(name) == value for name, value in wanted.items()):
                return health
            assert time.monotonic() < deadline, f"{health}\n{self.output}"
            time.sleep(0.05)

    def wait_for_line(self, pattern: str, seconds: float = 60.0) -> None:
        """Wait until it prints a line in which the pattern is found."""
        deadline = time.monotonic() + seconds
        while not any(re.search(pattern, line) for line in list(self.lines)):
            assert time.monotonic() < deadline, self.output
            time.sleep(0.05)

    def descendants(self) -> list[psutil.Process]:
        """Its child processes."""
        return psutil.Process(self.process.pid).children(recursive=True)
