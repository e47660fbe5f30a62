"""answer(): from a neutral request to a response. Admission, retry, fold and cancel meet here."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Protocol

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.errors import EngineError, NotReady, WorkerFailed
from engine.events import Event, PartStart
from engine.request import GenerationRequest
from handlers.disconnect import ClientLeft, unless_disconnected
from handlers.encoder import Encoder
from handlers.errors import api_error
from handlers.sse import EventStream

logger = logging.getLogger("mashbox.answer")

# How long a request that lost its worker waits for the next one.
RESTART_SECONDS = 120.0


class RunningAnswer(Protocol):
    """One admitted request (see engine.engine.Answer)."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """Yield its events; raises WorkerFailed."""

    def close(self) -> None:
        """Free its slot."""


class GenerationEngine(Protocol):
    """What handlers need of the engine to answer (see engine.engine.Engine)."""

    async def generate(self, request: GenerationRequest) -> RunningAnswer:
        """Admit a request; raises EngineError."""

    async def wait_until_ready(self, timeout: float) -> None:
        """Wait for a worker; raises NotReady."""


async def answer(
    engine: GenerationEngine,
    request: GenerationRequest,
    new_encoder: Callable[[], Encoder],
    stream: bool,
) -> Response:
    """Admit a request and give its response, streamed or whole.

    Raises EngineError while the status line can still tell it. A request that loses its worker
    is sent again once, from the start, if its client has received no output.
    """
    running = await engine.generate(request)
    retry = _Retry(engine, request)
    if stream:
        return EventStream(_chunks(running, retry, new_encoder()))
    return _WholeAnswer(running, retry, new_encoder)


class _Retry:
    """The one second attempt that a request has."""

    def __init__(self, engine: GenerationEngine, request: GenerationRequest) -> None:
        self._engine = engine
        self._request = request
        self._left = 1

    async def after(self, error: WorkerFailed) -> RunningAnswer:
        """Start the request again once a worker is ready; raises `error` if that is used up."""
        if not self._left:
            raise error
        self._left -= 1
        logger.info("%s is sent again: %s", self._request.id, error)
        try:
            await self._engine.wait_until_ready(RESTART_SECONDS)
        except NotReady:
            raise error from None
        return await self._engine.generate(self._request)


async def _chunks(
    running: RunningAnswer, retry: _Retry, encoder: Encoder
) -> AsyncGenerator[bytes, None]:
    output_sent = False
    try:
        for chunk in encoder.start():
            yield chunk
        while True:
            try:
                async for event in running:
                    output_sent = output_sent or isinstance(event, PartStart)
                    for chunk in encoder.feed(event):
                        yield chunk
                return
            except WorkerFailed as error:
                if output_sent:
                    raise
                running = await retry.after(error)
    except EngineError as error:
        logger.error("A stream ended in an error: %s", error)
        for chunk in encoder.fail(api_error(error)):
            yield chunk
    finally:
        running.close()


class _WholeAnswer(Response):
    """Folds the events into one JSON body."""

    media_type = "application/json"

    def __init__(
        self, running: RunningAnswer, retry: _Retry, new_encoder: Callable[[], Encoder]
    ) -> None:
        super().__init__()
        self._running = running
        self._retry = retry
        self._new_encoder = new_encoder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; raises EngineError before anything is sent."""
        try:
            result = await unless_disconnected(self._fold(), receive)
        except ClientLeft:
            return
        finally:
            self._running.close()
        body = result.model_dump_json(exclude_unset=True)
        await Response(body, media_type=self.media_type)(scope, receive, send)

    async def _fold(self) -> BaseModel:
        while True:
            encoder = self._new_encoder()
            try:
                async for event in self._running:
                    encoder.feed(event)
                return encoder.result()
            except WorkerFailed as error:
                self._running = await self._retry.after(error)
