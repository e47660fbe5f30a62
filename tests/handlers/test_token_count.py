from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from engine.request import ChatPrompt
from handlers.disconnect import ClientLeft
from handlers.token_count import TokenCountResponse


class EndlessCount:
    """An engine that counts until it is told to stop."""

    def __init__(self) -> None:
        self.begun, self.stopped = asyncio.Event(), False
        self.tenant = ""

    async def count_tokens(self, prompt: ChatPrompt, tenant: str) -> int:
        self.tenant = tenant
        self.begun.set()
        try:
            return await asyncio.Event().wait()
        finally:
            self.stopped = True


async def test_counting_is_the_tenants_and_ends_when_the_client_leaves() -> None:
    engine = EndlessCount()

    async def receive() -> Message:
        await engine.begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    response = TokenCountResponse(engine, ChatPrompt(()))
    with pytest.raises(ClientLeft):
        await response({"type": "http", "tenant": "alice"}, receive, send)
    assert (engine.tenant, engine.stopped) == ("alice", True)
