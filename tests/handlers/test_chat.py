from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

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
from engine.request import ChatPrompt, GenerationRequest, Message
from generated.models import ChatCompletionRequest
from handlers.chat import ChatEncoder, chat_timings, chat_usage, read_chat_request
from handlers.errors import ApiError, api_error, internal_error
from handlers.sse import DONE
from tests.handlers.schemas import schema

counts = st.integers(0, 10**6)
# Differences of monotonic clocks: none, or not below their resolution.
durations = st.just(0.0) | st.floats(1e-9, 10**9)
texts = st.text(min_size=1, max_size=8)


def encoder(include_usage: bool = False) -> ChatEncoder:
    return ChatEncoder("chatcmpl-1", "served", include_usage)


@st.composite
def event_streams(draw: st.DrawFn) -> list[Event]:
    """A stream that obeys the grammar, with text parts alone, as the engine gives today."""
    cached = draw(counts)
    usage = Usage(cached + draw(counts), cached, draw(counts))
    timings = Timings(draw(durations), draw(durations), draw(durations))
    events: list[Event] = [Started(usage.prompt_tokens, cached, timings.queue_ms)]
    for index, pieces in enumerate(draw(st.lists(st.lists(texts, max_size=4), max_size=3))):
        deltas = [PartDelta(index, piece) for piece in pieces]
        events += [PartStart(index, "text"), *deltas, PartEnd(index)]
    reason = draw(st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]))
    return [*events, Finished(reason, draw(st.none() | texts), usage, timings)]


def encode(events: list[Event], encoder: ChatEncoder) -> list[Any]:
    """Run a whole stream; gives its chunks, each checked against the contract."""
    wire = encoder.start() + [chunk for event in events for chunk in encoder.feed(event)]
    assert wire.pop() == DONE
    chunks = [json.loads(chunk.removeprefix(b"data: ")) for chunk in wire]
    for chunk in chunks:
        schema("ChatCompletionChunk").validate(chunk)
    return chunks


@given(events=event_streams(), include_usage=st.booleans())
def test_the_sdk_reads_the_stream_as_the_whole_answer(
    events: list[Event], include_usage: bool
) -> None:
    chat = encoder(include_usage)
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in encode(events, chat):
        # Only the last chunk has usage, and the SDK's own types allow null there.
        state.handle_chunk(ChatCompletionChunk.model_validate_json(json.dumps(chunk), strict=True))
    streamed = state.current_completion_snapshot
    whole_json = chat.result().model_dump_json(exclude_unset=True)
    schema("ChatCompletion").validate(json.loads(whole_json))
    whole = ChatCompletion.model_validate_json(whole_json, strict=True)

    assert streamed.choices[0].message.content == (whole.choices[0].message.content or "")
    assert streamed.choices[0].message.role == whole.choices[0].message.role
    assert streamed.choices[0].finish_reason == whole.choices[0].finish_reason
    assert streamed.usage == whole.usage
    assert (streamed.id, streamed.created, streamed.model) == (
        whole.id, whole.created, whole.model,
    )  # fmt: skip


@given(events=event_streams())
def test_the_whole_answer_is_what_the_events_say(events: list[Event]) -> None:
    chat = encoder()
    encode(events, chat)
    choice = chat.result().choices[0]
    assert choice.message.content == (
        "".join(event.text for event in events if isinstance(event, PartDelta)) or None
    )
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert choice.finish_reason == finished.reason.value
    assert chat.result().usage == chat_usage(finished.usage)


def short_stream() -> list[Event]:
    usage, timings = Usage(12, 4, 3), Timings(1.5, 20.0, 40.0)
    return [
        Started(12, 4, 1.5),
        PartStart(0, "text"),
        PartDelta(0, "Hel"),
        PartDelta(0, "lo"),
        PartEnd(0),
        Finished(FinishReason.STOP, None, usage, timings),
    ]


USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 3,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def test_the_finish_chunk_carries_usage_where_it_was_not_asked_for() -> None:
    role, first, second, finish = encode(short_stream(), encoder())
    assert role["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    ]
    assert first["choices"] == [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": None}]
    assert second["choices"][0]["delta"] == {"content": "lo"}
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert finish["usage"] == USAGE
    assert finish["timings"]["predicted_n"] == 3
    assert not any({"usage", "timings", "error"} & set(chunk) for chunk in (role, first, second))


def test_a_usage_chunk_without_choices_follows_where_it_was_asked_for() -> None:
    *_, finish, usage = encode(short_stream(), encoder(include_usage=True))
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert "usage" not in finish
    assert (usage["choices"], usage["usage"]) == ([], USAGE)
    assert finish["timings"] == usage["timings"]


def test_an_answer_without_text_has_null_content() -> None:
    events = short_stream()
    chat = encoder()
    encode([events[0], events[-1]], chat)
    answer = json.loads(chat.result().model_dump_json(exclude_unset=True))
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": None}


@pytest.mark.parametrize(
    "error",
    [
        internal_error("chatcmpl-1"),
        ApiError(429, "Full.", "rate_limit_error", "rate_limit_exceeded"),
        ApiError(503, "Loading.", "overloaded_error", "not_ready"),
        api_error(ValueError("x")),
    ],
)
def test_a_failed_stream_ends_with_an_error_chunk(error: ApiError) -> None:
    chunk, done = encoder().fail(error)
    assert done == DONE
    read = json.loads(chunk.removeprefix(b"data: "))
    schema("ChatCompletionChunk").validate(read)
    assert read["choices"] == [{"index": 0, "delta": {}, "finish_reason": "error"}]
    assert read["error"] == {
        "message": error.message,
        "type": error.type,
        "code": error.code,
        "request_id": "chatcmpl-1",
    }


def test_there_is_no_whole_answer_before_the_end() -> None:
    chat = encoder()
    chat.feed(PartDelta(0, "x"))
    with pytest.raises(RuntimeError):
        chat.result()


def test_rates_count_what_was_computed_in_the_time_measured() -> None:
    timings = chat_timings(Usage(12, 4, 3), Timings(1.5, 20.0, 40.0))
    assert timings.model_dump() == {
        "prompt_n": 8, "prompt_ms": 20.0, "prompt_per_second": 400.0,
        "predicted_n": 3, "predicted_ms": 40.0, "predicted_per_second": 50.0,
        "cache_n": 4, "queue_ms": 1.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("usage", "timings"),
    [
        (Usage(12, 0, 1), Timings(0, 20.0, 0.0)),
        (Usage(12, 0, 0), Timings(0, 20.0, 0.0)),
        (Usage(12, 0, 5), Timings(0, 20.0, 0.0)),
    ],
)
def test_rates_that_cannot_be_known_are_null(usage: Usage, timings: Timings) -> None:
    assert chat_timings(usage, timings).predicted_per_second is None
    assert chat_timings(Usage(4, 4, 1), timings).prompt_per_second is None


def read(**fields: object) -> GenerationRequest:
    body = ChatCompletionRequest.model_validate(
        {"messages": [{"role": "user", "content": "Hi"}]} | fields
    )
    return read_chat_request(body, "chatcmpl-1", "served")


def read_prompt(**fields: object) -> ChatPrompt:
    prompt = read(**fields).prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


def test_a_bare_conversation_is_read() -> None:
    request = read()
    assert request.id == "chatcmpl-1"
    assert request.prompt == ChatPrompt((Message("user", "Hi"),), {})
    assert request.sampling.max_tokens is None


def test_null_fields_read_like_absent_ones() -> None:
    optional = set(ChatCompletionRequest.model_fields) - {"messages", "seed"}
    assert read(**dict.fromkeys(optional), seed=1) == read(seed=1)


def test_messages_keep_their_order_and_developer_becomes_system() -> None:
    messages = [
        {"role": "developer", "content": "D"},
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None},
        {"role": "tool", "content": "T", "tool_call_id": "1"},
    ]
    assert read_prompt(messages=messages).messages == (
        Message("system", "D"),
        Message("system", "S"),
        Message("user", "a\nb"),
        Message("assistant", ""),
        Message("tool", "T"),
    )


@pytest.mark.parametrize(
    ("fields", "max_tokens"),
    [
        ({"max_tokens": 3}, 3),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 3, "max_completion_tokens": 5}, 5),
        ({"max_tokens": 3, "max_completion_tokens": None}, 3),
        ({"max_tokens": 4.0}, 4),
    ],
)
def test_max_completion_tokens_wins(fields: dict[str, Any], max_tokens: int) -> None:
    assert read(**fields).sampling.max_tokens == max_tokens


@pytest.mark.parametrize(
    ("fields", "kwargs"),
    [
        ({}, {}),
        ({"enable_thinking": False}, {"enable_thinking": False}),
        ({"chat_template_kwargs": {"enable_thinking": True}}, {"enable_thinking": True}),
        ({"chat_template_kwargs": {"mood": {"a": [1]}}}, {"mood": {"a": [1]}}),
        ({"chat_template_kwargs": {"enable_thinking": None}}, {}),
        (
            {"chat_template_kwargs": {"enable_thinking": True, "x": 1}, "enable_thinking": False},
            {"enable_thinking": False, "x": 1},
        ),
    ],
)
def test_template_kwargs_are_passed_on(fields: dict[str, Any], kwargs: dict[str, Any]) -> None:
    assert read_prompt(**fields).template_kwargs == kwargs


def test_another_model_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        read(model="other")
    assert caught.value.code == "model_not_found"
    assert read(model="served")
