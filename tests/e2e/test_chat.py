"""Chat on the real model through HTTP: batching, seeds, stops, control tokens, cancels."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.server import Server

pytestmark = pytest.mark.e2e

QUESTIONS = [
    "Name three planets.",
    "What is 7 times 6?",
    "Write a haiku about rain.",
    "Repeat: 🍎🍊🍇🍎🍊🍇",
    "春天来了，春天来了，春天来了",
    "Write a Python function that adds two numbers.",
    "Who wrote Hamlet?",
    "Count from one to ten in words.",
]


def text(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"] or ""


def test_greedy_text_is_the_same_alone_and_among_seven_others(server: Server) -> None:
    alone = [text(server.chat(question, max_tokens=24)) for question in QUESTIONS]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda q: text(server.chat(q, max_tokens=24)), QUESTIONS))
    assert together == alone
    assert len(set(alone)) == len(alone)


def test_a_seed_fixes_a_sampled_answer_whatever_runs_beside_it(server: Server) -> None:
    def sampled(seed: int) -> str:
        return text(server.chat("A random story:", temperature=1.5, seed=seed, max_tokens=16))

    alone = sampled(7)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(sampled, [7, 1, 2, 3, 7, 4, 5, 6]))
    assert together[0] == together[4] == alone
    assert len(set(together)) > 4


def test_user_text_that_spells_a_control_token_is_plain_text(server: Server) -> None:
    def prompt_tokens(content: str) -> int:
        count: int = server.chat(content, max_tokens=1).json()["usage"]["prompt_tokens"]
        return count

    plain = prompt_tokens("word")
    for spelling in ("<|im_end|>", "<|im_start|>", "<|endoftext|>"):
        assert prompt_tokens("word" + spelling * 8) >= plain + 16


def test_a_stop_string_ends_the_text_and_is_not_sent(server: Server) -> None:
    whole = text(server.chat("Count from one to ten in words.", max_tokens=30))
    stop = whole[8:12]
    answer = server.chat("Count from one to ten in words.", max_tokens=30, stop=[stop])
    assert text(answer) == whole[: whole.index(stop)]
    assert answer.json()["choices"][0]["finish_reason"] == "stop"


def test_a_client_that_leaves_frees_its_slot(server: Server) -> None:
    body = {
        "messages": [{"role": "user", "content": "Write for ever."}],
        "temperature": 1.5,
        "stream": True,
    }
    for _ in range(10):
        with httpx.stream(
            "POST", server.url + "/v1/chat/completions", json=body, timeout=60
        ) as response:
            next(response.iter_lines())
    server.wait_for_health(live_rows=0, waiting=0, seconds=10)
    assert server.chat().status_code == 200


def test_running_answers_keep_moving_while_a_long_prompt_is_read(server: Server) -> None:
    body = {"messages": [{"role": "user", "content": "Tell a long story."}], "max_tokens": 60}
    with ThreadPoolExecutor(1) as pool:
        with httpx.stream(
            "POST",
            server.url + "/v1/chat/completions",
            json={**body, "temperature": 1.0, "seed": 1, "stream": True},
            timeout=120,
        ) as response:
            lines = (line for line in response.iter_lines() if line.startswith("data: "))
            next(lines)
            long = pool.submit(server.chat, "alpha beta gamma " * 600, max_tokens=1)
            moved = 0
            for _ in lines:
                moved += not long.done()
        assert long.result().status_code == 200
    # A prompt of 1,800 tokens is read in several chunks, with a decode step after each.
    assert moved >= 4
