"""One request's text side: what the worker computed in, neutral events out."""

from __future__ import annotations

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
from engine.stop import StopStrings
from engine.tokenizer import Tokenizer

_REASONS = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


class Generation:
    """Turns one request's step outputs into its event stream.

    `submitted_at` and every `at` are `time.monotonic()` seconds. `finished` is set after the
    Finished event; when a stop string ended the text, the worker does not know yet and its
    sequence has to be cancelled.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_tokens: int,
        submitted_at: float,
        stop: tuple[str, ...],
    ) -> None:
        self._detokenizer = IncrementalDetokenizer(tokenizer)
        self._stop = StopStrings(stop)
        self._prompt_tokens = prompt_tokens
        self._cached_tokens = 0
        self._completion_tokens = 0
        self._submitted_at = submitted_at
        self._started_at = self._first_at = self._last_at = submitted_at
        self._part_open = False
        self._finished = False

    @property
    def finished(self) -> bool:
        """Whether the stream is complete; further outputs give no events."""
        return self._finished

    def push(self, at: float, output: SequenceOutput) -> list[Event]:
        """The events of one step's output, which was computed `at`."""
        if self._finished:
            return []
        events = self._start(output)
        if output.completion_tokens > self._completion_tokens:
            self._note_tokens(at)
        for token_id in output.token_ids:
            self._completion_tokens += 1
            events += self._text(*self._stop.push(self._detokenizer.push(token_id)))
            if self._finished:
                return events
        # An end-of-turn id is counted though not listed.
        self._completion_tokens = output.completion_tokens
        if output.finish:
            events += self._text(*self._stop.flush())
            if not self._finished:
                events += self._finish(_REASONS[output.finish], None)
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

    def _text(self, text: str, stop: str | None) -> list[Event]:
        events: list[Event] = []
        if text and not self._part_open:
            self._part_open = True
            events.append(PartStart(0, "text"))
        if text:
            events.append(PartDelta(0, text))
        return events if stop is None else events + self._finish(FinishReason.STOP, stop)

    def _finish(self, reason: FinishReason, stop: str | None) -> list[Event]:
        self._finished = True
        usage = Usage(self._prompt_tokens, self._cached_tokens, self._completion_tokens)
        timings = Timings(
            queue_ms=self._queue_ms(),
            prompt_ms=(self._first_at - self._started_at) * 1000,
            predicted_ms=(self._last_at - self._first_at) * 1000,
        )
        ended: list[Event] = [PartEnd(0)] if self._part_open else []
        return [*ended, Finished(reason, stop, usage, timings)]

    def _queue_ms(self) -> float:
        return (self._started_at - self._submitted_at) * 1000
