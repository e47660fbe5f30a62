"""What every protocol's encoder does: events in, wire chunks and the whole answer out."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pydantic import BaseModel

from engine.events import Event
from handlers.errors import ApiError


class Encoder(Protocol):
    """Encodes one answer; the same instance makes its stream and, folded, its whole body."""

    def start(self) -> list[bytes]:
        """Give the chunks that go out before any event."""

    def feed(self, event: Event) -> list[bytes]:
        """Add an event to the answer and give its chunks."""

    def fail(self, error: ApiError) -> list[bytes]:
        """Give the chunks that end a stream whose request failed."""

    def result(self) -> BaseModel:
        """Give the whole answer; complete once `Finished` was fed."""


@runtime_checkable
class KeepsAlive(Protocol):
    """An encoder with a sign of life of its own; comments serve the others."""

    def keep_alive(self) -> bytes:
        """Give the chunk that goes out in a long silence, in its place among the others."""
