"""One admitted request, from its first attempt to its last event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from engine.errors import EngineError, WorkerFailed
from engine.events import Event, Finished, FinishReason
from engine.generation import Generation
from engine.messages import SequenceOutput, Submit
from engine.stats import Outcome, RequestStats


class AnswerOwner(Protocol):
    """Who runs an answer (see engine.engine.Engine)."""

    def send_again(self, answer: Answer) -> None:
        """Run it from the start; raises EngineError when nothing runs any more."""

    def close_answer(self, answer: Answer) -> None:
        """Forget it and free its slot; harmless when that is done."""


class Answer:
    """An iterator of one request's events, ended by `Finished` or an exception.

    `outcome` tells how it would be counted if it were closed now, `error` what ended the present
    attempt.
    """

    def __init__(
        self,
        submit: Submit,
        tenant: str,
        stats: RequestStats,
        new_generation: Callable[[], Generation],
        owner: AnswerOwner,
    ) -> None:
        self.submit = submit
        self.tenant = tenant
        self.stats = stats
        # Whatever is closed before its end was closed for its client.
        self.outcome: Outcome = "abort"
        self.error: EngineError | None = None
        self._new_generation = new_generation
        self._generation = new_generation()
        self._events: asyncio.Queue[Event | EngineError] = asyncio.Queue()
        self._owner = owner
        self._retried = False
        # The mock's engine alters what clients see.
        self.edit: Callable[[Event], Event] = lambda event: event

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self.submit.request_id

    @property
    def tokens(self) -> int:
        """How many tokens the present attempt has brought so far."""
        return self.stats.completion_tokens

    @property
    def completion_tokens(self) -> int:
        """Tokens of the answer so far; what came after a stop string is not of it."""
        return self._generation.completion_tokens

    @property
    def finished(self) -> bool:
        """Whether the last event is out; a stop string may end the text before the worker knows."""
        return self._generation.finished

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield the events; raises WorkerFailed when the attempt is lost, or another EngineError.

        After `retry` a new iterator yields those of the second attempt.
        """
        # The text may be finished long before its reader has taken all of it.
        while not (self._generation.finished and self._events.empty()):
            event = await self._events.get()
            if isinstance(event, EngineError):
                raise event
            yield self.edit(event)

    def retry(self, error: WorkerFailed) -> None:
        """Run a request again, from the start, that `error` ended; raises `error` the second time.

        Only for a request whose client has received nothing of the answer. It passes by the queue's
        limits, which it has passed before.
        """
        if self._retried:
            raise error
        self._retried = True
        self.outcome, self.error = "abort", None
        self.stats.restart()
        # The old one may hold half a word or half a call of the lost attempt.
        self._generation = self._new_generation()
        # Last: it may be refused, and then it is the refusal that ends the request.
        self._owner.send_again(self)

    def blame(self) -> None:
        """Take the second attempt from a request that has done harm twice, once alone."""
        self._retried = True

    def close(self) -> None:
        """Free the request's slot; must be called however the answer ends, harmless when over."""
        self._owner.close_answer(self)

    def push(self, at: float, output: SequenceOutput) -> None:
        """Turn what one step gave into events."""
        for event in self._generation.push(at, output):
            if isinstance(event, Finished):
                self.outcome = "length" if event.reason is FinishReason.LENGTH else "stop"
            self._events.put_nowait(event)

    def fail(self, error: EngineError) -> None:
        """End the iterator with `error`."""
        self.outcome, self.error = "error", error
        self._events.put_nowait(error)
