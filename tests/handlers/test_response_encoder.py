"""ResponseEncoder: events and the whole answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast, get_args

import openai.types.responses
import pytest
from hypothesis import given
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response as SdkResponse

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
from engine.request import Tool
from generated.models import ResponsesRequest
from handlers.errors import ApiError, internal_error
from handlers.response_encoder import ResponseEncoder
from handlers.response_object import begin_response
from handlers.response_tools import OfferedTool
from handlers.responses import read_responses_request
from mashbox.app import contract
from tests.handlers.event_streams import calls_of, event_streams, text_of
from tests.handlers.schemas import schema

EVENTS = {
    get_args(event.model_fields["type"].annotation)[0]: event
    for event in get_args(get_args(openai.types.responses.ResponseStreamEvent)[0])
}
SCHEMAS: dict[str, str] = contract()["components"]["schemas"]["ResponseStreamEvent"][
    "discriminator"
]["mapping"]
# `ring_bell` is custom in a namespace, `get_weather` a plain function.
TOOLS = {
    "ring_bell": OfferedTool(Tool("ring_bell"), "ring", "bells", custom=True),
    "get_weather": OfferedTool(Tool("get_weather"), "get_weather"),
}
USAGE, TIMINGS = Usage(12, 4, 3, 2), Timings(1.5, 20.0, 40.0)
STARTED = Started(12, 4, 1.5)
STOPPED = Finished(FinishReason.STOP, None, USAGE, TIMINGS)
CALLED = Finished(FinishReason.TOOL_CALLS, None, USAGE, TIMINGS)
CUT = Finished(FinishReason.LENGTH, None, USAGE, TIMINGS)


def any_stream(test: Callable[[list[Event]], None]) -> Callable[[], None]:
    """Run a test on random streams; the SDK builds its types at first use, which takes its time."""
    run: Callable[[], None] = given(events=event_streams())(test)
    return run


def encoder() -> ResponseEncoder:
    body = ResponsesRequest(input="Hi")
    request = read_responses_request(body, "resp_1", "served", {})
    return ResponseEncoder(begin_response(body, request, "served"), TOOLS)


def parse(wire: list[bytes]) -> list[Any]:
    """Read events, each checked against the contract and the SDK's strict type."""
    events = []
    for chunk in wire:
        name, data = chunk.decode().removesuffix("\n\n").split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        schema(SCHEMAS[event["type"]].rpartition("/")[2]).validate(event)
        EVENTS[event["type"]].model_validate_json(json.dumps(event), strict=True)
        events.append(event)
    return events


def encode(events: list[Event], encoder: ResponseEncoder) -> list[Any]:
    """Run a whole stream, whose numbers have to count from 1."""
    wire = encoder.start() + [chunk for event in events for chunk in encoder.feed(event)]
    sent = parse(wire)
    assert [event["sequence_number"] for event in sent] == list(range(1, len(sent) + 1))
    return sent


def part(index: int, kind: Any, *texts: str, name: str = "") -> list[Event]:
    start = PartStart(index, kind, name, f"k{index}" if name else "")
    return [start, *(PartDelta(index, text) for text in texts), PartEnd(index)]


def whole(encoder: ResponseEncoder) -> dict[str, Any]:
    """The whole answer as it is sent."""
    written: dict[str, Any] = json.loads(encoder.result().model_dump_json(exclude_unset=True))
    return written


def accumulated(sent: list[Any]) -> list[Any]:
    """The items as the SDK puts them together from the events."""
    state: ResponseStreamState[None] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in sent:
        state.handle_event(EVENTS[event["type"]].model_validate(event))
    snapshot: Any = vars(state)["_ResponseStreamState__current_snapshot"]
    if completed := cast(Any, state._completed_response):
        assert [item.id for item in completed.output] == [item.id for item in snapshot.output]
    items: list[Any] = snapshot.output
    return items


def told(item: dict[str, Any]) -> str:
    """What an item says: text, thoughts, arguments or raw text."""
    if "content" in item:
        return "".join(part["text"] for part in item["content"])
    said: str = item["arguments"] if item["type"] == "function_call" else item["input"]
    return said


@any_stream
def test_the_sdk_reads_the_stream_as_the_whole_answer(events: list[Event]) -> None:
    response = encoder()
    sent = encode(events, response)
    answer = whole(response)
    schema("ResponseObject").validate(answer)
    SdkResponse.model_validate_json(json.dumps(answer), strict=True)

    assert sent[-1]["response"] == answer
    assert sent[-1]["type"] == f"response.{answer['status']}"
    for item, output in zip(accumulated(sent), answer["output"], strict=True):
        assert (item.type, item.id) == (output["type"], output["id"])
        # The SDK adds up text and arguments only.
        if item.type == "message":
            assert "".join(part.text for part in item.content) == told(output)
        if item.type == "function_call":
            assert (item.call_id, item.arguments) == (output["call_id"], output["arguments"])


@any_stream
def test_items_are_what_their_events_add_up_to(events: list[Event]) -> None:
    response = encoder()
    sent = encode(events, response)
    output = whole(response)["output"]
    added = [e["item"] for e in sent if e["type"] == "response.output_item.added"]
    assert [item["status"] for item in added] == ["in_progress"] * len(output)
    assert [e["item"] for e in sent if e["type"] == "response.output_item.done"] == output
    for index, item in enumerate(output):
        assert {**item, **added[index]}.keys() == item.keys()
        own = [e for e in sent if e.get("output_index") == index]
        assert {e["item_id"] for e in own if "item_id" in e} == {item["id"]}
        assert "".join(e.get("delta", "") for e in own) == told(item)
        for e in own:
            for name in {"text", "arguments", "input"} & e.keys():
                assert e[name] == told(item)
            assert e.get("content_index", 0) == 0


@any_stream
def test_the_whole_answer_is_what_the_events_say(events: list[Event]) -> None:
    response = encoder()
    encode(events, response)
    answer = whole(response)
    for kind, name in (("text", "message"), ("reasoning", "reasoning")):
        items = [item for item in answer["output"] if item["type"] == name]
        assert "".join(map(told, items)) == text_of(events, kind)
    calls = [item for item in answer["output"] if "call_id" in item]
    for call, (key, name, arguments) in zip(calls, calls_of(events), strict=True):
        assert call["call_id"] == f"call_{key}"
        assert (call["name"], call.get("namespace")) == (TOOLS[name].name, TOOLS[name].namespace)
        if call["type"] == "function_call":
            assert call["arguments"] == arguments
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert answer["usage"]["total_tokens"] == (
        finished.usage.prompt_tokens + finished.usage.completion_tokens
    )


def test_the_events_of_text_after_thoughts() -> None:
    events = [STARTED, *part(0, "reasoning", "Hm", "."), *part(1, "text", "Hel", "lo"), STOPPED]
    sent = encode(events, encoder())
    assert [event["type"].removeprefix("response.") for event in sent] == [
        "created", "in_progress",
        "output_item.added", "content_part.added",
        "reasoning_text.delta", "reasoning_text.delta", "reasoning_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", "content_part.added",
        "output_text.delta", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    assert sent[3]["part"] == {"type": "reasoning_text", "text": ""}
    assert sent[7]["part"] == {"type": "reasoning_text", "text": "Hm."}
    text = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
    assert sent[10]["part"] == text | {"text": ""}
    assert sent[14]["part"] == text
    assert sent[15]["item"] == {
        "type": "message", "id": sent[9]["item"]["id"], "status": "completed",
        "role": "assistant", "content": [text],
    }  # fmt: skip


def test_the_events_of_a_function_call() -> None:
    events = [STARTED, *part(0, "tool_call", '{"city":', ' "Oslo"}', name="get_weather"), CALLED]
    *_, added, first, second, done, item_done, completed = encode(events, encoder())
    item = {
        "type": "function_call", "id": "fc_k0", "status": "completed", "call_id": "call_k0",
        "name": "get_weather", "arguments": '{"city": "Oslo"}',
    }  # fmt: skip
    assert added["item"] == item | {"status": "in_progress", "arguments": ""}
    assert [first["delta"], second["delta"]] == ['{"city":', ' "Oslo"}']
    assert (done["name"], done["arguments"]) == ("get_weather", item["arguments"])
    assert item_done["item"] == item
    assert completed["response"]["output"] == [item]


def test_the_events_of_a_custom_call_carry_raw_text() -> None:
    events = [
        STARTED,
        *part(0, "tool_call", '{"input', '": "a\\', 'nb"', "}", name="ring_bell"),
        CALLED,
    ]
    _, _, added, first, second, done, item_done, _ = encode(events, encoder())
    item = {
        "type": "custom_tool_call", "id": "ctc_k0", "status": "completed", "call_id": "call_k0",
        "name": "ring", "namespace": "bells", "input": "a\nb",
    }  # fmt: skip
    assert added["item"] == item | {"status": "in_progress", "input": ""}
    assert [first["delta"], second["delta"], done["input"]] == ["a", "\nb", "a\nb"]
    assert done["type"] == "response.custom_tool_call_input.done"
    assert item_done["item"] == item


def test_a_custom_call_with_other_arguments_carries_them_as_they_are() -> None:
    response = encoder()
    sent = encode(
        [STARTED, *part(0, "tool_call", '{"x":', "1}", name="ring_bell"), CALLED], response
    )
    assert [event["delta"] for event in sent if "delta" in event] == ['{"x":1}']
    assert whole(response)["output"][0]["input"] == '{"x":1}'


def test_a_call_of_an_unknown_tool_keeps_its_name() -> None:
    response = encoder()
    encode([STARTED, *part(0, "tool_call", "{}", name="other"), CALLED], response)
    (item,) = whole(response)["output"]
    assert (item["type"], item["name"]) == ("function_call", "other")
    assert "namespace" not in item


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (part(1, "text", "Hel"), "incomplete"),
        (part(1, "reasoning", "Hm"), "incomplete"),
        (part(1, "tool_call", '{"a', name="get_weather"), "incomplete"),
        (part(1, "tool_call", name="get_weather"), "incomplete"),
        (part(1, "tool_call", "{}", name="get_weather"), "completed"),
        (part(1, "tool_call", '{"input": "a', name="ring_bell"), "incomplete"),
        (part(1, "tool_call", '{"input": "a"}', name="ring_bell"), "completed"),
    ],
)
def test_only_the_item_that_was_cut_is_incomplete(last: list[Event], status: str) -> None:
    response = encoder()
    sent = encode([STARTED, *part(0, "text", "A"), *last, CUT], response)
    assert sent[-1]["type"] == "response.incomplete"
    answer = whole(response)
    assert [item["status"] for item in answer["output"]] == ["completed", status]
    assert answer["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer["completed_at"] is None


def test_usage_comes_at_the_end_only() -> None:
    response = encoder()
    created, in_progress, completed = encode([STARTED, STOPPED], response)
    assert created["response"]["usage"] is in_progress["response"]["usage"] is None
    assert completed["response"]["usage"] == {
        "input_tokens": 12, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15,
    }  # fmt: skip
    assert completed["response"]["output"] == []
    assert completed["response"]["completed_at"] >= completed["response"]["created_at"]


def test_a_sign_of_life_is_a_numbered_event() -> None:
    response = encoder()
    wire = response.start()
    wire += [chunk for event in part(0, "text", "A") for chunk in response.feed(event)]
    wire += [response.keep_alive(), *response.feed(STOPPED)]
    sent = parse(wire)
    assert [event["sequence_number"] for event in sent] == list(range(1, len(sent) + 1))
    alive = sent[5]
    assert (alive["type"], alive["response"]["status"]) == ("response.in_progress", "in_progress")
    assert [item.type for item in accumulated(sent)] == ["message"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (internal_error("resp_1"), "server_error"),
        (ApiError(503, "Not ready.", "overloaded_error", "not_ready"), "server_error"),
        (ApiError(429, "Full.", "rate_limit_error", "rate_limit_exceeded"), "rate_limit_exceeded"),
        (ApiError(400, "No.", code="context_length_exceeded", param="input"), "invalid_prompt"),
    ],
)
def test_a_failed_stream_ends_with_the_error_and_the_response(error: ApiError, code: str) -> None:
    response = encoder()
    wire = response.start()
    for event in [*part(0, "text", "A"), *part(1, "text", "B")[:2]]:
        wire += response.feed(event)
    *before, told_error, failed = parse(wire + response.fail(error))
    assert told_error == {
        "type": "error", "sequence_number": len(before) + 1, "code": error.code,
        "message": error.message, "param": error.param, "request_id": "resp_1",
    }  # fmt: skip
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": code, "message": error.message}
    assert [told(item) for item in failed["response"]["output"]] == ["A"]


def test_two_answers_to_one_request_share_nothing() -> None:
    body = ResponsesRequest(input="Hi")
    request = read_responses_request(body, "resp_1", "served", {})
    begun = begin_response(body, request, "served")
    first, second = (ResponseEncoder(begun, TOOLS) for _ in range(2))
    encode([STARTED, *part(0, "text", "A"), CUT], first)
    encode([STARTED, *part(0, "text", "B"), STOPPED], second)
    assert whole(second)["status"] == "completed"
    assert whole(second)["incomplete_details"] is None
    assert [told(item) for item in whole(second)["output"]] == ["B"]


def test_there_is_no_whole_answer_before_the_end() -> None:
    with pytest.raises(RuntimeError):
        encoder().result()
