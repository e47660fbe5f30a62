"""A load client: concurrent streamed chats, their times and token counts."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from dataclasses import dataclass

import httpx

WORDS = ["river", "stone", "cloud", "lamp", "green", "walk", "under", "seven", "bright", "song"]


@dataclass(frozen=True, slots=True)
class Reply:
    """One streamed answer: seconds to its first text and to its end, and its tokens."""

    first: float
    total: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of many chats gave."""

    replies: list[Reply]
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all answers per second of wall time."""
        return sum(reply.tokens for reply in self.replies) / self.seconds

    @property
    def first_median(self) -> float:
        """Median seconds to the first text."""
        return statistics.median(reply.first for reply in self.replies)


def prompt(words: int, seed: int) -> str:
    """A text of about `words` tokens, different for every seed, that asks for a long answer."""
    filler = " ".join(random.Random(seed).choices(WORDS, k=words - 14))
    return f"Here are some words: {filler}. Write a very long story that uses them."


async def chat(client: httpx.AsyncClient, model: str, text: str, max_tokens: int) -> Reply:
    """Stream one greedy chat."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    started = time.perf_counter()
    first, pieces, counted = 0.0, 0, 0
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            raise RuntimeError(f"{response.status_code}: {(await response.aread())[:300]!r}")
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            usage = chunk.get("usage") or {}
            counted = usage.get("completion_tokens") or counted
            if any((c.get("delta") or {}).get("content") for c in chunk["choices"]):
                pieces += 1
                first = first or time.perf_counter() - started
    return Reply(first, time.perf_counter() - started, counted or pieces)


async def run_chats(
    url: str, model: str, texts: list[str], max_tokens: int, concurrency: int
) -> Load:
    """Answer all texts, `concurrency` at a time."""
    gate = asyncio.Semaphore(concurrency)
    limits = httpx.Limits(max_connections=concurrency)
    async with httpx.AsyncClient(base_url=url, timeout=900, limits=limits) as client:

        async def one(text: str) -> Reply:
            async with gate:
                return await chat(client, model, text, max_tokens)

        started = time.perf_counter()
        replies = await asyncio.gather(*map(one, texts))
        return Load(list(replies), time.perf_counter() - started)
