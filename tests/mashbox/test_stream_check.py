"""Event streams: how they are taken apart, and how they may end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from mashbox.app import contract
from mashbox.stream_check import LAST_EVENTS, Event, check_stream, read_events

STOP = 'event: message_stop\ndata: {"type": "message_stop"}\n\n'
PING = 'event: ping\ndata: {"type": "ping"}\n\n'
ERROR = 'event: error\ndata: {"type": "error"}\n\n'
TEXT = 'data: {"choices": [{"text": "a", "finish_reason": null}]}\n\n'
LAST = 'data: {"choices": [{"text": "", "finish_reason": "stop"}]}\n\n'
DONE = "data: [DONE]\n\n"


def no_numbers(value: Any) -> Iterable[str]:
    return ["It should not be a number."] if isinstance(value, int) else []


def check(text: str, schema: str = "Completion") -> list[tuple[str, str]]:
    return list(check_stream(text, schema, no_numbers))


def test_events_are_read_as_the_standard_says() -> None:
    text = ": comment\n\nevent: a\ndata: 1\ndata:2\nid: 7\n\nretry: 5\n\n: x\ndata:  3"
    assert list(read_events(text)) == [Event("a", "1\n2"), Event("", " 3")]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_whole_stream_has_no_faults(newline: str) -> None:
    assert check((TEXT + ": keep-alive\n\n" + LAST + DONE).replace("\n", newline)) == []
    assert check((PING + ERROR).replace("\n", newline), "MessageStreamEvent") == []


def test_what_is_wrong_with_many_events_is_said_once() -> None:
    assert check("data: {}\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\ndata: [DONE]\n\n") == [
        ("event 2 and 2 more", "It should not be a number.")
    ]


@pytest.mark.parametrize(
    ("text", "schema", "part", "sentence"),
    [
        (TEXT, "Completion", "stream", "it ends without [DONE]"),
        ("", "Completion", "stream", "it ends without [DONE]"),
        (TEXT + "data: [DO", "Completion", "event 2", "in the middle of an event"),
        (LAST + DONE + TEXT, "Completion", "event 3", "comes after [DONE]"),
        (TEXT + DONE, "Completion", "event 2", "[DONE] comes after delta, where delta or"),
        ('data: {"a\n\ndata: [DONE]\n\n', "Completion", "event 1", "not valid JSON"),
        ("data: NaN\n\ndata: [DONE]\n\n", "Completion", "event 1", "not valid JSON"),
        ("event: ping\ndata: {}\n\n" + STOP, "MessageStreamEvent", "event 1", "differs from the"),
        (ERROR + PING, "MessageStreamEvent", "event 2", "comes after error"),
        (PING, "MessageStreamEvent", "stream", "without message_stop or error"),
        ("", "ResponseStreamEvent", "stream", "without response.completed or"),
    ],
)
def test_a_fault_of_a_stream(text: str, schema: str, part: str, sentence: str) -> None:
    ((found_part, said),) = check(text, schema)
    assert found_part == part
    assert sentence in said


def test_the_last_events_are_those_of_the_contracts_named_streams() -> None:
    streams = {
        response["content"]["text/event-stream"]["schema"]["$ref"].rpartition("/")[2]
        for item in contract()["paths"].values()
        for operation in item.values()
        for response in operation["responses"].values()
        if "text/event-stream" in response.get("content", {})
    }
    schemas = contract()["components"]["schemas"]
    assert {name for name in streams if "discriminator" in schemas[name]} == set(LAST_EVENTS)
    for name, last in LAST_EVENTS.items():
        assert set(last) < set(schemas[name]["discriminator"]["mapping"])
