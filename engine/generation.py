"""One request's text side: what the worker computed in, neutral events out."""

from __future__ import annotations

from typing import Literal

from engine.detokenizer import IncrementalDetokenizer
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
from engine.messages import SequenceOutput
from engine.response_parser import PartEvent, ResponseParser
from engine.stop import StopStrings


class Generation:
    """Turns one request's step outputs into its event stream.

    Stop strings are searched in the text parts, in each one alone. `submitted_at` and every `at`
    are `time.monotonic()` seconds. `finished` is set after the Finished event; when a stop string
    ended the text, the worker does not know yet and its sequence has to be cancelled.
    """

    def __init__(
        self,
        detokenizer: IncrementalDetokenizer,
        parser: ResponseParser,
        prompt_tokens: int,
        submitted_at: float,
        stop: tuple[str, ...] = (),
    ) -> None:
        self._detokenizer = detokenizer
        self._parser = parser
        self._stops = stop
        self._stop = StopStrings(())
        self._prompt_tokens = prompt_tokens
        self._cached_tokens = 0
        self._completion_tokens = 0
        self._reasoning_tokens = 0
        self._draft_tokens = 0
        self._accepted_tokens = 0
        self._submitted_at = submitted_at
        self._started_at = self._first_at = self._last_at = submitted_at
        # A text part begins with the first text that is no stop string.
        self._waiting: PartStart | None = None
        self._in_text = False
        self._open: int | None = None
        self._finished = False

    @property
    def finished(self) -> bool:
        """Whether the stream is complete; further outputs give no events."""
        return self._finished

    @property
    def completion_tokens(self) -> int:
        """Tokens of the answer so far; what came after a stop string is not of it."""
        return self._completion_tokens

    def push(self, at: float, output: SequenceOutput) -> list[Event]:
        """The events of one step's output, which was computed `at`."""
        return _joined(self._push(at, output))

    def _push(self, at: float, output: SequenceOutput) -> list[Event]:
        if self._finished:
            return []
        events = self._start(output)
        if output.completion_tokens > self._completion_tokens:
            self._note_tokens(at)
        self._draft_tokens += output.draft_tokens
        self._accepted_tokens += output.accepted_tokens
        for token_id in output.token_ids:
            self._completion_tokens += 1
            self._reasoning_tokens += self._parser.in_reasoning
            events += self._parts(self._parser.push(self._detokenizer.push(token_id)))
            if self._finished:
                return events
        # An end-of-turn id is counted though not listed.
        self._completion_tokens = output.completion_tokens
        if output.finish:
            events += self._parts(self._parser.finish())
            if not self._finished:
                events += self._finish(self._reason(output.finish), None)
        return events

    def _start(self, output: SequenceOutput) -> list[Event]:
        if output.started_at is None:
            return []
        self._started_at = output.started_at
        self._cached_tokens = output.cached_tokens
        return [Started(self._prompt_tokens, self._cached_tokens, self._queue_ms())]

    def _note_tokens(self, at: float) -> None:
        if not self._completion_tokens:
            self._first_at = at
        self._last_at = at

    def _parts(self, parsed: list[PartEvent]) -> list[Event]:
        events: list[Event] = []
        for event in parsed:
            events += self._part(event)
            if self._finished:
                break
        return events

    def _part(self, event: PartEvent) -> list[Event]:
        match event:
            case PartStart(kind="text"):
                self._in_text, self._waiting = True, event
                self._stop = StopStrings(self._stops)
                return []
            case PartStart(index):
                self._in_text, self._open = False, index
                return [event]
            case PartDelta(_, text) if self._in_text:
                return self._text(*self._stop.push(text))
            case PartDelta():
                return [event]
            case PartEnd():
                held = self._text(*self._stop.flush()) if self._in_text else []
                return held if self._finished else [*held, *self._end_part()]

    def _text(self, text: str, stop: str | None) -> list[Event]:
        events: list[Event] = []
        if text and self._waiting:
            events.append(self._waiting)
            self._open, self._waiting = self._waiting.index, None
        if text and self._open is not None:
            events.append(PartDelta(self._open, text))
        return events if stop is None else events + self._finish(self._reason("stop"), stop)

    def _end_part(self) -> list[Event]:
        index, self._open = self._open, None
        return [] if index is None else [PartEnd(index)]

    def _reason(self, finish: Literal["stop", "length"]) -> FinishReason:
        if finish == "length" or self._parser.broken:
            return FinishReason.LENGTH
        return FinishReason.TOOL_CALLS if self._parser.called else FinishReason.STOP

    def _finish(self, reason: FinishReason, stop: str | None) -> list[Event]:
        self._finished = True
        usage = Usage(
            self._prompt_tokens,
            self._cached_tokens,
            self._completion_tokens,
            self._reasoning_tokens,
        )
        timings = Timings(
            queue_ms=self._queue_ms(),
            prompt_ms=(self._first_at - self._started_at) * 1000,
            predicted_ms=(self._last_at - self._first_at) * 1000,
            draft_n=self._draft_tokens,
            draft_n_accepted=self._accepted_tokens,
        )
        return [*self._end_part(), Finished(reason, stop, usage, timings)]

    def _queue_ms(self) -> float:
        return (self._started_at - self._submitted_at) * 1000


def _joined(events: list[Event]) -> list[Event]:
    """Text that came in one step is sent in one piece."""
    joined: list[Event] = []
    for event in events:
        before = joined[-1] if joined else None
        if isinstance(event, PartDelta) and isinstance(before, PartDelta):
            joined[-1] = PartDelta(event.index, before.text + event.text)
        else:
            joined.append(event)
    return joined
