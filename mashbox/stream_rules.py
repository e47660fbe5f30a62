"""What orders of event streams are made of: sequence, equality, and the fault that ends both."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

DONE = "[DONE]"
# The end marker has no data of its own; so it has a type, as the events of other protocols have.
END: Json = {"type": DONE}


class OutOfOrder(Exception):
    """An event that may not stand where it does; the text says why."""


def expect(truth: object, otherwise: str) -> None:
    """Raise OutOfOrder with the sentence `otherwise` unless the condition holds."""
    if not truth:
        raise OutOfOrder(otherwise)


class Follows:
    """A table of what may follow what, by kind; the first event follows ""."""

    def __init__(self, table: dict[str, str]) -> None:
        self._after = {kind: following.split() for kind, following in table.items()}
        self.last = ""

    def read(self, kind: str) -> None:
        """Take the next event's kind; raises OutOfOrder."""
        # Whatever comes behind the end is told elsewhere.
        if (following := self._after.get(self.last)) and kind not in following:
            place = f"after {self.last}" if self.last else "first"
            raise OutOfOrder(f"{kind} comes {place}, where {' or '.join(following)} should.")
        self.last = kind


class Same:
    """Fields that have to be equal in all events that have them."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._first: Json = {}

    def read(self, event: Json) -> None:
        """Take the next event; raises OutOfOrder."""
        for name in self._names:
            if name in event:
                first = self._first.setdefault(name, event[name])
                expect(event[name] == first, f"{name} differs from that of the first event.")
