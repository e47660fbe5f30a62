from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from engine.errors import BadPrompt, Stopping
from engine.text_pool import SHORT, Abandoned, Cancelled, TextPool

LONG = SHORT + 1


class Work:
    """Work that waits in its thread until it is let go or finds itself cancelled."""

    def __init__(self) -> None:
        self.begun, self.go, self.stopped = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, cancelled: Cancelled) -> str:
        self.begun.set()
        while not self.go.wait(0.001):
            if cancelled():
                self.stopped.set()
                raise Abandoned
        return threading.current_thread().name

    async def until(self, event: threading.Event) -> None:
        assert await asyncio.to_thread(event.wait, 10)


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[TextPool]:
    pool = TextPool()
    yield pool
    pool.close()


async def test_short_texts_never_wait_for_long_ones(pool: TextPool) -> None:
    works = [Work() for _ in range(6)]
    long = [asyncio.ensure_future(pool.run("", LONG, work)) for work in works]
    await works[0].until(works[0].begun)
    assert await pool.run("", SHORT, lambda cancelled: "short") == "short"
    assert not any(work.begun.is_set() for work in works[1:])
    for work in works:
        work.go.set()
    assert {name.startswith("text-long") for name in await asyncio.gather(*long)} == {True}


async def test_tenants_take_turns_in_a_lane(pool: TextPool) -> None:
    work, order = Work(), list[str]()
    flood = [asyncio.ensure_future(pool.run("a", 1, work))]
    await work.until(work.begun)
    for name in ("a", "a", "a", "b"):
        flood.append(asyncio.ensure_future(pool.run(name, 1, lambda _, n=name: order.append(n))))
        await asyncio.sleep(0)
    work.go.set()
    await asyncio.gather(*flood)
    assert order == ["b", "a", "a", "a"]


async def test_work_in_progress_stops_when_nobody_waits_any_more(pool: TextPool) -> None:
    work, queued = Work(), Work()
    waiting = [asyncio.ensure_future(pool.run("", LONG, each)) for each in (work, queued)]
    await work.until(work.begun)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await work.until(work.stopped)
    assert await pool.run("", LONG, lambda cancelled: "next") == "next"
    assert not queued.begun.is_set()


async def test_what_the_work_raises_comes_out(pool: TextPool) -> None:
    def refuse(cancelled: Cancelled) -> None:
        raise BadPrompt("no")

    with pytest.raises(BadPrompt):
        await pool.run("", 1, refuse)


async def test_closing_stops_running_and_queued_work(pool: TextPool) -> None:
    work, queued = Work(), Work()
    waiting = [asyncio.ensure_future(pool.run("", LONG, each)) for each in (work, queued)]
    await work.until(work.begun)
    pool.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [Stopping, Stopping]
    assert work.stopped.is_set() and not queued.begun.is_set()
