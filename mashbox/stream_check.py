"""Event streams of a recording: taken apart, and checked event by event."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from mashbox.stream_order import order_faults
from mashbox.stream_rules import DONE, END

_NEWLINES = re.compile("\r\n?")
# The schemas of events that have names; the data of any other stream's last event is `[DONE]`.
LAST_EVENTS = {
    "MessageStreamEvent": ("message_stop", "error"),
    "ResponseStreamEvent": ("response.completed", "response.incomplete", "response.failed"),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; its `name` is empty where the stream gives none."""

    name: str
    data: str


def check_stream(
    text: str, schema_name: str, faults: Callable[[Any], Iterable[str]]
) -> Iterator[tuple[str, str]]:
    """Check the events of a whole stream; gives the events' numbers and sentences.

    `faults` says what is wrong with an event's data. What is wrong with many events is said once.
    """
    whole, _, rest = _NEWLINES.sub("\n", text).rpartition("\n\n")
    events = list(read_events(whole))
    found: dict[str, list[int]] = {}
    for number, event in enumerate(events, 1):
        for sentence in _event_faults(event, faults):
            found.setdefault(sentence, []).append(number)
    for sentence, numbers in found.items():
        more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
        yield f"event {numbers[0]}{more}", sentence
    if not found:
        for number, sentence in order_faults(schema_name, map(read_data, events)):
            yield f"event {number}", sentence
    yield from _end_faults(events, rest, LAST_EVENTS.get(schema_name, (DONE,)))


def read_events(text: str) -> Iterator[Event]:
    """Take apart a text/event-stream with plain newlines, without its last empty line."""
    for block in text.split("\n\n"):
        fields = [_field(line) for line in block.split("\n") if not line.startswith(":")]
        if data := [value for name, value in fields if name == "data"]:
            names = [value for name, value in fields if name == "event"]
            yield Event(names[-1] if names else "", "\n".join(data))


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name, value.removeprefix(" ")


def _event_faults(event: Event, faults: Callable[[Any], Iterable[str]]) -> Iterator[str]:
    if event.data == DONE:
        return
    try:
        value = from_json(event.data, allow_inf_nan=False)
    except ValueError as error:
        yield f"The data is not valid JSON: {error}."
        return
    yield from faults(value)
    if event.name and isinstance(value, dict) and value.get("type") != event.name:
        yield "The event's name differs from the type in its data."


def read_data(event: Event) -> Any:
    """Parse an event's data; raises ValueError."""
    return END if event.data == DONE else from_json(event.data)


def _end_faults(events: list[Event], rest: str, last: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    ends = [number for number, event in enumerate(events, 1) if _kind(event) in last]
    if rest.strip():
        yield f"event {len(events) + 1}", "The stream is cut off in the middle of an event."
    elif not ends:
        yield "stream", f"The stream is cut off: it ends without {' or '.join(last)}."
    elif ends[0] < len(events):
        yield f"event {ends[0] + 1}", f"An event comes after {_kind(events[ends[0] - 1])}."


def _kind(event: Event) -> str:
    return event.name or event.data
