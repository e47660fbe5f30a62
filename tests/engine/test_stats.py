from __future__ import annotations

import pytest

from engine.stats import EngineStats, Histogram, Outcome, RequestStats


def request(prompt_tokens: int = 10) -> RequestStats:
    """Arrived at 100 s, admitted at 101 s."""
    return RequestStats(100.0, 101.0, prompt_tokens, max_tokens=50)


def test_a_value_on_a_bound_belongs_to_the_bucket_that_ends_there() -> None:
    histogram = Histogram([1, 2, 5])
    for value in (0, 1, 1.5, 2, 5, 6):
        histogram.observe(value)
    assert histogram.cumulative() == [2, 4, 5, 6]
    assert histogram.sum == 15.5


@pytest.mark.parametrize(
    ("ctx", "bounds"), [(16, (1, 2, 5, 10)), (100, (1, 2, 5, 10, 20, 50, 100)), (1, (1,))]
)
def test_token_buckets_end_with_the_context(ctx: int, bounds: tuple[float, ...]) -> None:
    assert EngineStats(ctx).request_prompt_tokens.bounds == bounds


def test_a_request_s_times() -> None:
    stats, asked = EngineStats(64), request()
    stats.started(asked, 103.0, cached_tokens=4)
    stats.tokens(asked, 107.0, 1)
    stats.tokens(asked, 108.0, 2)
    stats.tokens(asked, 110.0, 3)
    stats.ended(asked, "stop", 110.5)
    sums = {
        "queue": stats.queue_time.sum,
        "prefill": stats.prefill_time.sum,
        "first": stats.time_to_first_token.sum,
        "decode": stats.decode_time.sum,
        "whole": stats.e2e_latency.sum,
        "mean": stats.time_per_output_token.sum,
        "gaps": stats.inter_token_latency.sum,
    }
    assert sums == {
        "queue": 2.0, "prefill": 4.0, "first": 7.0, "decode": 3.0, "whole": 10.5,
        "mean": 1.5, "gaps": 3.0,
    }  # fmt: skip
    assert stats.inter_token_latency.cumulative()[-1] == 2
    assert (asked.queue_seconds, asked.ttft_seconds) == (2.0, 7.0)


def test_a_request_s_tokens() -> None:
    stats, asked = EngineStats(64), request()
    stats.started(asked, 103.0, cached_tokens=4)
    assert stats.prompt_tokens == 0
    stats.tokens(asked, 107.0, 1)
    assert (stats.prompt_tokens, stats.cached_tokens, stats.generation_tokens) == (10, 4, 1)
    stats.tokens(asked, 108.0, 3)
    assert stats.generation_tokens == 3
    stats.ended(asked, "length", 110.0)
    assert stats.request_prompt_tokens.sum == 10
    assert stats.request_generation_tokens.sum == 3
    assert stats.request_max_tokens.sum == 50


def test_an_output_without_a_new_token_is_no_token() -> None:
    stats, asked = EngineStats(64), request()
    stats.started(asked, 103.0, 0)
    stats.tokens(asked, 104.0, 0)
    assert stats.time_to_first_token.cumulative()[-1] == 0
    stats.tokens(asked, 105.0, 1)
    stats.tokens(asked, 106.0, 1)
    assert stats.inter_token_latency.cumulative()[-1] == 0


@pytest.mark.parametrize("outcome", ["stop", "length", "abort", "error", "repetition"])
def test_a_request_that_never_ran_has_no_times_but_one_outcome(outcome: Outcome) -> None:
    stats = EngineStats(64)
    stats.ended(request(), outcome, 105.0)
    assert stats.outcomes.pop(outcome) == 1
    assert set(stats.outcomes.values()) == {0}
    assert stats.e2e_latency.sum == 5.0
    for histogram in (stats.queue_time, stats.prefill_time, stats.decode_time):
        assert histogram.cumulative()[-1] == 0


def test_one_token_has_no_time_per_token() -> None:
    stats, asked = EngineStats(64), request()
    stats.started(asked, 103.0, 0)
    stats.tokens(asked, 104.0, 1)
    stats.ended(asked, "stop", 104.0)
    assert stats.decode_time.cumulative()[-1] == 1
    assert stats.time_per_output_token.cumulative()[-1] == 0


def test_a_lost_attempt_counts_its_tokens_but_the_request_waits_and_begins_once() -> None:
    stats, asked = EngineStats(64), request()
    for start in (103.0, 113.0):
        stats.started(asked, start, 0)
        stats.tokens(asked, start + 1, 1)
        stats.tokens(asked, start + 2, 2)
        if start == 103.0:
            asked.restart()
    stats.ended(asked, "stop", 116.0)
    assert stats.generation_tokens == 4
    assert stats.cache_queries == asked.prompt_tokens
    assert stats.queue_time.cumulative()[-1] == 1
    assert stats.time_to_first_token.cumulative()[-1] == 1
    assert stats.decode_time.sum == 1.0
    assert stats.request_generation_tokens.sum == 2


def test_steps_count_their_tokens_and_programs() -> None:
    stats = EngineStats(64)
    stats.step(9, 0)
    stats.step(1, 2)
    assert stats.step_tokens.sum == 10
    assert stats.compiles_after_ready == 2
