"""What the scenarios make of the times they measured."""

from __future__ import annotations

import pytest

from bench.load import Reply
from bench.scenarios import interference, repeated


def test_gaps_count_as_beside_from_the_long_prompts_start_to_its_first_text() -> None:
    running = Reply(0.0, [1.0, 1.1, 1.2, 1.3, 2.3, 4.3, 4.4], "text", 7)
    figures = interference(running, Reply(1.25, [4.25], "text", 1))
    assert figures["inter-token p50 before ms"] == pytest.approx(100)
    assert figures["inter-token p50 beside ms"] == pytest.approx(1000)
    assert figures["inter-token p99 beside ms"] == pytest.approx(2000)
    assert figures["p99 beside / p50 before"] == pytest.approx(20)
    assert figures["TTFT of the long prompt ms"] == pytest.approx(3000)


def test_an_answer_that_was_over_before_the_long_prompt_came_measures_nothing() -> None:
    with pytest.raises(RuntimeError, match="over"):
        interference(Reply(0.0, [1.0, 1.1, 1.2], "text", 3), Reply(2.0, [3.0], "text", 1))


def test_the_share_repeated_is_of_runs_of_four_words() -> None:
    text = "one two three four five."
    assert repeated(text, text) == 1
    assert repeated("one two three four six", text) == 0.5
    assert repeated("five four three two one", text) == 0
    assert repeated("one", text) == 0
