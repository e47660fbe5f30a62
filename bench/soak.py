"""Soak: random requests, clients that leave, bursts, and a worker that is killed again and again.

    python -m bench.soak --requests 5000 --seed 1

Starts a server of the scripted model. Every request has to end in exactly one whole answer or one
clear error. In the end nothing runs or waits, all slots serve, and memory, threads and open files
are where they were. Prints what happened and what was wrong; exits with 1 if anything was.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from bench.peers import Peer, free_port, started
from bench.protocols import WIRES
from bench.wire import Broken, Json, Wire, expect

SLOTS = 4
ROUND = 24
# More than run and wait together, so that some are refused.
BURST = SLOTS + 32 + 24
ANSWER_SECONDS = 60.0
SETTLE_SECONDS = 20.0

TEXTS = {
    "short": "Yes.",
    "long": "It goes on and on, and then a little further, until it has come to its end.",
    "crash": "Never whole.",
    "fail": "Never whole either.",
}
KINDS, SHARES = ["short", "long", "fail", "crash"], [50, 45, 4, 1]
SCRIPT: Json = {
    "answers": [
        {"match": {"user": "crash"}, "parts": [{"text": TEXTS["crash"]}], "crash_at": 2},
        {"match": {"user": "fail"}, "parts": [{"text": TEXTS["fail"]}], "raise_at": 2},
        {"match": {"user": "long"}, "parts": [{"text": TEXTS["long"]}], "token_delay_ms": 10},
        {"parts": [{"text": TEXTS["short"]}]},
    ]
}
GAUGES = ("num_requests_running{", "num_requests_waiting{", "kv_cache_usage_perc{")


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the processes hold while there is nothing to do; sizes in MB."""

    server_rss: float
    worker_rss: float
    threads: int
    files: int

    def grown(self, since: Footprint) -> list[str]:
        """Say what is more than it was; the worker is another one after every kill."""
        grown = []
        if self.server_rss > since.server_rss * 1.05 + 8:
            grown.append(f"the server grew from {since.server_rss:.0f} to {self.server_rss:.0f} MB")
        if self.threads > since.threads:
            grown.append(f"{self.threads} threads instead of {since.threads}")
        if self.files > since.files:
            grown.append(f"{self.files} open files instead of {since.files}")
        return grown


@dataclass(slots=True)
class Report:
    """How the requests ended, and what was wrong."""

    endings: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    footprints: list[Footprint] = field(default_factory=list)
    restarts: int = 0

    def __str__(self) -> str:
        """Write it for people."""
        lines = [f"{count:7} {ending}" for ending, count in sorted(self.endings.items())]
        lines += [f"{self.restarts:7} restarts of the worker", *map(str, self.footprints)]
        return "\n".join([*lines, *(f"WRONG: {problem}" for problem in self.problems)])


class Soak:
    """One run against the server at `url` with process id `pid`."""

    def __init__(self, url: str, pid: int, seed: int) -> None:
        self.report = Report()
        self._url = url
        self._server = psutil.Process(pid)
        self._dice = random.Random(seed)

    async def run(self, requests: int) -> Report:
        """Send `requests` in rounds, and measure after the first tenth, half way and at the end."""
        sent, marks = 0, [requests // 10, requests // 2, requests]
        while marks:
            sent += await self._round()
            if sent >= marks[0]:
                marks.pop(0)
                self.report.footprints.append(await self._at_rest())
        await self._check_slots()
        first, *_, last = self.report.footprints
        self.report.problems += last.grown(first)
        return self.report

    async def _round(self) -> int:
        """Requests within a second, or a burst; a kill may fall among them."""
        burst = self._dice.random() < 0.1
        size, seconds = (BURST, 0.0) if burst else (ROUND, 1.0)
        async with self._client() as client, asyncio.TaskGroup() as group:
            for _ in range(size):
                group.create_task(self._request(client, seconds, self._dice.getrandbits(64)))
            if self._dice.random() < 0.3:
                group.create_task(self._kill_worker(client, self._dice.random()))
        async with self._client() as client:
            await self._health(client, lambda health: health["status"] == "ok")
        return size

    def _client(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None)
        return httpx.AsyncClient(base_url=self._url, timeout=ANSWER_SECONDS, limits=limits)

    async def _request(self, client: httpx.AsyncClient, seconds: float, seed: int) -> None:
        dice = random.Random(seed)
        wire, streamed = dice.choice(WIRES), dice.random() < 0.5
        (kind,) = dice.choices(KINDS, SHARES)
        patience = dice.uniform(0, 0.4) if dice.random() < 0.15 else None
        await asyncio.sleep(dice.uniform(0, seconds))
        try:
            async with asyncio.timeout(patience):
                response = await client.post(wire.path, json=wire.body(kind, stream=streamed))
            ending = judge(wire, kind, response)
        except TimeoutError:
            ending = "left"
        except (Broken, httpx.HTTPError) as error:
            ending = "broken"
            self.report.problems.append(f"{wire.path} {kind}: {type(error).__name__} {error}")
        way = "streamed" if streamed else "whole"
        self.report.endings[f"{type(wire).__name__:12} {way:9} {ending}"] += 1

    async def _kill_worker(self, client: httpx.AsyncClient, seconds: float) -> None:
        await asyncio.sleep(seconds)
        health = (await client.get("/health")).json()
        if health["status"] == "ok":
            with contextlib.suppress(ProcessLookupError):
                os.kill(health["worker_pid"], signal.SIGKILL)

    async def _health(self, client: httpx.AsyncClient, wanted: Callable[[Json], bool]) -> Json:
        """Wait for a Health object that is as it should be."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            health: Json = (await client.get("/health")).json()
            if wanted(health):
                return health
            if time.monotonic() > deadline:
                raise RuntimeError(f"after {SETTLE_SECONDS:.0f} s health says {health}")
            await asyncio.sleep(0.02)

    async def _at_rest(self) -> Footprint:
        """Check that nothing runs or waits, and measure once connections are closed."""
        async with self._client() as client:
            health = await self._health(
                client, lambda h: h["status"] == "ok" and h["live_rows"] == h["waiting"] == 0
            )
            metrics = (await client.get("/metrics")).text
        self.report.restarts = health["worker_restarts"]
        for line in metrics.splitlines():
            if line.removeprefix("mashbox:").startswith(GAUGES) and not line.endswith(" 0.0"):
                self.report.problems.append(f"at rest: {line}")
        return await self._footprint(health["worker_pid"])

    async def _footprint(self, worker_pid: int) -> Footprint:
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            taken = Footprint(
                server_rss=round(self._server.memory_info().rss / 1e6, 1),
                worker_rss=round(psutil.Process(worker_pid).memory_info().rss / 1e6, 1),
                threads=self._server.num_threads(),
                files=self._server.num_fds(),
            )
            first = self.report.footprints[0] if self.report.footprints else taken
            if not taken.grown(first) or time.monotonic() > deadline:
                return taken
            await asyncio.sleep(0.2)

    async def _check_slots(self) -> None:
        """Have every slot serve at the same time."""
        async with self._client() as client, asyncio.TaskGroup() as group:
            posts = [
                group.create_task(client.post(wire.path, json=wire.body("long"))) for wire in WIRES
            ]
            await self._health(client, lambda health: health["live_rows"] == SLOTS)
        for wire, post in zip(WIRES, posts, strict=True):
            expect(judge(wire, "long", post.result()) == "200 whole", "a slot does not serve")


def judge(wire: Wire, kind: str, response: httpx.Response) -> str:
    """Name how a request ended; raises Broken where that is neither whole nor a clear error."""
    answer = wire.read(response)
    if answer.complete:
        expect(answer.text == TEXTS[kind] and kind in ("short", "long"), f"a wrong {answer}")
    else:
        expect(answer.faulted or answer.status in (429, 503, 529), f"no clear error: {answer}")
        expect(TEXTS[kind].startswith(answer.text), f"a wrong {answer}")
    return f"{answer.status} {'whole' if answer.complete else answer.error_type}"


def soak(requests: int, seed: int) -> Report:
    """Run against a server of its own; raises RuntimeError when it does not come to rest."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.json")
        script.write_text(json.dumps(SCRIPT))
        port = free_port()
        options = ("--mock-script", str(script), "--port", str(port), "--slots", str(SLOTS))
        command = (sys.executable, "-m", "mashbox", "run", "mock", *options)
        peer = Peer("mashbox", command, port, "mock")
        with started(peer, Path(folder, "log")) as running:
            return asyncio.run(Soak(peer.url, running.pid, seed).run(requests))


def main() -> None:
    """Run, print, and tell by the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    report = soak(arguments.requests, arguments.seed)
    print(report)
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
