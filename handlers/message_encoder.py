"""Anthropic Messages: an answer's events encoded as named events and as a whole."""

from __future__ import annotations

from typing import Any, Literal

from pydantic_core import from_json

from engine.events import (
    Event,
    Finished,
    FinishReason,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    Usage,
)
from generated.models import (
    ContentBlock,
    ContentBlockDelta,
    ContentBlockDeltaEvent,
    ContentBlockStartEvent,
    ContentBlockStopEvent,
    InputJsonDelta,
    Message,
    MessageDelta,
    MessageDeltaEvent,
    MessageErrorEvent,
    MessageStartEvent,
    MessageStopEvent,
    MessageUsage,
    PingEvent,
    SignatureDelta,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
)
from handlers.errors import ApiError
from handlers.sse import event as sse_event

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]

_SIGNATURE: Literal["mashbox-local"] = "mashbox-local"
_STOP_REASONS: dict[FinishReason, StopReason] = {
    FinishReason.STOP: "end_turn",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
}


class MessageEncoder:
    """Encodes one message; each part of the answer is one content block."""

    def __init__(self, response_id: str, model: str) -> None:
        self._id = response_id
        self._model = model
        self._begun = False
        self._blocks: list[ContentBlock] = []
        self._texts: list[str] = []
        self._answer: Message | None = None

    def start(self) -> list[bytes]:
        """Give nothing: the first event has the prompt's token counts, known once it runs."""
        return []

    def feed(self, event: Event) -> list[bytes]:
        """Add an event; gives the events that it stands for."""
        match event:
            case Started():
                return self._begin(event)
            case PartStart():
                return [self._begin_block(event)]
            case PartDelta():
                return [self._add(event)]
            case PartEnd():
                return self._end_block(event)
            case Finished():
                return self._finish(event)

    def fail(self, error: ApiError) -> list[bytes]:
        """Give the error event."""
        detail = error.anthropic_detail()
        return [sse_event(MessageErrorEvent(type="error", error=detail, request_id=self._id))]

    def result(self) -> Message:
        """Give the whole message; raises RuntimeError before `Finished` was fed."""
        if self._answer is None:
            raise RuntimeError("the answer is not finished")
        return self._answer

    def _begin(self, started: Started) -> list[bytes]:
        if self._begun:
            return []  # a second attempt, whose client has the frame already
        self._begun = True
        frame = self._message(
            None, None, Usage(started.prompt_tokens, started.cached_tokens, completion_tokens=0)
        )
        return [
            sse_event(MessageStartEvent(type="message_start", message=frame)),
            sse_event(PingEvent(type="ping")),
        ]

    def _begin_block(self, start: PartStart) -> bytes:
        self._blocks.append(_new_block(start))
        self._texts.clear()
        return sse_event(
            ContentBlockStartEvent(
                type="content_block_start", index=start.index, content_block=self._blocks[-1]
            )
        )

    def _add(self, delta: PartDelta) -> bytes:
        self._texts.append(delta.text)
        return _delta_event(delta.index, _new_delta(self._blocks[-1], delta.text))

    def _end_block(self, end: PartEnd) -> list[bytes]:
        block, text = self._blocks[-1], "".join(self._texts)
        chunks = []
        match block:
            case TextBlock():
                block.text = text
            case ToolUseBlock():
                block.input = parse_cut_object(text)
            case ThinkingBlock():
                block.thinking, block.signature = text, _SIGNATURE
                signature = SignatureDelta(type="signature_delta", signature=_SIGNATURE)
                chunks.append(_delta_event(end.index, signature))
        stop = ContentBlockStopEvent(type="content_block_stop", index=end.index)
        return [*chunks, sse_event(stop)]

    def _finish(self, finished: Finished) -> list[bytes]:
        matched = finished.stop_sequence is not None
        reason = "stop_sequence" if matched else _STOP_REASONS[finished.reason]
        self._answer = self._message(reason, finished.stop_sequence, finished.usage)
        delta = MessageDelta(stop_reason=reason, stop_sequence=finished.stop_sequence)
        return [
            sse_event(
                MessageDeltaEvent(type="message_delta", delta=delta, usage=self._answer.usage)
            ),
            sse_event(MessageStopEvent(type="message_stop")),
        ]

    def _message(
        self, stop_reason: StopReason | None, stop_sequence: str | None, usage: Usage
    ) -> Message:
        return Message(
            id=self._id,
            type="message",
            role="assistant",
            model=self._model,
            content=self._blocks,
            stop_reason=stop_reason,
            stop_sequence=stop_sequence,
            usage=message_usage(usage),
        )


def _new_block(start: PartStart) -> ContentBlock:
    if start.kind == "tool_call":
        return ToolUseBlock(
            type="tool_use", id=f"toolu_{start.call_key}", name=start.name, input={}
        )
    if start.kind == "reasoning":
        return ThinkingBlock(type="thinking", thinking="", signature="")
    return TextBlock(type="text", text="")


def _new_delta(block: ContentBlock, text: str) -> ContentBlockDelta:
    match block:
        case TextBlock():
            return TextDelta(type="text_delta", text=text)
        case ThinkingBlock():
            return ThinkingDelta(type="thinking_delta", thinking=text)
    return InputJsonDelta(type="input_json_delta", partial_json=text)


def _delta_event(index: int, delta: ContentBlockDelta) -> bytes:
    return sse_event(ContentBlockDeltaEvent(type="content_block_delta", index=index, delta=delta))


def message_usage(usage: Usage) -> MessageUsage:
    """Write token counts in Anthropic's form, where cached tokens are no part of the input."""
    return MessageUsage(
        input_tokens=usage.prompt_tokens - usage.cached_tokens,
        cache_read_input_tokens=usage.cached_tokens,
        cache_creation_input_tokens=0,
        output_tokens=usage.completion_tokens,
    )


def parse_cut_object(text: str) -> dict[str, Any]:
    """Parse a JSON object that may be cut, as Anthropic's SDKs do: what is incomplete is left out.

    What is no object gives an empty one.
    """
    try:
        parsed = from_json(text, allow_partial=True)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
