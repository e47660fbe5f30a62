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
from handlers.encoder import Encoder, KeepsAlive
from handlers.errors import api_error
from handlers.sse import EventStream, comment

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
    attempts = _Attempts(engine, request, await engine.generate(request))
    if stream:
        encoder = new_encoder()
        keep_alive = encoder.keep_alive if isinstance(encoder, KeepsAlive) else comment
        return EventStream(_chunks(attempts, encoder), attempts.close, keep_alive)
    return _WholeAnswer(attempts, new_encoder)


class _Attempts:
    """A running request, and the one second attempt that it has."""

    def __init__(
        self, engine: GenerationEngine, request: GenerationRequest, running: RunningAnswer
    ) -> None:
        self._engine = engine
        self._request = request
        self._running = running
        self._left = 1

    @property
    def request_id(self) -> str:
        return self._request.id

    def events(self) -> AsyncIterator[Event]:
        """Iterate over the present attempt; raises WorkerFailed."""
        return aiter(self._running)

    def close(self) -> None:
        """Free the slot; must be called however the answer ends."""
        self._running.close()

    async def again(self, error: WorkerFailed) -> None:
        """Start the request again once a worker is ready; raises `error` if that is used up."""
        if not self._left:
            raise error
        self._left -= 1
        # Both attempts have the same id: the lost one must not free the slot of the new one.
        self.close()
        logger.info("%s is sent again: %s", self.request_id, error)
        try:
            await self._engine.wait_until_ready(RESTART_SECONDS)
        except NotReady:
            raise error from None
        self._running = await self._engine.generate(self._request)


async def _chunks(attempts: _Attempts, encoder: Encoder) -> AsyncGenerator[bytes, None]:
    output_sent = False
    try:
        for chunk in encoder.start():
            yield chunk
        while True:
            try:
                async for event in attempts.events():
                    # A part that has begun cannot begin again.
                    output_sent = output_sent or isinstance(event, PartStart)
                    for chunk in encoder.feed(event):
                        yield chunk
                return
            except WorkerFailed as error:
                if output_sent:
                    raise
                await attempts.again(error)
    except EngineError as error:
        logger.error("%s: the stream ended in an error: %s", attempts.request_id, error)
        for chunk in encoder.fail(api_error(error, attempts.request_id)):
            yield chunk


class _WholeAnswer(Response):
    """Folds the events into one JSON body."""

    media_type = "application/json"

    def __init__(self, attempts: _Attempts, new_encoder: Callable[[], Encoder]) -> None:
        super().__init__()
        self._attempts = attempts
        self._new_encoder = new_encoder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; raises EngineError before anything is sent."""
        try:
            result = await unless_disconnected(self._fold(), receive)
        except ClientLeft:
            return
        finally:
            self._attempts.close()
        body = result.model_dump_json(exclude_unset=True)
        await Response(body, media_type=self.media_type)(scope, receive, send)

    async def _fold(self) -> BaseModel:
        while True:
            encoder = self._new_encoder()
            try:
                async for event in self._attempts.events():
                    encoder.feed(event)
                return encoder.result()
            except WorkerFailed as error:
                await self._attempts.again(error)
