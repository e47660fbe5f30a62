"""Streams of the application, and the same with valid events moved, left out or renumbered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from engine.errors import EngineError
from engine.events import Finished, FinishReason, PartDelta, PartEnd, PartStart
from mashbox.stream_check import read_data, read_events
from mashbox.stream_order import order_faults
from tests.handlers.asgi import QUESTION, client
from tests.handlers.event_streams import event_streams
from tests.handlers.scripted_engine import STARTED, TIMINGS, USAGE, ScriptedEngine, Step

Json = dict[str, Any]

PATHS = {
    "ChatCompletionChunk": "/v1/chat/completions",
    "Completion": "/v1/completions",
    "MessageStreamEvent": "/v1/messages",
    "ResponseStreamEvent": "/v1/responses",
}
BODY: Json = {**QUESTION, "prompt": "Hi", "input": "Hi", "stream": True}
STEPS: list[Step] = [
    STARTED,
    PartStart(0, "reasoning"),
    PartDelta(0, "Hm"),
    PartEnd(0),
    PartStart(1, "text"),
    PartDelta(1, "Hel"),
    PartDelta(1, "lo"),
    PartEnd(1),
    PartStart(2, "tool_call", "ring", "k1"),
    PartDelta(2, '{"a"'),
    PartDelta(2, ": 1}"),
    PartEnd(2),
    Finished(FinishReason.TOOL_CALLS, None, USAGE, TIMINGS),
]
CHAT, COMPLETION, MESSAGE, RESPONSE = PATHS


async def stream(schema: str, steps: Sequence[Step], **fields: Any) -> list[Json]:
    async with client(ScriptedEngine(steps)) as http:
        answer = await http.post(PATHS[schema], json=BODY | fields)
    return [read_data(event) for event in read_events(answer.text.removesuffix("\n\n"))]


@pytest.mark.parametrize("schema", PATHS)
@settings(max_examples=20, deadline=None)
@given(steps=event_streams())
def test_what_the_application_sends_is_in_order(schema: str, steps: list[Step]) -> None:
    if schema == COMPLETION:
        steps = [step for step in steps if not isinstance(step, PartStart | PartDelta | PartEnd)]
    events = asyncio.run(stream(schema, steps))
    assert list(order_faults(schema, events)) == []


@pytest.mark.parametrize("schema", PATHS)
@pytest.mark.parametrize("place", [0, 2, 6])
async def test_so_is_what_ends_in_an_error(schema: str, place: int) -> None:
    steps = STEPS[4:] if schema == COMPLETION else STEPS
    events = await stream(schema, [STARTED, *steps[1:place], EngineError("No.")])
    assert list(order_faults(schema, events)) == []


async def test_token_counts_may_have_a_chunk_of_their_own() -> None:
    events = await stream(CHAT, STEPS, stream_options={"include_usage": True})
    assert list(order_faults(CHAT, events)) == []
    del events[-2]
    assert list(order_faults(CHAT, events)) == [
        (len(events), "No chunk has the usage, neither the last nor one of its own.")
    ]


def swap(one: int, other: int) -> Callable[[list[Json]], None]:
    def change(events: list[Json]) -> None:
        events[one], events[other] = events[other], events[one]

    return change


def drop(place: int) -> Callable[[list[Json]], Json]:
    return lambda events: events.pop(place)


def put(place: int, *keys: str | int, value: Any) -> Callable[[list[Json]], None]:
    def change(events: list[Json]) -> None:
        target: Any = events[place]
        for key in keys[:-1]:
            target = target[key]
        target[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("schema", "change", "number", "said"),
    [
        (CHAT, drop(0), 1, "delta comes first, where delta.role should"),
        (CHAT, drop(-2), -1, "[DONE] comes after delta, where delta or finish_reason or error"),
        (CHAT, swap(-2, -3), -2, "delta comes after finish_reason, where usage or [DONE] should"),
        (CHAT, put(2, "id", value="chatcmpl-x"), 3, "id differs from that of the first event"),
        (CHAT, put(-2, "created", value=0), -2, "created differs"),
        (
            CHAT,
            lambda events: events[-2].pop("timings"),
            -2,
            "The chunk with the finish_reason",
        ),
        (CHAT, drop(4), 5, "tool_calls[0].index is wrong"),
        (MESSAGE, drop(0), 2, "content_block_start comes first, where message_start or error"),
        (MESSAGE, drop(4), 5, "a block of type thinking ends without its signature_delta"),
        (MESSAGE, drop(5), 6, "content_block_start comes after content_block_delta, where"),
        (MESSAGE, swap(2, 3), 3, "content_block_delta comes after message_start"),
        (MESSAGE, put(3, "index", value=1), 4, "index should be 0, the number of the block"),
        (MESSAGE, drop(-2), -1, "message_stop comes after content_block_stop"),
        (MESSAGE, put(2, "content_block", "type", value="text"), 4, "thinking_delta is in a block"),
        (RESPONSE, put(4, "sequence_number", value=4), 5, "sequence_number should be 5."),
        (RESPONSE, put(0, "sequence_number", value=0), 1, "sequence_number should be 1."),
        (RESPONSE, drop(1), 2, "output_item.added comes after created, where in_progress should"),
        (RESPONSE, drop(-2), -1, "completed comes after function_call_arguments.done, where"),
        (RESPONSE, drop(4), 5, "sequence_number should be 5."),
        (RESPONSE, swap(4, 5), 5, "sequence_number should be 5."),
        (RESPONSE, put(2, "output_index", value=1), 3, "output_index should be 0, as it was added"),
        (RESPONSE, put(4, "item_id", value="rs_x"), 5, "item_id differs from that of the item"),
        (RESPONSE, put(4, "delta", value="Ha"), 6, "text differs from the deltas before it"),
        (RESPONSE, put(-1, "response", "id", value="resp_x"), -1, "response.id differs"),
    ],
)
async def test_an_event_out_of_order_is_told(
    schema: str, change: Callable[[list[Json]], object], number: int, said: str
) -> None:
    events = await stream(schema, STEPS)
    change(events)
    found = list(order_faults(schema, events))
    ((place, sentence),) = found
    assert said in sentence
    assert place == (number if number > 0 else len(events) + 1 + number)
