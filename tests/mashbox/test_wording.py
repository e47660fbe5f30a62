"""Numbers as people read them."""

from __future__ import annotations

import pytest

from mashbox.wording import counted, duration, rounded, size


@pytest.mark.parametrize(
    ("count", "written"),
    [(None, "-"), (0, "0 MB"), (999_000_000, "999 MB"), (16_400_000_000, "16.4 GB")],
)
def test_sizes_are_written_short(count: int | None, written: str) -> None:
    assert size(count) == written


def test_one_is_no_plural() -> None:
    assert [counted(n, "request") for n in (0, 1, 2)] == ["0 requests", "1 request", "2 requests"]


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(9.6, "10 s"), (59.6, "1 min 0 s"), (61, "1 min 1 s"), (90_000, "25 h 0 min")],
)
def test_durations_have_their_two_largest_units(seconds: float, written: str) -> None:
    assert duration(seconds) == written


@pytest.mark.parametrize(
    ("count", "written"),
    [(9_999, "9999"), (40_400, "40 k"), (999_499, "999 k"), (999_500, "1.0 M")],
)
def test_large_counts_are_rounded(count: int, written: str) -> None:
    assert rounded(count) == written
