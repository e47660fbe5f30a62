"""Verifiers: they take what the encoders write, and nothing that has lost or gained an event."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bench.protocols import WIRES
from bench.wire import Answer, Broken, Wire
from engine.events import Event, Finished, FinishReason, PartDelta, PartEnd, PartStart
from generated.models import ResponsesRequest
from handlers.chat_encoder import ChatEncoder
from handlers.completions import CompletionEncoder
from handlers.encoder import Encoder
from handlers.errors import internal_error
from handlers.message_encoder import MessageEncoder
from handlers.response_encoder import ResponseEncoder
from handlers.response_object import begin_response
from handlers.responses import read_responses_request
from tests.handlers.scripted_engine import STARTED, TIMINGS, USAGE

THOUGHT: list[Event] = [
    PartStart(0, "reasoning"),
    *(PartDelta(0, text) for text in ("Let ", "me ", "think.")),
    PartEnd(0),
]
SAID: list[Event] = [
    PartStart(1, "text"),
    *(PartDelta(1, text) for text in ("Hello", " there", ".")),
    PartEnd(1),
]
CALLED: list[Event] = [
    PartStart(2, "tool_call", "look", "k2"),
    *(PartDelta(2, text) for text in ('{"a', '": ', "1}")),
    PartEnd(2),
]
END = Finished(FinishReason.TOOL_CALLS, None, USAGE, TIMINGS)
# What may come twice or not at all.
OPTIONAL = ("ping", "in_progress", "usage")


def response_encoder() -> Encoder:
    body = ResponsesRequest(input="Hi")
    request = read_responses_request(body, "resp_1", "served", {})
    return ResponseEncoder(begin_response(body, request, "served"), {})


ENCODERS: tuple[Callable[[], Encoder], ...] = (
    lambda: ChatEncoder("chatcmpl-1", "served", include_usage=True),
    lambda: CompletionEncoder("cmpl-1", "served", seed=7),
    lambda: MessageEncoder("msg_1", "served"),
    response_encoder,
)


def played(index: int) -> tuple[Wire, list[Event]]:
    """One protocol, and an answer that it can carry."""
    wire = WIRES[index]
    events = [*SAID[:-1], PartEnd(1)] if wire.path == "/v1/completions" else [*THOUGHT, *SAID]
    return wire, [STARTED, *events, *([] if wire.path == "/v1/completions" else CALLED), END]


def stream(encoder: Encoder, events: list[Event]) -> list[str]:
    chunks = [*encoder.start(), *(chunk for event in events for chunk in encoder.feed(event))]
    return b"".join(chunks).decode().removesuffix("\n\n").split("\n\n")


def read(wire: Wire, blocks: list[str]) -> Answer:
    return wire.read_stream("\n\n".join(blocks) + "\n\n")


def differs(wire: Wire, blocks: list[str], whole: Answer) -> bool:
    """Whether a stream is refused, or read as another answer."""
    try:
        return read(wire, blocks).content != whole.content
    except Broken:
        return True


def is_optional(wire: Wire, block: str) -> bool:
    data = block.rpartition("data: ")[2]
    return data != "[DONE]" and wire.kind(json.loads(data)) in OPTIONAL


@pytest.mark.parametrize("index", range(4))
def test_a_whole_stream_reads_as_the_whole_answer(index: int) -> None:
    wire, events = played(index)
    encoder = ENCODERS[index]()
    streamed = read(wire, stream(encoder, events))
    body = json.loads(encoder.result().model_dump_json(exclude_unset=True))
    whole = wire.read_whole(body)
    assert streamed.complete and streamed.content == whole.content
    assert whole.text == "Hello there." and whole.id == streamed.id


@pytest.mark.parametrize("index", range(4))
def test_an_event_that_is_lost_comes_twice_or_early_is_noticed(index: int) -> None:
    wire, events = played(index)
    blocks = stream(ENCODERS[index](), events)
    whole = read(wire, blocks)
    for n, block in enumerate(blocks):
        if not is_optional(wire, block):
            assert differs(wire, [*blocks[:n], *blocks[n + 1 :]], whole), f"without {block}"
            assert differs(wire, [*blocks[:n], block, *blocks[n:]], whole), f"twice {block}"
            assert n == 0 or differs(wire, [block, *blocks[:n], *blocks[n + 1 :]], whole), block


@pytest.mark.parametrize("index", range(4))
def test_a_stream_that_is_cut_anywhere_is_noticed(index: int) -> None:
    wire, events = played(index)
    blocks = stream(ENCODERS[index](), events)
    for n in range(1, len(blocks)):
        with pytest.raises(Broken):
            read(wire, blocks[:n])


@pytest.mark.parametrize("index", range(4))
def test_a_stream_may_end_in_an_error_after_any_event(index: int) -> None:
    wire, events = played(index)
    for n in range(len(events)):
        encoder = ENCODERS[index]()
        blocks = stream(encoder, events[:n])
        failing = b"".join(encoder.fail(internal_error())).decode().removesuffix("\n\n")
        answer = read(wire, [*filter(None, blocks), *failing.split("\n\n")])
        assert not answer.complete and answer.request_id == answer.id
        assert "Hello there.".startswith(answer.text)
