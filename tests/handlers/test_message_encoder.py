"""MessageEncoder: events and the whole message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given
from pydantic import TypeAdapter

from engine.errors import NotReady, QueueFull, WorkerFailed
from engine.events import (
    Event,
    Finished,
    FinishReason,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    Timings,
    Usage,
)
from handlers.errors import ApiError, api_error, internal_error
from handlers.message_encoder import MessageEncoder, parse_cut_object
from tests.handlers.asgi import named_events
from tests.handlers.event_streams import calls_of, event_streams, text_of
from tests.handlers.schemas import schema

SDK_EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
USAGE = Usage(prompt_tokens=12, cached_tokens=4, completion_tokens=3)
STARTED = Started(12, 4, 1.5)


def finished(reason: FinishReason = FinishReason.STOP, stop: str | None = None) -> Finished:
    return Finished(reason, stop, USAGE, Timings(1.5, 20.0, 40.0))


def encoder() -> MessageEncoder:
    return MessageEncoder("msg_1", "claude-x")


def encode(events: list[Event], encoder: MessageEncoder) -> list[Any]:
    """Run a stream; gives its events, each checked against the contract."""
    wire = encoder.start() + [chunk for event in events for chunk in encoder.feed(event)]
    read = named_events(b"".join(wire).decode())
    for event in read:
        schema("MessageStreamEvent").validate(event)
    return read


def whole(encoder: MessageEncoder) -> Any:
    answer = json.loads(encoder.result().model_dump_json(exclude_unset=True))
    schema("Message").validate(answer)
    return answer


def accumulate(events: list[Any]) -> Any:
    """What the official SDK makes of a stream."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in events:
        if event["type"] != "ping":
            typed = SDK_EVENT.validate_json(json.dumps(event), strict=True)
            snapshot = accumulate_event(event=typed, current_snapshot=snapshot, json_bufs=buffers)
    message = snapshot.to_dict()
    assert message.pop("stop_details") is None  # set by the SDK, not by an event
    return message


@given(events=event_streams())
def test_the_sdk_reads_the_stream_as_the_whole_answer(events: list[Event]) -> None:
    messages = encoder()
    streamed = accumulate(encode(events, messages))
    answer = whole(messages)
    Message.model_validate_json(json.dumps(answer), strict=True)
    assert streamed == answer


@given(events=event_streams())
def test_the_whole_answer_is_what_the_events_say(events: list[Event]) -> None:
    messages = encoder()
    encode(events, messages)
    answer = whole(messages)
    blocks = answer["content"]
    kinds = {"text": "text", "reasoning": "thinking", "tool_call": "tool_use"}
    assert [b["type"] for b in blocks] == [
        kinds[e.kind] for e in events if isinstance(e, PartStart)
    ]
    assert "".join(b.get("text", "") for b in blocks) == text_of(events, "text")
    assert "".join(b.get("thinking", "") for b in blocks) == text_of(events, "reasoning")
    calls = [b for b in blocks if b["type"] == "tool_use"]
    assert [(b["id"], b["name"]) for b in calls] == [
        (f"toolu_{key}", name) for key, name, _ in calls_of(events)
    ]
    last = events[-1]
    assert isinstance(last, Finished)
    if last.reason is not FinishReason.LENGTH:
        assert [b["input"] for b in calls] == [json.loads(text) for *_, text in calls_of(events)]


def test_events_come_in_the_contract_s_order() -> None:
    events: list[Event] = [
        STARTED,
        PartStart(0, "reasoning"), PartDelta(0, "Hm."), PartEnd(0),
        PartStart(1, "text"), PartDelta(1, "Hel"), PartDelta(1, "lo"), PartEnd(1),
        PartStart(2, "tool_call", "ring", "k"),
        PartDelta(2, '{"n":'), PartDelta(2, "2}"), PartEnd(2),
        finished(FinishReason.TOOL_CALLS),
    ]  # fmt: skip
    start = {
        "input_tokens": 8, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0,
        "output_tokens": 0,
    }  # fmt: skip

    def delta(index: int, type_: str, field: str, text: str) -> Any:
        event = {"type": "content_block_delta", "index": index}
        return event | {"delta": {"type": type_, field: text}}

    def begin(index: int, block: Any) -> Any:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def stop(index: int) -> Any:
        return {"type": "content_block_stop", "index": index}

    assert encode(events, encoder()) == [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
                "content": [], "stop_reason": None, "stop_sequence": None, "usage": start,
            },
        },
        {"type": "ping"},
        begin(0, {"type": "thinking", "thinking": "", "signature": ""}),
        delta(0, "thinking_delta", "thinking", "Hm."),
        delta(0, "signature_delta", "signature", "mashbox-local"),
        stop(0),
        begin(1, {"type": "text", "text": ""}),
        delta(1, "text_delta", "text", "Hel"),
        delta(1, "text_delta", "text", "lo"),
        stop(1),
        begin(2, {"type": "tool_use", "id": "toolu_k", "name": "ring", "input": {}}),
        delta(2, "input_json_delta", "partial_json", '{"n":'),
        delta(2, "input_json_delta", "partial_json", "2}"),
        stop(2),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": start | {"output_tokens": 3},
        },
        {"type": "message_stop"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (finished(), "end_turn"),
        (finished(FinishReason.LENGTH), "max_tokens"),
        (finished(FinishReason.TOOL_CALLS), "tool_use"),
        (finished(stop="###"), "stop_sequence"),
    ],
)
def test_the_reason_of_the_end_is_told(end: Finished, reason: str) -> None:
    messages = encoder()
    *_, delta, _ = encode([STARTED, end], messages)
    told = {"stop_reason": reason, "stop_sequence": end.stop_sequence}
    assert delta["delta"] == told
    assert {name: whole(messages)[name] for name in told} == told


def test_an_empty_answer_has_no_blocks() -> None:
    messages = encoder()
    events = encode([STARTED, finished()], messages)
    assert [event["type"] for event in events] == [
        "message_start", "ping", "message_delta", "message_stop",
    ]  # fmt: skip
    assert whole(messages)["content"] == []


def test_nothing_is_sent_before_the_prompt_is_measured() -> None:
    assert encoder().start() == []


def test_a_second_attempt_does_not_repeat_the_frame() -> None:
    messages = encoder()
    text: list[Event] = [PartStart(0, "text"), PartDelta(0, "Hello"), PartEnd(0), finished()]
    events = encode([STARTED, Started(12, 0, 9.0), *text], messages)
    assert events == encode([STARTED, *text], encoder())
    assert accumulate(events) == whole(messages)


@pytest.mark.parametrize(
    ("cut", "parsed"),
    [
        ("", {}),
        ("{", {}),
        ('{"a": 1, "b": "hal', {"a": 1}),
        ('{"a": [1, 2', {"a": [1, 2]}),
        ('{"a": {"b": true', {"a": {"b": True}}),
        ('{"a": tr', {}),
        ("[1]", {}),
        ("none", {}),
    ],
)
def test_cut_arguments_are_an_object_all_the_same(cut: str, parsed: object) -> None:
    assert parse_cut_object(cut) == parsed


@pytest.mark.parametrize(
    ("error", "type_"),
    [
        (internal_error("msg_1"), "api_error"),
        (api_error(WorkerFailed("died")), "api_error"),
        (api_error(NotReady("Loading.")), "overloaded_error"),
        (api_error(QueueFull("Full.", 1, tenant_limit=False)), "overloaded_error"),
        (api_error(QueueFull("Full.", 1, tenant_limit=True)), "rate_limit_error"),
    ],
)
def test_a_failed_stream_ends_with_an_error_event(error: ApiError, type_: str) -> None:
    (event,) = named_events(b"".join(encoder().fail(error)).decode())
    schema("MessageStreamEvent").validate(event)
    assert event == {
        "type": "error",
        "error": {"type": type_, "message": error.message},
        "request_id": "msg_1",
    }
    assert error.status != 500 or error.message.startswith("internal server error: ")


def test_there_is_no_whole_answer_before_the_end() -> None:
    with pytest.raises(RuntimeError):
        encoder().result()
