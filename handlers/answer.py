"""From a neutral request to a response: admission, retry, fold and cancel meet here."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.errors import EngineError, WorkerFailed
from engine.events import Event, PartStart
from engine.request import GenerationRequest
from handlers.disconnect import unless_disconnected
from handlers.encoder import Encoder, KeepsAlive
from handlers.errors import stream_error
from handlers.request_log import LoggedAnswer
from handlers.sse import EventStream, comment

logger = logging.getLogger("mashbox.answer")


class RunningAnswer(LoggedAnswer, Protocol):
    """One admitted request (see engine.answer.Answer)."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """Yield the events of the present attempt; raises WorkerFailed when it is lost."""

    def retry(self, error: WorkerFailed) -> None:
        """Begin the second attempt; raises `error` when that is used up, or another EngineError."""

    def close(self) -> None:
        """Free its slot."""


class GenerationEngine(Protocol):
    """What handlers need of the engine to answer (see engine.engine.Engine)."""

    async def generate(self, request: GenerationRequest) -> RunningAnswer:
        """Admit a request; raises EngineError."""


class AnswerResponse(Response):
    """Admits a request and answers it, streamed or whole.

    A request that loses its worker is sent again once, from the start, if its client has received
    no output.
    """

    def __init__(
        self,
        engine: GenerationEngine,
        request: GenerationRequest,
        new_encoder: Callable[[], Encoder],
        stream: bool,
    ) -> None:
        super().__init__()
        self._engine = engine
        self._request = request
        self._new_encoder = new_encoder
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; raises EngineError while the status line can still tell it, and ClientLeft."""
        request = replace(self._request, tenant=scope.get("tenant", ""))
        # Not before the response is sent: from then on a client that leaves is noticed.
        running = await unless_disconnected(self._engine.generate(request), receive)
        try:
            response = (
                self._streamed(running)
                if self._stream
                else await unless_disconnected(self._whole(running), receive)
            )
            await response(scope, receive, send)
        finally:
            running.close()
            if record := scope.get("record"):
                record.read_answer(request.id, running)

    def _streamed(self, running: RunningAnswer) -> Response:
        encoder = self._new_encoder()
        keep_alive = encoder.keep_alive if isinstance(encoder, KeepsAlive) else comment
        return EventStream(_chunks(running, self._request.id, encoder), keep_alive)

    async def _whole(self, running: RunningAnswer) -> Response:
        while True:
            # What a lost attempt brought is forgotten with its encoder: nobody has seen it.
            encoder = self._new_encoder()
            try:
                async for event in running:
                    encoder.feed(event)
            except WorkerFailed as error:
                _retry(running, self._request.id, error)
            else:
                body = encoder.result().model_dump_json(exclude_unset=True)
                return Response(body, media_type="application/json")


async def _chunks(
    running: RunningAnswer, request_id: str, encoder: Encoder
) -> AsyncGenerator[bytes, None]:
    output_sent = False
    try:
        yield b"".join(encoder.start())
        while True:
            try:
                async for event in _parts_with_content(running):
                    # From here on a second attempt could contradict what the client has.
                    output_sent = output_sent or isinstance(event, PartStart)
                    # One write for all that an event gives.
                    if chunks := encoder.feed(event):
                        yield b"".join(chunks)
                return
            except WorkerFailed as error:
                if output_sent:
                    raise
                _retry(running, request_id, error)
    except EngineError as error:
        # The status line is out: only the stream itself can still tell.
        logger.error("%s: the stream ended in an error: %s", request_id, error)
        yield b"".join(encoder.fail(stream_error(error, request_id)))


async def _parts_with_content(events: RunningAnswer) -> AsyncGenerator[Event, None]:
    """Hold the beginning of a part until its first delta: it is no output, but cannot be undone."""
    beginning: PartStart | None = None
    async for event in events:
        if isinstance(event, PartStart):
            beginning = event
            continue
        if beginning:
            yield beginning
            beginning = None
        yield event


def _retry(running: RunningAnswer, request_id: str, error: WorkerFailed) -> None:
    running.retry(error)
    logger.info("%s is sent again: %s", request_id, error)
