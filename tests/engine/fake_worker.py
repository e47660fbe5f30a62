"""A worker process whose life the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.config import EngineConfig
from engine.messages import FromWorker, ToWorker


class FakeWorker:
    """Remembers what it is sent; `say` and `die` are the worker's own words and end."""

    def __init__(
        self,
        pid: int,
        on_message: Callable[[FromWorker], None],
        on_exit: Callable[[int, list[str]], None],
    ) -> None:
        self.pid = pid
        self.say = on_message
        self.die = on_exit
        self.received: list[ToWorker] = []
        self.stopped = False
        self.killed = False

    def send(self, message: ToWorker) -> None:
        self.received.append(message)

    def kill(self) -> None:
        self.killed = True
        self.die(-9, [])

    async def stop(self) -> None:
        self.stopped = True
        self.die(0, [])


class FakeWorkers:
    """Starts fake workers, for the supervisor's `start_worker`; the newest is the last."""

    def __init__(self) -> None:
        self.started: list[FakeWorker] = []

    def __call__(
        self,
        config: EngineConfig,
        on_message: Callable[[FromWorker], None],
        on_exit: Callable[[int, list[str]], None],
    ) -> FakeWorker:
        self.started.append(FakeWorker(100 + len(self.started), on_message, on_exit))
        return self.started[-1]

    def __getitem__(self, index: int) -> FakeWorker:
        return self.started[index]

    def __len__(self) -> int:
        return len(self.started)


async def settle() -> None:
    """Let everything run that is ready to run."""
    for _ in range(5):
        await asyncio.sleep(0)
