"""OpenAI Responses: an answer's events encoded as its events and as a whole."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping

from engine.events import Event, Finished, FinishReason, PartDelta, PartStart, Usage
from generated.models import (
    IncompleteDetails,
    InputTokensDetails,
    OutputTokensDetails,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseError,
    ResponseErrorEvent,
    ResponseFailedEvent,
    ResponseIncompleteEvent,
    ResponseInProgressEvent,
    ResponseObject,
    ResponseUsage,
)
from handlers.common import new_id
from handlers.errors import ApiError
from handlers.response_items import OpenItem, OpenMessage, OpenReasoning, Place, open_call
from handlers.response_tools import OfferedTool
from handlers.sse import TypedEvent
from handlers.sse import event as sse_event


class ResponseEncoder:
    """Encodes one answer, which begins as a copy of `response`; each part becomes an item.

    An item is closed when the next event after its end tells whether it was cut.
    """

    def __init__(self, response: ResponseObject, tools: Mapping[str, OfferedTool]) -> None:
        self._response = response.model_copy(update={"output": []})
        self._tools = tools
        self._number = itertools.count(1).__next__
        self._open: OpenItem | None = None

    def start(self) -> list[bytes]:
        """Give `response.created` and the first `response.in_progress`."""
        created = ResponseCreatedEvent(
            type="response.created", sequence_number=self._number(), response=self._response
        )
        return [sse_event(created), self.keep_alive()]

    def keep_alive(self) -> bytes:
        """Give a `response.in_progress`: some clients take no comment for a sign of life."""
        return sse_event(
            ResponseInProgressEvent(
                type="response.in_progress", sequence_number=self._number(), response=self._response
            )
        )

    def feed(self, event: Event) -> list[bytes]:
        """Add an event to the answer and give its events."""
        match event:
            case PartDelta() if self._open:
                return [*map(sse_event, self._open.add(event.text))]
            case PartStart():
                return [*map(sse_event, [*self._close(), *self._begin(event)])]
            case Finished():
                closing = self._close(cut=event.reason is FinishReason.LENGTH)
                return [*map(sse_event, [*closing, self._finish(event)])]
        return []

    def fail(self, error: ApiError) -> list[bytes]:
        """Give `error` and `response.failed`; an item that is open stays open."""
        response = self._response
        told = ResponseErrorEvent(
            type="error",
            sequence_number=self._number(),
            code=error.code,
            message=error.message,
            param=error.param,
            request_id=response.id,
        )
        response.status = "failed"
        response.error = _response_error(error)
        failed = ResponseFailedEvent(
            type="response.failed", sequence_number=self._number(), response=response
        )
        return [sse_event(told), sse_event(failed)]

    def result(self) -> ResponseObject:
        """Give the whole answer; raises RuntimeError before `Finished` was fed."""
        if self._response.status == "in_progress":
            raise RuntimeError("the answer is not finished")
        return self._response

    def _begin(self, start: PartStart) -> list[TypedEvent]:
        place = Place(self._number, len(self._response.output))
        match start.kind:
            case "text":
                self._open = OpenMessage(new_id("msg_"), place)
            case "reasoning":
                self._open = OpenReasoning(new_id("rs_"), place)
            case "tool_call":
                offered = self._tools.get(start.name)
                self._open = open_call(start.call_key, start.name, offered, place)
        return self._open.begin()

    def _close(self, cut: bool = False) -> list[TypedEvent]:
        if self._open is None:
            return []
        events = self._open.end(cut)
        self._response.output.append(self._open.item)
        self._open = None
        return events

    def _finish(self, event: Finished) -> TypedEvent:
        response = self._response
        response.usage = response_usage(event.usage)
        if event.reason is FinishReason.LENGTH:
            response.status = "incomplete"
            response.incomplete_details = IncompleteDetails(reason="max_output_tokens")
            return ResponseIncompleteEvent(
                type="response.incomplete", sequence_number=self._number(), response=response
            )
        response.status = "completed"
        response.completed_at = int(time.time())
        return ResponseCompletedEvent(
            type="response.completed", sequence_number=self._number(), response=response
        )


def response_usage(usage: Usage) -> ResponseUsage:
    """Write token counts in the form of Responses."""
    return ResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=InputTokensDetails(
            cached_tokens=usage.cached_tokens, cache_write_tokens=0
        ),
        output_tokens=usage.completion_tokens,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )


def _response_error(error: ApiError) -> ResponseError:
    if error.status == 429:
        return ResponseError(code="rate_limit_exceeded", message=error.message)
    if error.status == 400:
        return ResponseError(code="invalid_prompt", message=error.message)
    return ResponseError(code="server_error", message=error.message)
