"""The line that a busy server logs from time to time."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from engine.config import EngineConfig, ModelSource
from engine.engine import Engine, EngineHealth
from engine.stats import EngineStats
from mashbox.logs import JsonFormatter
from mashbox.pulse import beat, pulse


def engine(running: int, waiting: int, held_tokens: int = 0) -> Engine:
    health = EngineHealth(True, running, waiting, 1, 0, held_tokens)
    config = EngineConfig(ModelSource("m", Path("m")), ctx=1000, slots=4)
    return cast(
        Engine, SimpleNamespace(config=config, health=lambda: health, stats=EngineStats(1000))
    )


@pytest.fixture(autouse=True)
def from_info_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mashbox.pulse")


def test_a_busy_server_tells_requests_speed_and_cache(caplog: pytest.LogCaptureFixture) -> None:
    beat(engine(3, 5, held_tokens=2440), 111.96)
    assert caplog.messages == ["running 3  waiting 5  112 tok/s  cache 61 %"]
    line = json.loads(JsonFormatter().format(caplog.records[0]))
    assert (line["running"], line["waiting"]) == (3, 5)
    assert (line["tokens_per_second"], line["cache"]) == (112.0, 0.61)


def test_an_idle_server_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    beat(engine(0, 0), 0.0)
    assert not caplog.messages


async def test_the_speed_is_that_of_the_time_since_the_last_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, rounds = engine(1, 0), 0

    async def pause(seconds: float) -> None:
        nonlocal rounds
        rounds += 1
        busy.stats.generation_tokens += 50 * rounds
        clock.append(clock[-1] + seconds)
        if rounds == 3:
            raise asyncio.CancelledError

    clock = [100.0]
    monkeypatch.setattr("mashbox.pulse.asyncio.sleep", pause)
    monkeypatch.setattr("mashbox.pulse.time.monotonic", lambda: clock[-1])
    with pytest.raises(asyncio.CancelledError):
        await pulse(busy)
    assert [message.split("  ")[2] for message in caplog.messages] == ["5 tok/s", "10 tok/s"]
