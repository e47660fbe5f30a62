"""The order of streams of named events, as Messages and Responses have them."""

from __future__ import annotations

from mashbox.stream_rules import Follows, Json, Same, expect


class MessageOrder:
    """Messages: the start, blocks one after the other, the delta of the message, its stop."""

    def __init__(self) -> None:
        self._blocks = 0
        self._block = self._delta = ""
        self._follows = Follows(
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
        """Take the next event; raises OutOfOrder."""
        # A sign of life may stand anywhere.
        if event["type"] == "ping":
            return
        self._follows.read(event["type"])
        if event["type"] == "content_block_start":
            self._blocks += 1
            self._block = event["content_block"]["type"]
            self._delta = ""
        if "index" in event:
            index = self._blocks - 1
            expect(event["index"] == index, f"index should be {index}, the number of the block.")
        if event["type"] == "content_block_delta":
            self._delta = event["delta"]["type"]
            fits = self._delta in _DELTAS[self._block]
            expect(fits, f"{self._delta} is in a block of type {self._block}.")
        if event["type"] == "content_block_stop" and self._block == "thinking":
            signed = self._delta == "signature_delta"
            expect(signed, "a block of type thinking ends without its signature_delta.")


_DELTAS = {
    "text": ("text_delta",),
    "thinking": ("thinking_delta", "signature_delta"),
    "tool_use": ("input_json_delta",),
}


class ResponseOrder:
    """Responses: created, in_progress, items one after the other, and how the response ended."""

    def __init__(self) -> None:
        self._same = Same("response.id")
        self._events = self._items = 0
        self._item_id = self._said = ""
        self._follows = Follows(_RESPONSES)

    def read(self, event: Json) -> None:
        """Take the next event; raises OutOfOrder."""
        self._events += 1
        kind = event["type"].removeprefix("response.")
        # After the first, those that are in progress are signs of life.
        if kind != "in_progress" or self._follows.last in ("", "created"):
            self._follows.read(kind)
        number = event.get("sequence_number", self._events)
        expect(number == self._events, f"sequence_number should be {self._events}.")
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
        expect(event["output_index"] == index, f"output_index should be {index}, as it was added.")
        name, given = "item_id", event.get("item_id")
        if "item" in event:
            name, given = "item.id", event["item"]["id"]
        expect(given == self._item_id, f"{name} differs from that of the item that was added.")

    def _read_text(self, kind: str, event: Json) -> None:
        if kind.endswith(".added"):
            self._said = ""
        self._said += event.get("delta", "")
        for name in {"text", "arguments", "input"} & event.keys():
            expect(event[name] == self._said, f"{name} differs from the deltas before it.")


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
