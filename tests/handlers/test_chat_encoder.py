"""ChatEncoder: chunks and the whole answer."""

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
from handlers.chat_encoder import ChatEncoder, chat_timings, chat_usage
from handlers.errors import ApiError, api_error, internal_error
from handlers.sse import DONE
from tests.handlers.event_streams import calls_of, event_streams, text_of
from tests.handlers.schemas import schema


def encoder(include_usage: bool = False) -> ChatEncoder:
    return ChatEncoder("chatcmpl-1", "served", include_usage)


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

    message, folded = streamed.choices[0].message, whole.choices[0].message
    assert (message.content or "") == (folded.content or "")
    assert message.role == folded.role
    assert getattr(message, "reasoning_content", None) == getattr(folded, "reasoning_content", None)
    assert _calls(message) == _calls(folded)
    assert streamed.choices[0].finish_reason == whole.choices[0].finish_reason
    assert streamed.usage == whole.usage
    assert (streamed.id, streamed.created, streamed.model) == (
        whole.id, whole.created, whole.model,
    )  # fmt: skip


def _calls(message: Any) -> list[tuple[str, str, str]]:
    return [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or []]


@given(events=event_streams())
def test_the_whole_answer_is_what_the_events_say(events: list[Event]) -> None:
    chat = encoder()
    encode(events, chat)
    choice = chat.result().choices[0]
    assert choice.message.content == (text_of(events, "text") or None)
    assert choice.message.reasoning_content == (text_of(events, "reasoning") or None)
    assert [
        (c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls or []
    ] == [(f"call_{key}", name, whole) for key, name, whole in calls_of(events)]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert choice.finish_reason == finished.reason.value
    assert chat.result().usage == chat_usage(finished.usage)


def test_a_call_names_its_id_and_function_once() -> None:
    events: list[Event] = [
        PartStart(0, "tool_call", name="ring", call_key="k"),
        PartDelta(0, '{"times":'),
        PartDelta(0, "2}"),
        PartEnd(0),
        Finished(FinishReason.TOOL_CALLS, None, Usage(12, 4, 3), Timings(1.5, 20.0, 40.0)),
    ]
    _, *deltas, finish = encode(events, encoder())
    assert [chunk["choices"][0]["delta"]["tool_calls"] for chunk in deltas] == [
        [{"index": 0, "id": "call_k", "type": "function",
          "function": {"name": "ring", "arguments": ""}}],
        [{"index": 0, "function": {"arguments": '{"times":'}}],
        [{"index": 0, "function": {"arguments": "2}"}}],
    ]  # fmt: skip
    assert finish["choices"][0]["finish_reason"] == "tool_calls"


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
    assert timings.model_dump(exclude_unset=True) == {
        "prompt_n": 8, "prompt_ms": 20.0, "prompt_per_second": 400.0,
        "predicted_n": 3, "predicted_ms": 40.0, "predicted_per_second": 50.0,
        "cache_n": 4, "queue_ms": 1.5,
    }  # fmt: skip


def test_guessed_tokens_are_told_where_there_were_any() -> None:
    timings = chat_timings(Usage(12, 4, 3), Timings(1.5, 20.0, 40.0, 9, 0))
    told = timings.model_dump(exclude_unset=True)
    assert (told["draft_n"], told["draft_n_accepted"]) == (9, 0)


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
