"""Items of an OpenAI Responses answer while they are written: text, thoughts, calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from generated.models import (
    OutputCustomToolCall,
    OutputFunctionCall,
    OutputMessage,
    OutputPart,
    OutputReasoning,
    OutputTextPart,
    ReasoningTextPart,
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseCustomToolCallInputDeltaEvent,
    ResponseCustomToolCallInputDoneEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionCallArgumentsDoneEvent,
    ResponseItem,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputTextDeltaEvent,
    ResponseOutputTextDoneEvent,
    ResponseReasoningTextDeltaEvent,
    ResponseReasoningTextDoneEvent,
)
from handlers.raw_input import RawInput
from handlers.response_tools import OfferedTool
from handlers.sse import TypedEvent

Status = Literal["in_progress", "completed", "incomplete"]


class OpenItem(Protocol):
    """The item that is being written; `item` is its latest form."""

    @property
    def item(self) -> ResponseItem:
        """The item as it was last told to the client."""

    def begin(self) -> list[TypedEvent]:
        """Give the events of its start."""

    def add(self, text: str) -> list[TypedEvent]:
        """Add a delta and give its event, if there is one."""

    def end(self, cut: bool) -> list[TypedEvent]:
        """Give the events of its end, after which `item` is whole or, if `cut`, incomplete."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item stands in the stream; `number` gives the next event's number."""

    number: Callable[[], int]
    index: int

    def added(self, item: ResponseItem) -> TypedEvent:
        """Give the item's first event."""
        return ResponseOutputItemAddedEvent(
            type="response.output_item.added",
            sequence_number=self.number(),
            output_index=self.index,
            item=item,
        )

    def part_added(self, item_id: str, part: OutputPart) -> TypedEvent:
        """Give the first event of the item's one part."""
        return ResponseContentPartAddedEvent(
            type="response.content_part.added",
            sequence_number=self.number(),
            item_id=item_id,
            output_index=self.index,
            content_index=0,
            part=part,
        )

    def part_done(self, item_id: str, part: OutputPart) -> TypedEvent:
        """Give the last event of the item's one part."""
        return ResponseContentPartDoneEvent(
            type="response.content_part.done",
            sequence_number=self.number(),
            item_id=item_id,
            output_index=self.index,
            content_index=0,
            part=part,
        )

    def done(self, item: ResponseItem) -> TypedEvent:
        """Give the item's last event."""
        return ResponseOutputItemDoneEvent(
            type="response.output_item.done",
            sequence_number=self.number(),
            output_index=self.index,
            item=item,
        )


class OpenMessage:
    """Text of the answer."""

    def __init__(self, item_id: str, place: Place) -> None:
        self._place = place
        self._pieces: list[str] = []
        self.item = OutputMessage(
            type="message", id=item_id, status="in_progress", role="assistant", content=[]
        )

    def begin(self) -> list[TypedEvent]:
        """Give the events of its start."""
        place = self._place
        return [place.added(self.item), place.part_added(self.item.id, _text_part(""))]

    def add(self, text: str) -> list[TypedEvent]:
        """Add text and give its event."""
        self._pieces.append(text)
        delta = ResponseOutputTextDeltaEvent(
            type="response.output_text.delta",
            sequence_number=self._place.number(),
            item_id=self.item.id,
            output_index=self._place.index,
            content_index=0,
            delta=text,
            logprobs=[],
        )
        return [delta]

    def end(self, cut: bool) -> list[TypedEvent]:
        """Give the events of its end."""
        part = _text_part("".join(self._pieces))
        self.item.content = [part]
        self.item.status = "incomplete" if cut else "completed"
        done = ResponseOutputTextDoneEvent(
            type="response.output_text.done",
            sequence_number=self._place.number(),
            item_id=self.item.id,
            output_index=self._place.index,
            content_index=0,
            text=part.text,
            logprobs=[],
        )
        return [done, self._place.part_done(self.item.id, part), self._place.done(self.item)]


class OpenReasoning:
    """Thoughts."""

    def __init__(self, item_id: str, place: Place) -> None:
        self._place = place
        self._pieces: list[str] = []
        self.item = OutputReasoning(
            type="reasoning", id=item_id, status="in_progress", summary=[], content=[]
        )

    def begin(self) -> list[TypedEvent]:
        """Give the events of its start."""
        place = self._place
        return [place.added(self.item), place.part_added(self.item.id, _thought_part(""))]

    def add(self, text: str) -> list[TypedEvent]:
        """Add thoughts and give their event."""
        self._pieces.append(text)
        delta = ResponseReasoningTextDeltaEvent(
            type="response.reasoning_text.delta",
            sequence_number=self._place.number(),
            item_id=self.item.id,
            output_index=self._place.index,
            content_index=0,
            delta=text,
        )
        return [delta]

    def end(self, cut: bool) -> list[TypedEvent]:
        """Give the events of its end."""
        part = _thought_part("".join(self._pieces))
        self.item.content = [part]
        self.item.status = "incomplete" if cut else "completed"
        done = ResponseReasoningTextDoneEvent(
            type="response.reasoning_text.done",
            sequence_number=self._place.number(),
            item_id=self.item.id,
            output_index=self._place.index,
            content_index=0,
            text=part.text,
        )
        return [done, self._place.part_done(self.item.id, part), self._place.done(self.item)]


class OpenFunctionCall:
    """A call of a function."""

    def __init__(self, key: str, name: str, namespace: str | None, place: Place) -> None:
        self._place = place
        self._pieces: list[str] = []
        self.item = OutputFunctionCall(
            type="function_call",
            id=f"fc_{key}",
            status="in_progress",
            call_id=f"call_{key}",
            name=name,
            arguments="",
        )
        if namespace:
            self.item.namespace = namespace

    def begin(self) -> list[TypedEvent]:
        """Give the event of its start."""
        return [self._place.added(self.item)]

    def add(self, text: str) -> list[TypedEvent]:
        """Add JSON text of the arguments and give its event."""
        self._pieces.append(text)
        delta = ResponseFunctionCallArgumentsDeltaEvent(
            type="response.function_call_arguments.delta",
            sequence_number=self._place.number(),
            item_id=self.item.id,
            output_index=self._place.index,
            delta=text,
        )
        return [delta]

    def end(self, cut: bool) -> list[TypedEvent]:
        """Give the events of its end."""
        self.item.arguments = "".join(self._pieces)
        self.item.status = _call_status(cut, self.item.arguments)
        done = ResponseFunctionCallArgumentsDoneEvent(
            type="response.function_call_arguments.done",
            sequence_number=self._place.number(),
            item_id=self.item.id,
            output_index=self._place.index,
            name=self.item.name,
            arguments=self.item.arguments,
        )
        return [done, self._place.done(self.item)]


class OpenCustomCall:
    """A call of a custom tool, whose raw text is decoded from the arguments."""

    def __init__(self, key: str, name: str, namespace: str | None, place: Place) -> None:
        self._place = place
        self._raw = RawInput()
        self._pieces: list[str] = []
        self.item = OutputCustomToolCall(
            type="custom_tool_call",
            id=f"ctc_{key}",
            status="in_progress",
            call_id=f"call_{key}",
            name=name,
            input="",
        )
        if namespace:
            self.item.namespace = namespace

    def begin(self) -> list[TypedEvent]:
        """Give the event of its start."""
        return [self._place.added(self.item)]

    def add(self, text: str) -> list[TypedEvent]:
        """Add JSON text of the arguments and give the event of the raw text in it, if any."""
        return self._delta(self._raw.add(text))

    def end(self, cut: bool) -> list[TypedEvent]:
        """Give the events of its end."""
        rest = self._delta(self._raw.end())
        self.item.input = "".join(self._pieces)
        self.item.status = _call_status(cut, self._raw.arguments)
        done = ResponseCustomToolCallInputDoneEvent(
            type="response.custom_tool_call_input.done",
            sequence_number=self._place.number(),
            item_id=self.item.id,
            output_index=self._place.index,
            input=self.item.input,
        )
        return [*rest, done, self._place.done(self.item)]

    def _delta(self, text: str) -> list[TypedEvent]:
        if not text:
            return []
        self._pieces.append(text)
        delta = ResponseCustomToolCallInputDeltaEvent(
            type="response.custom_tool_call_input.delta",
            sequence_number=self._place.number(),
            item_id=self.item.id,
            output_index=self._place.index,
            delta=text,
        )
        return [delta]


def open_call(key: str, name: str, offered: OfferedTool | None, place: Place) -> OpenItem:
    """Give the item of a call under the name that the client knows."""
    if offered is None:
        return OpenFunctionCall(key, name, None, place)
    kind = OpenCustomCall if offered.custom else OpenFunctionCall
    return kind(key, offered.name, offered.namespace, place)


def _text_part(text: str) -> OutputTextPart:
    return OutputTextPart(type="output_text", text=text, annotations=[], logprobs=[])


def _thought_part(text: str) -> ReasoningTextPart:
    return ReasoningTextPart(type="reasoning_text", text=text)


def _call_status(cut: bool, arguments: str) -> Status:
    """Tell a call that was cut from one that was complete when no more tokens were allowed."""
    if cut:
        try:
            json.loads(arguments)
        except ValueError:
            return "incomplete"
    return "completed"
