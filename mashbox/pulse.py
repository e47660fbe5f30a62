"""One log line every ten seconds while the server is busy."""

from __future__ import annotations

import asyncio
import logging
import time

from engine.engine import Engine

logger = logging.getLogger("mashbox.pulse")

_SECONDS = 10.0


async def pulse(engine: Engine, seconds: float = _SECONDS) -> None:
    """Log what the engine does, every `seconds` as long as requests run or wait; never returns."""
    while True:
        before, begun = engine.stats.generation_tokens, time.monotonic()
        await asyncio.sleep(seconds)
        tokens = engine.stats.generation_tokens - before
        beat(engine, tokens / (time.monotonic() - begun))


def beat(engine: Engine, tokens_per_second: float) -> None:
    """Log one line if there is work; the cache's part is that of the slots' room for tokens."""
    now, config = engine.health(), engine.config
    if not (now.running or now.waiting):
        return
    cache = now.held_tokens / (config.slots * config.ctx)
    parts = {
        "running": now.running,
        "waiting": now.waiting,
        "tokens_per_second": round(tokens_per_second, 1),
        "cache": round(cache, 3),
    }
    logger.info(
        "running %d  waiting %d  %.0f tok/s  cache %.0f %%",
        now.running,
        now.waiting,
        tokens_per_second,
        cache * 100,
        extra={"parts": parts},
    )
