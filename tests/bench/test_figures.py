"""The statistics of the benchmarks."""

from __future__ import annotations

import pytest

from bench.figures import medians, of_chats, percentile, ratios, report
from bench.load import Reply


def reply(started: float, times: list[float], tokens: int) -> Reply:
    return Reply(started, times, "text", tokens)


def test_a_percentile_is_a_value_that_occurred() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert percentile(values, 0.99) == 99
    assert percentile(values, 0.5) == 50
    assert percentile(values, 1.0) == 100
    assert percentile([7.0], 0.99) == percentile([7.0], 0.0) == 7


def test_chats_side_by_side_share_the_time() -> None:
    figures = of_chats([reply(0, [1, 1.5, 2], 3), reply(1, [3, 4], 2)])
    assert figures["tok/s"] == 5 / 4
    assert figures["TTFT p50 ms"] == 1500
    assert figures["TTFT p99 ms"] == 2000
    assert figures["inter-token p50 ms"] == 500
    assert figures["inter-token p99 ms"] == 1000
    assert figures["decode tok/s of one"] == (2 / 1 + 1 / 1) / 2


def test_ratios_are_those_of_pairs_and_not_of_medians() -> None:
    ours, theirs = [{"a": 1.0}, {"a": 4.0}, {"a": 9.0}], [{"a": 2.0}, {"a": 1.0}, {"a": 9.0}]
    assert medians(ours) == {"a": 4.0} and medians(theirs) == {"a": 2.0}
    assert ratios(ours, theirs) == {"a": 1.0}


def test_a_figure_that_only_one_has_or_that_is_nought_has_no_ratio() -> None:
    ours = [{"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1.0, "b": 1.0, "c": 1.0}]
    theirs = [{"a": 2.0, "b": 0.0}, {"a": 2.0, "b": 1.0}]
    assert ratios(ours, theirs) == {"a": 0.5}


def test_runs_of_different_lengths_are_no_pairs() -> None:
    with pytest.raises(ValueError):
        ratios([{"a": 1.0}], [])


def test_a_report_compares_each_of_ours_with_each_other_server() -> None:
    runs = {"mashbox": [{"tok/s": 300.0}], "f32": [{"tok/s": 10.0}], "peer": [{"tok/s": 4.0}]}
    assert report("chats", runs, ["mashbox", "f32", "absent"]).splitlines() == [
        "| chats | mashbox | f32 | peer |",
        "| --- | --: | --: | --: |",
        "| tok/s | 300 | 10 | 4 |",
        "",
        "| ratio | mashbox / peer | f32 / peer |",
        "| --- | --: | --: |",
        "| tok/s | 75 | 2.5 |",
    ]


def test_a_report_of_ours_alone_has_no_ratios() -> None:
    assert "ratio" not in report("chats", {"mashbox": [{"tok/s": 1.0}]}, ["mashbox"])
