"""A load client: streamed greedy chats and the moments at which their pieces arrive."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import httpx

Message = dict[str, str]

# Each is one token of the models in use, with the space before it.
WORDS = ["river", "stone", "cloud", "lamp", "green", "walk", "under", "seven", "bright", "song"]
# Prose that even a small model repeats; the numbers change.
SENTENCES = (
    "The harbour town of Velm lies on a narrow bay, and {} people live there.",
    "They live from fishing, from the salt works, and from visitors who come in summer.",
    "The ferry Aurora sails to the {} islands every morning and comes back at night.",
    "The museum by the old mill shows nets, lamps and {} sea charts.",
    "In winter the road over the pass is closed for {} days.",
    "The lighthouse was built of grey stone and is {} feet high.",
    "On market days the square is full, and {} stalls sell bread, cheese and wool.",
)


@dataclass(slots=True)
class Reply:
    """One streamed answer; `times` are the moments, in seconds, at which pieces of text came.

    `tokens` is what the server counts, or else the number of pieces; `computed` are the prompt's
    tokens that no cache held, if the server tells.
    """

    started: float = field(default_factory=time.perf_counter)
    times: list[float] = field(default_factory=list)
    text: str = ""
    tokens: int = 0
    computed: int | None = None

    @property
    def first(self) -> float:
        """Seconds to the first piece."""
        return self.times[0] - self.started

    @property
    def gaps(self) -> list[float]:
        """Seconds between pieces."""
        return [later - earlier for earlier, later in itertools.pairwise(self.times)]

    @property
    def decode_rate(self) -> float:
        """Tokens per second after the first one."""
        return (self.tokens - 1) / (self.times[-1] - self.times[0])


def user(text: str) -> list[Message]:
    """A conversation of one message."""
    return [{"role": "user", "content": text}]


def filler(words: int, seed: int) -> str:
    """A text of `words` tokens, another one for every seed."""
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def prompt(tokens: int, seed: int) -> str:
    """A text of about `tokens` tokens, another one for every seed, that asks for a long answer."""
    words = filler(tokens - 14, seed)
    return f"Here are some words: {words}. Write a very long story that uses them."


def description(seed: int) -> str:
    """About 130 tokens of prose, other prose for every seed."""
    dice = random.Random(seed)
    sentences = [sentence.format(dice.randint(11, 999)) for sentence in SENTENCES]
    return " ".join(dice.sample(sentences, len(sentences)))


def ignore(piece: int) -> None:
    """Do nothing."""


class Client:
    """Streams chats from one server."""

    def __init__(self, url: str, model: str) -> None:
        self._model = model
        # A connection for each chat: llama-server closes kept ones under the next request.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._http = httpx.AsyncClient(base_url=url, timeout=900, limits=limits)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def chat(
        self,
        messages: list[Message],
        max_tokens: int,
        reply: Reply | None = None,
        on_piece: Callable[[int], None] = ignore,
    ) -> Reply:
        """Stream one answer into `reply`; `on_piece` is told the count of pieces so far."""
        reply = reply or Reply()
        async with self._post(messages, max_tokens) as response:
            if response.status_code != 200:
                raise RuntimeError(f"{response.status_code}: {(await response.aread())[:300]!r}")
            async for line in response.aiter_lines():
                if line.startswith("data: {") and _take(json.loads(line[6:]), reply):
                    on_piece(len(reply.times))
        if not reply.times:
            raise RuntimeError("an answer without text")
        reply.tokens = reply.tokens or len(reply.times)
        return reply

    async def chats(self, texts: Iterable[str], max_tokens: int, concurrency: int) -> list[Reply]:
        """Answer all texts, `concurrency` at a time."""
        gate = asyncio.Semaphore(concurrency)

        async def one(text: str) -> Reply:
            async with gate:
                return await self.chat(user(text), max_tokens)

        return await asyncio.gather(*map(one, texts))

    def _post(
        self, messages: list[Message], max_tokens: int
    ) -> AbstractAsyncContextManager[httpx.Response]:
        body = {
            "model": self._model,
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return self._http.stream("POST", "/v1/chat/completions", json=body)


def _take(chunk: dict[str, Any], reply: Reply) -> bool:
    """Add a chunk to `reply`; True if there was text in it."""
    _take_usage(chunk.get("usage") or {}, reply)
    deltas = [choice.get("delta") or {} for choice in chunk["choices"]]
    text = "".join(delta.get("content") or "" for delta in deltas)
    if text:
        reply.text += text
        reply.times.append(time.perf_counter())
    return bool(text)


def _take_usage(usage: dict[str, Any], reply: Reply) -> None:
    reply.tokens = usage.get("completion_tokens") or reply.tokens
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    if cached is not None:
        reply.computed = usage["prompt_tokens"] - cached
