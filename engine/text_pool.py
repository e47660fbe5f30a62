"""The threads that render and tokenise: never in the way of the event loop, or of short texts."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from engine.errors import Stopping

T = TypeVar("T")
Cancelled = Callable[[], bool]

# A tenth of a second of tokenising: what a short text may have to wait for.
SHORT = 2**18


class Abandoned(Exception):
    """Raised by work that nobody waits for any more."""


def never() -> bool:
    """Say that work is still wanted, for callers that always wait for it."""
    return False


class TextPool:
    """Two lanes of one thread each, so that two cores at most are taken.

    Texts of more than `SHORT` characters have a lane of their own. In each lane tenants take turns.
    """

    def __init__(self) -> None:
        self._short = ThreadPoolExecutor(1, thread_name_prefix="text-short")
        self._long = ThreadPoolExecutor(1, thread_name_prefix="text-long")
        self._closed = threading.Event()
        # A tenant's texts enter a lane one by one, so that its queue holds one of each tenant.
        self._turns: dict[tuple[Executor, str], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self, tenant: str, size: int, work: Callable[[Cancelled], T]) -> T:
        """Do `work` on a text of about `size` characters; raises what it raises.

        `work` is given a function that tells whether to stop by raising Abandoned: nobody waits
        any more, or the pool is closed. The latter comes out as Stopping.
        """
        left = threading.Event()

        def cancelled() -> bool:
            return left.is_set() or self._closed.is_set()

        lane = self._short if size <= SHORT else self._long
        try:
            async with self._turns[lane, tenant]:
                if cancelled():
                    raise Abandoned
                return await asyncio.get_running_loop().run_in_executor(lane, work, cancelled)
        except Abandoned:
            # A client that left waits for nothing any more, so it is the pool that was closed.
            raise Stopping from None
        finally:
            # To cancel the waiting task does not stop the thread.
            left.set()

    def close(self) -> None:
        """Stop all work at its next look at `cancelled`."""
        self._closed.set()
        for lane in (self._short, self._long):
            lane.shutdown(wait=False)
