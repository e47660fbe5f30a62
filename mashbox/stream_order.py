"""The order of a stream's events: what may follow what, and how they are numbered.

Each protocol has a class that reads events whose data is valid, one after the other. The first one
out of order ends it: what else is wrong follows from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from mashbox.chunk_order import ChatOrder, CompletionOrder
from mashbox.event_order import MessageOrder, ResponseOrder
from mashbox.stream_rules import END, Json, OutOfOrder


class _Order(Protocol):
    def read(self, event: Json) -> None:
        """Take the next event; raises OutOfOrder."""


_ORDERS: dict[str, type[_Order]] = {
    "ChatCompletionChunk": ChatOrder,
    "Completion": CompletionOrder,
    "MessageStreamEvent": MessageOrder,
    "ResponseStreamEvent": ResponseOrder,
}


def order_faults(schema_name: str, events: Iterable[Json]) -> Iterator[tuple[int, str]]:
    """Give number and sentence of the first event out of order; `[DONE]` is END among them."""
    order = _ORDERS[schema_name]()
    for number, event in enumerate(events, 1):
        try:
            order.read(event)
        except OutOfOrder as fault:
            yield number, str(fault)
            return
        if event is END:
            return
