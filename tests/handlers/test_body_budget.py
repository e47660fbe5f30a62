"""BodyBudget: what all large bodies together may take."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from handlers.body_budget import SMALL_BODY_BYTES, BodyBudget
from handlers.errors import ApiError
from tests.handlers.asgi import Connection

LARGE = SMALL_BODY_BYTES + 1


class Reader:
    """An application that reads a body and then works until it is let go."""

    def __init__(self) -> None:
        self.read = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        self.read.set()
        await self.go.wait()


async def serve(budget: BodyBudget, *pieces: bytes) -> None:
    await Connection(*pieces).serve(budget)


async def test_a_large_body_is_refused_while_another_one_fills_the_budget() -> None:
    app = Reader()
    budget = BodyBudget(app, LARGE + 10)
    first = asyncio.ensure_future(serve(budget, bytes(LARGE)))
    await app.read.wait()
    with pytest.raises(ApiError) as refusal:
        await serve(budget, bytes(SMALL_BODY_BYTES), bytes(11))
    assert (refusal.value.status, refusal.value.overloaded) == (503, True)
    assert refusal.value.headers["Retry-After"].isdigit()
    app.go.set()
    await first
    await serve(budget, bytes(LARGE + 10))


async def test_small_bodies_are_never_refused() -> None:
    app = Reader()
    app.go.set()
    await serve(BodyBudget(app, 0), bytes(SMALL_BODY_BYTES - 1), b"x")


async def test_what_a_refused_body_took_is_given_back() -> None:
    app = Reader()
    app.go.set()
    budget = BodyBudget(app, LARGE)
    for _ in range(3):
        with pytest.raises(ApiError):
            await serve(budget, bytes(LARGE), bytes(1))
    await serve(budget, bytes(LARGE))
