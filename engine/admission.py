"""Admission: how many requests may wait for a slot, and what a refused one is told."""

from __future__ import annotations

import math
from itertools import islice

from engine.errors import QueueFull

MAX_WAITING_PER_TENANT = 32
MAX_WAITING = 256
# Weight of the newest request in the running mean of their durations.
_NEWEST = 0.2


class Admission:
    """Counts running and waiting requests of one engine; used from the event loop only."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._waiting: dict[str, str] = {}
        self._running: set[str] = set()
        self._mean_seconds = 1.0

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests admitted that hold no slot yet."""
        return len(self._waiting)

    def enter(self, request_id: str, tenant: str) -> None:
        """Let a request in; raises QueueFull when it would have to wait and too many do."""
        if self.running + self.waiting >= self._slots:
            self._check_limits(tenant)
        self._waiting[request_id] = tenant

    def started(self, request_id: str) -> None:
        """The request has taken a slot."""
        if self._waiting.pop(request_id, None) is not None:
            self._running.add(request_id)

    def leave(self, request_id: str, seconds: float) -> None:
        """The request is over, however it ended, `seconds` after it took its slot."""
        self._waiting.pop(request_id, None)
        if request_id in self._running:
            self._running.discard(request_id)
            self._mean_seconds += _NEWEST * (seconds - self._mean_seconds)

    def _check_limits(self, tenant: str) -> None:
        # The oldest entries start at the next device call: admitted, but not waiting.
        about_to_start = self._slots - self.running
        waiting = list(islice(self._waiting.values(), about_to_start, None))
        if waiting.count(tenant) >= MAX_WAITING_PER_TENANT:
            raise QueueFull(
                f"{MAX_WAITING_PER_TENANT} of your requests are waiting already; retry later.",
                self._retry_after(),
                tenant_limit=True,
            )
        if len(waiting) >= MAX_WAITING:
            raise QueueFull(
                f"The queue is full ({MAX_WAITING} requests are waiting); retry later.",
                self._retry_after(),
                tenant_limit=False,
            )

    def _retry_after(self) -> int:
        """Seconds until a waiting place should be free: one request's mean time over the slots."""
        return max(1, math.ceil(self._mean_seconds / self._slots))
