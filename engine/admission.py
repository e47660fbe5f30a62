"""Admission: who may wait for a slot, whose turn it is, and what a refused request is told."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, KeysView
from itertools import count

from engine.errors import QueueFull

MAX_WAITING_PER_TENANT = 32
MAX_WAITING = 256
# Weight of the newest request in the running mean of their durations.
_NEWEST = 0.2


class Admission:
    """The requests of one engine, by id: waiting in a queue for each tenant, or running.

    Tenants take turns; within one, first come is first served. Belongs to the event loop's thread.
    """

    def __init__(self, slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._slots = slots
        self._clock = clock
        self._tenants: dict[str, str] = {}
        self._queues: dict[str, deque[str]] = {}
        self._turns = count(1)
        # Outlives a tenant's queue: to leave and come back wins no turn.
        self._last_turn: dict[str, int] = {}
        self._started_at: dict[str, float] = {}
        # A guess until the first request is over.
        self._mean_seconds = 1.0

    @property
    def running(self) -> KeysView[str]:
        """Requests that hold a slot, in the order in which they took it."""
        return self._started_at.keys()

    @property
    def waiting(self) -> int:
        """Requests admitted that hold no slot."""
        return len(self._tenants) - len(self.running)

    def enter(self, request_id: str, tenant: str) -> None:
        """Let a request in; raises QueueFull when it would have to wait and too many do."""
        if len(self._tenants) >= self._slots:
            self._check_limits(tenant)
        self._tenants[request_id] = tenant
        self._queues.setdefault(tenant, deque()).append(request_id)

    def next(self) -> str | None:
        """Take the next request out of the queues: of the tenant whose last turn is longest ago."""
        if not self._queues:
            return None
        # Who has never had a turn comes before all others.
        tenant = min(self._queues, key=lambda name: self._last_turn.get(name, 0))
        self._last_turn[tenant] = next(self._turns)
        request_id = self._queues[tenant].popleft()
        if not self._queues[tenant]:
            del self._queues[tenant]
        return request_id

    def started(self, request_id: str) -> None:
        """The request has taken a slot."""
        self._started_at.setdefault(request_id, self._clock())

    def stopped(self, request_id: str) -> None:
        """The request has lost its slot; it waits again."""
        self._started_at.pop(request_id, None)

    def leave(self, request_id: str) -> None:
        """The request is over, however it ended and wherever it stood."""
        tenant = self._tenants.pop(request_id)
        queue = self._queues.get(tenant, ())
        if request_id in queue:
            self._queues[tenant].remove(request_id)
            if not self._queues[tenant]:
                del self._queues[tenant]
        if (started_at := self._started_at.pop(request_id, None)) is not None:
            self._mean_seconds += _NEWEST * (self._clock() - started_at - self._mean_seconds)

    def _check_limits(self, tenant: str) -> None:
        # As many as slots are free start at the next device calls: admitted, but not waiting.
        about_to_start = self._slots - len(self.running)
        waiting = [name for id, name in self._tenants.items() if id not in self.running]
        waiting = waiting[about_to_start:]
        # Checked first: who floods is told so, also when others have filled the rest of the queue.
        if waiting.count(tenant) >= MAX_WAITING_PER_TENANT:
            raise QueueFull(
                f"{MAX_WAITING_PER_TENANT} of your requests are waiting already; retry later.",
                self._seconds_a_turn(len(self._queues)),
                tenant_limit=True,
            )
        if len(waiting) >= MAX_WAITING:
            raise QueueFull(
                f"The queue is full ({MAX_WAITING} requests are waiting); retry later.",
                self._seconds_a_turn(1),
                tenant_limit=False,
            )

    def _seconds_a_turn(self, tenants: int) -> int:
        """Whole seconds until one of `tenants` that take turns should have moved up by one."""
        ages = [self._clock() - at for at in self._started_at.values()]
        # While none has ended yet, how long the running ones have taken says more than the mean.
        seconds = max(self._mean_seconds, sum(ages) / len(ages) if ages else 0.0)
        return max(1, math.ceil(tenants * seconds / self._slots))
