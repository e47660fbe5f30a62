"""Checks an event list against the grammar `Started (PartStart PartDelta* PartEnd)* Finished`."""

from __future__ import annotations

from collections.abc import Iterable

from engine.events import Event, Finished, PartDelta, PartEnd, PartStart, Started


def check_grammar(events: Iterable[Event], complete: bool = True) -> None:
    """Fail unless `events` is a stream, or the beginning of one when not `complete`."""
    started = finished = False
    parts = 0
    open_part: int | None = None
    for event in events:
        assert not finished, f"{event} after Finished"
        match event:
            case Started():
                assert not started, "Started twice"
                started = True
            case PartStart(index=index):
                assert started, "a part before Started"
                assert open_part is None, f"part {index} begins inside part {open_part}"
                assert index == parts, f"part {index} is number {parts}"
                open_part, parts = index, parts + 1
            case PartDelta(index=index, text=text):
                assert index == open_part, f"text for part {index}, but {open_part} is open"
                assert text, "an empty delta"
            case PartEnd(index=index):
                assert index == open_part, f"part {index} ends, but {open_part} is open"
                open_part = None
            case Finished():
                assert started, "Finished before Started"
                assert open_part is None, f"part {open_part} was left open"
                finished = True
    assert finished or not complete, "no Finished"
