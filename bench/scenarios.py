"""What is measured: each scenario runs against one fresh server and gives its figures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from bench.figures import Figures, of_chats, percentile
from bench.load import Client, Message, Reply, description, filler, prompt, user

LONG = 4000
TURNS, TURN_WORDS, TURN_ANSWER = 10, 560, 24
OTHERS = 20
# Enough for the answer beside a long prompt to outlast it.
OUTLASTING = 2000

Run = Callable[[Client, int], Awaitable[Figures]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A load; every server gets `slots` slots of `ctx` tokens, where it can be told."""

    name: str
    ctx: int
    slots: int
    run: Run


def chats(concurrency: int, count: int) -> Scenario:
    """`count` chats of 200 + 64 tokens, `concurrency` at a time."""

    async def run(client: Client, seed: int) -> Figures:
        texts = [prompt(200, seed * 1000 + n) for n in range(count)]
        return of_chats(await client.chats(texts, 64, concurrency))

    return Scenario(f"chats-{concurrency}", 2048, min(concurrency, 16), run)


async def long_prompt(client: Client, seed: int) -> Figures:
    """One prompt of 4,000 tokens."""
    reply = await client.chat(user(prompt(LONG, seed)), 4)
    return {"TTFT ms": 1000 * reply.first, "prompt tok/s": LONG / reply.first}


async def agent(client: Client, seed: int) -> Figures:
    """A conversation that grows to 6,000 tokens, and on after others took its slot."""
    messages: list[Message] = []
    turns = [await _turn(client, messages, seed * 1000 + turn) for turn in range(TURNS)]
    others = [prompt(200, seed * 1000 + 100 + n) for n in range(OTHERS)]
    await client.chats(others, 8, 4)
    again = await _turn(client, messages, seed * 1000 + TURNS)
    alone = [await _turn(client, [], seed * 1000 + 500 + n) for n in range(3)]
    one = 1000 * median(reply.first for reply in alone)
    figures = {f"turn {n} TTFT ms": 1000 * reply.first for n, reply in enumerate(turns, 1)}
    figures |= {"after others TTFT ms": 1000 * again.first, "one turn alone TTFT ms": one}
    figures[f"after others / turn {TURNS}"] = again.first / turns[-1].first
    for name, reply in (f"turn {TURNS}", turns[-1]), ("after others", again):
        figures[f"{name} / one turn alone"] = 1000 * reply.first / one
        if reply.computed is not None:
            figures[f"{name} prompt tokens computed"] = reply.computed
    return figures


async def _turn(client: Client, messages: list[Message], seed: int) -> Reply:
    """Add a question and its answer to the conversation."""
    messages += user(f"Here is more: {filler(TURN_WORDS, seed)}. What comes next?")
    reply = await client.chat(messages, TURN_ANSWER)
    messages.append({"role": "assistant", "content": reply.text})
    return reply


async def edit(client: Client, seed: int) -> Figures:
    """Answers that repeat most of the prompt, one at a time."""
    replies, shares = [], []
    for n in range(3):
        text = description(seed * 1000 + n)
        request = f"Repeat this text exactly, word for word, and add nothing:\n\n{text}"
        reply = await client.chat(user(request), 200)
        replies.append(reply)
        shares.append(repeated(reply.text, text))
    figures = of_chats(replies)
    kept = ("decode tok/s of one", "TTFT p50 ms")
    return {name: figures[name] for name in kept} | {"share repeated": median(shares)}


def repeated(answer: str, text: str) -> float:
    """The share of the answer's runs of four words that the text has too."""
    runs = _fours(answer)
    return sum(run in _fours(text) for run in runs) / max(1, len(runs))


def _fours(text: str) -> list[tuple[str, ...]]:
    words = text.replace(".", "").split()
    return [tuple(words[i : i + 4]) for i in range(len(words) - 3)]


async def beside(client: Client, seed: int) -> Figures:
    """A running answer while a prompt of 4,000 tokens is computed beside it."""
    running, begun = Reply(), asyncio.Event()

    def on_piece(count: int) -> None:
        if count == 32:
            begun.set()

    chat = client.chat(user(prompt(200, seed * 1000)), OUTLASTING, running, on_piece)
    task = asyncio.create_task(chat)
    await begun.wait()
    long = await client.chat(user(prompt(LONG, seed * 1000 + 1)), 1)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return interference(running, long)


def interference(running: Reply, long: Reply) -> Figures:
    """The running answer's pace before the long prompt came and while it was computed."""
    ends = list(zip(running.times[1:], running.gaps, strict=True))
    quiet = [gap for end, gap in ends if end < long.started]
    disturbed = [gap for end, gap in ends if end >= long.started and end - gap < long.times[0]]
    if not disturbed:
        raise RuntimeError("the running answer was over before the long prompt came")
    p99 = percentile(disturbed, 0.99)
    return {
        "inter-token p50 before ms": 1000 * median(quiet),
        "inter-token p50 beside ms": 1000 * median(disturbed),
        "inter-token p99 beside ms": 1000 * p99,
        "p99 beside / p50 before": p99 / median(quiet),
        "p99 beside / p50 beside": p99 / median(disturbed),
        "TTFT of the long prompt ms": 1000 * long.first,
    }


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        chats(1, 4),
        chats(8, 16),
        chats(32, 32),
        Scenario("long-prompt", 8192, 1, long_prompt),
        Scenario("agent", 8192, 4, agent),
        Scenario("edit", 2048, 1, edit),
        Scenario("beside", 8192, 2, beside),
    )
}
