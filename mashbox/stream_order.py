"""The order of a stream's events: what may follow what, and how they are numbered.

Each protocol has a class that reads events whose data is valid, one after the other. The first one
out of order ends it: what else is wrong follows from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Protocol

Json = dict[str, Any]

DONE = "[DONE]"
# The end marker has no data of its own; so it has a type, as the events of other protocols have.
END: Json = {"type": DONE}


class _OutOfOrder(Exception):
    """An event that may not stand where it does; the text says why."""


class _Order(Protocol):
    def read(self, event: Json) -> None:
        """Take the next event; raises _OutOfOrder."""


def order_faults(schema_name: str, events: Iterable[Json]) -> Iterator[tuple[int, str]]:
    """Give number and sentence of the first event out of order; `[DONE]` is END among them."""
    order = _ORDERS[schema_name]()
    for number, event in enumerate(events, 1):
        try:
            order.read(event)
        except _OutOfOrder as fault:
            yield number, str(fault)
            return
        if event is END:
            return


def _expect(truth: object, otherwise: str) -> None:
    if not truth:
        raise _OutOfOrder(otherwise)


class _Follows:
    """A table of what may follow what, by kind; the first event follows ""."""

    def __init__(self, table: dict[str, str]) -> None:
        self._after = {kind: following.split() for kind, following in table.items()}
        self.last = ""

    def read(self, kind: str) -> None:
        # Whatever comes behind the end is told elsewhere.
        if (following := self._after.get(self.last)) and kind not in following:
            place = f"after {self.last}" if self.last else "first"
            raise _OutOfOrder(f"{kind} comes {place}, where {' or '.join(following)} should.")
        self.last = kind


class _Same:
    """Fields that have to be equal in all events that have them."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._first: Json = {}

    def read(self, event: Json) -> None:
        for name in self._names:
            if name in event:
                first = self._first.setdefault(name, event[name])
                _expect(event[name] == first, f"{name} differs from that of the first event.")


class _Completions:
    """Completions: texts, the finish, `[DONE]`."""

    names: ClassVar[tuple[str, ...]] = ("id", "created", "model", "system_fingerprint")
    table: ClassVar[dict[str, str]] = {
        "": "delta finish_reason error",
        "delta": "delta finish_reason error",
        "finish_reason": DONE,
        "error": DONE,
    }

    def __init__(self) -> None:
        self._same = _Same(*self.names)
        self._follows = _Follows(self.table)

    def read(self, event: Json) -> None:
        """Take the next event."""
        self._same.read(event)
        self._follows.read(_chunk_kind(event))


class _Chat(_Completions):
    """Chat Completions: the role, deltas, the finish, token counts, `[DONE]`."""

    names: ClassVar[tuple[str, ...]] = ("id", "created", "model")
    table: ClassVar[dict[str, str]] = {
        "": "delta.role",
        "delta.role": "delta finish_reason error",
        "delta": "delta finish_reason error",
        "finish_reason": f"usage {DONE}",
        "usage": DONE,
        "error": DONE,
    }

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0
        self._counted = False

    def read(self, event: Json) -> None:
        """Take the next event."""
        super().read(event)
        if event is END:
            _expect(self._counted, "No chunk has the usage, neither the last nor one of its own.")
        kind = _chunk_kind(event)
        timed = kind not in ("finish_reason", "usage") or "timings" in event
        _expect(timed, f"The chunk with the {kind} has no timings.")
        self._counted = "usage" in event or kind == "error"
        for choice in event.get("choices", ()):
            for piece in choice["delta"].get("tool_calls", ()):
                self._read_call(piece)

    def _read_call(self, piece: Json) -> None:
        self._calls += "id" in piece
        count = "its calls are counted from 0, and a call's first piece has its id"
        _expect(piece["index"] == self._calls - 1, f"tool_calls[0].index is wrong: {count}.")


def _chunk_kind(event: Json) -> str:
    if event is END:
        return DONE
    if not event["choices"]:
        return "usage"
    (choice,) = event["choices"]
    if "error" in event:
        return "error"
    if choice["finish_reason"]:
        return "finish_reason"
    return "delta.role" if "role" in choice.get("delta", ()) else "delta"


class _Messages:
    """Messages: the start, blocks one after the other, the delta of the message, its stop."""

    def __init__(self) -> None:
        self._blocks = 0
        self._block = self._delta = ""
        self._follows = _Follows(
            {
                "": "message_start error",
                "message_start": "content_block_start message_delta error",
                "content_block_start": "content_block_delta content_block_stop error",
                "content_block_delta": "content_block_delta content_block_stop error",
                "content_block_stop": "content_block_start message_delta error",
                "message_delta": "message_stop error",
            }
        )

    def read(self, event: Json) -> None:
        """Take the next event."""
        if event["type"] == "ping":
            return
        self._follows.read(event["type"])
        if event["type"] == "content_block_start":
            self._blocks += 1
            self._block = event["content_block"]["type"]
            self._delta = ""
        if "index" in event:
            index = self._blocks - 1
            _expect(event["index"] == index, f"index should be {index}, the number of the block.")
        if event["type"] == "content_block_delta":
            self._delta = event["delta"]["type"]
            fits = self._delta in _DELTAS[self._block]
            _expect(fits, f"{self._delta} is in a block of type {self._block}.")
        if event["type"] == "content_block_stop" and self._block == "thinking":
            signed = self._delta == "signature_delta"
            _expect(signed, "a block of type thinking ends without its signature_delta.")


_DELTAS = {
    "text": ("text_delta",),
    "thinking": ("thinking_delta", "signature_delta"),
    "tool_use": ("input_json_delta",),
}


class _Responses:
    """Responses: created, in_progress, items one after the other, and how the response ended."""

    def __init__(self) -> None:
        self._same = _Same("response.id")
        self._events = self._items = 0
        self._item_id = self._said = ""
        self._follows = _Follows(_RESPONSES)

    def read(self, event: Json) -> None:
        """Take the next event."""
        self._events += 1
        kind = event["type"].removeprefix("response.")
        # After the first, those that are in progress are signs of life.
        if kind != "in_progress" or self._follows.last in ("", "created"):
            self._follows.read(kind)
        number = event.get("sequence_number", self._events)
        _expect(number == self._events, f"sequence_number should be {self._events}.")
        if "response" in event:
            self._same.read({"response.id": event["response"]["id"]})
        if kind == "output_item.added":
            self._items += 1
            self._item_id = event["item"]["id"]
        if "output_index" in event:
            self._read_place(event)
            self._read_text(kind, event)

    def _read_place(self, event: Json) -> None:
        index = self._items - 1
        _expect(event["output_index"] == index, f"output_index should be {index}, as it was added.")
        name, given = "item_id", event.get("item_id")
        if "item" in event:
            name, given = "item.id", event["item"]["id"]
        _expect(given == self._item_id, f"{name} differs from that of the item that was added.")

    def _read_text(self, kind: str, event: Json) -> None:
        if kind.endswith(".added"):
            self._said = ""
        self._said += event.get("delta", "")
        for name in {"text", "arguments", "input"} & event.keys():
            _expect(event[name] == self._said, f"{name} differs from the deltas before it.")


_TEXTS = ("output_text", "reasoning_text")
_INPUTS = ("function_call_arguments", "custom_tool_call_input")
_OUTCOMES = "output_item.added completed incomplete error failed"
_RESPONSES = {
    "": "created",
    "created": "in_progress",
    "in_progress": _OUTCOMES,
    "output_item.added": " ".join(["content_part.added", *(f"{n}.delta {n}.done" for n in _INPUTS)])
    + " output_item.done error",
    "content_part.added": " ".join(f"{name}.delta {name}.done" for name in _TEXTS) + " error",
    **{f"{name}.delta": f"{name}.delta {name}.done error" for name in _TEXTS + _INPUTS},
    **{f"{name}.done": "content_part.done error" for name in _TEXTS},
    **{f"{name}.done": "output_item.done error" for name in _INPUTS},
    "content_part.done": "content_part.added output_item.done error",
    "output_item.done": _OUTCOMES,
    "error": "failed",
}

_ORDERS: dict[str, type[_Order]] = {
    "ChatCompletionChunk": _Chat,
    "Completion": _Completions,
    "MessageStreamEvent": _Messages,
    "ResponseStreamEvent": _Responses,
}
