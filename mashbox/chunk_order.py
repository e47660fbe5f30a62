"""The order of streams of like chunks, as Completions and Chat Completions have them."""

from __future__ import annotations

from typing import ClassVar

from mashbox.stream_rules import DONE, END, Follows, Json, Same, expect


class CompletionOrder:
    """Completions: texts, the finish, `[DONE]`."""

    names: ClassVar[tuple[str, ...]] = ("id", "created", "model", "system_fingerprint")
    table: ClassVar[dict[str, str]] = {
        "": "delta finish_reason error",
        "delta": "delta finish_reason error",
        "finish_reason": DONE,
        "error": DONE,
    }

    def __init__(self) -> None:
        self._same = Same(*self.names)
        self._follows = Follows(self.table)

    def read(self, event: Json) -> None:
        """Take the next chunk; raises OutOfOrder."""
        self._same.read(event)
        self._follows.read(_chunk_kind(event))


class ChatOrder(CompletionOrder):
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
        """Take the next chunk; raises OutOfOrder."""
        super().read(event)
        if event is END:
            expect(self._counted, "No chunk has the usage, neither the last nor one of its own.")
        kind = _chunk_kind(event)
        timed = kind not in ("finish_reason", "usage") or "timings" in event
        expect(timed, f"The chunk with the {kind} has no timings.")
        self._counted = "usage" in event or kind == "error"
        for choice in event.get("choices", ()):
            for piece in choice["delta"].get("tool_calls", ()):
                self._read_call(piece)

    def _read_call(self, piece: Json) -> None:
        # Only a call's first piece has its id: later ones are told apart by their index alone.
        self._calls += "id" in piece
        count = "its calls are counted from 0, and a call's first piece has its id"
        expect(piece["index"] == self._calls - 1, f"tool_calls[0].index is wrong: {count}.")


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
