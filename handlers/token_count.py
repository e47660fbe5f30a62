"""The response that counts a prompt's tokens."""

from __future__ import annotations

from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.request import ChatPrompt
from generated.models import TokenCount
from handlers.disconnect import unless_disconnected


class CountingEngine(Protocol):
    """What handlers need of the engine to count (see engine.engine.Engine)."""

    async def count_tokens(self, prompt: ChatPrompt, tenant: str) -> int:
        """Count a prompt's tokens; raises EngineError."""


class TokenCountResponse(Response):
    """Counts only when it is sent: then the tenant is known, and a client that can leave."""

    def __init__(self, engine: CountingEngine, prompt: ChatPrompt) -> None:
        super().__init__()
        self._engine = engine
        self._prompt = prompt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; raises EngineError before anything is sent, and ClientLeft."""
        # A long prompt takes seconds, which nobody should be kept busy with for a client that left.
        counting = self._engine.count_tokens(self._prompt, scope.get("tenant", ""))
        count = TokenCount(input_tokens=await unless_disconnected(counting, receive))
        body = count.model_dump_json(exclude_unset=True)
        await Response(body, media_type="application/json")(scope, receive, send)
