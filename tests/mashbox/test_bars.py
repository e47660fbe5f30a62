"""What the bars of a start show."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console as RichConsole

from mashbox.bars import Bars


class Screen:
    """A terminal of 80 columns whose clock the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._console = RichConsole(
            file=io.StringIO(), force_terminal=True, width=80, get_time=lambda: self.now
        )
        self.bars = Bars(self._console)

    def lines(self) -> list[str]:
        paper = RichConsole(file=io.StringIO(), width=80)
        with paper.capture() as capture:
            paper.print(self.bars._progress.get_renderable())
        return [line.replace("━", "").rstrip() for line in capture.get().splitlines()]


@pytest.fixture
def screen() -> Iterator[Screen]:
    shown = Screen()
    yield shown
    shown.bars.close()


def words(line: str) -> str:
    return " ".join(line.split())


def test_a_download_tells_how_fast_it_is_and_how_long_it_takes(screen: Screen) -> None:
    screen.bars.show("download", 100_000_000, 1_000_000_000)
    screen.now = 10.0
    screen.bars.show("download", 600_000_000, 1_000_000_000)
    (line,) = screen.lines()
    assert words(line).endswith("600 / 1000 MB 50 MB/s, 0:00:08 left")
    screen.now = 18.0
    screen.bars.show("download", 1_000_000_000, 1_000_000_000)
    assert words(screen.lines()[0]).endswith("1000 / 1000 MB 0:00:18")


def test_a_download_that_has_just_begun_promises_nothing(screen: Screen) -> None:
    screen.bars.show("download", 1, 93_000_000)
    screen.now = 1.0
    screen.bars.show("download", 200_000, 93_000_000)
    assert words(screen.lines()[0]).endswith("0 / 93 MB 0:00:01")


def test_a_bar_with_large_numbers_is_one_line_of_80_columns(screen: Screen) -> None:
    screen.bars.show("download", 1, 141_100_000_000)
    screen.now = 1.0
    screen.bars.show("download", 1_200_000_001, 141_100_000_000)
    (line,) = screen.lines()
    assert words(line).endswith("1200 / 141100 MB 1200 MB/s, 0:01:57 left")


def test_what_is_counted_tells_the_time_it_took(screen: Screen) -> None:
    screen.bars.show("warm-up", 1, 3)
    screen.now = 61.0
    screen.bars.show("warm-up", 2, 3)
    assert words(screen.lines()[0]).endswith("2 / 3 0:01:01")


def test_a_stage_that_has_done_nothing_yet_moves(screen: Screen) -> None:
    screen.bars.show("converting", 0, 538_000_000)
    (task,) = screen.bars._progress.tasks
    assert task.total is None
    assert words(screen.lines()[0]) == "converting 0:00:00"
    screen.bars.show("converting", 1_000_000, 538_000_000)
    assert task.total == 538_000_000


def test_bars_that_are_taken_off_do_not_come_back(screen: Screen) -> None:
    screen.bars.show("download", 1, 1)
    screen.bars.close()
    screen.bars.wait("starting")
    assert [words(line).split()[0] for line in screen.lines()] == ["starting"]
    screen.bars.close()
    assert screen.lines() == []


def test_after_a_stage_something_moves_until_the_next_one(screen: Screen) -> None:
    for _ in range(2):
        screen.bars.show("loading", 2, 2)
    assert [words(line).split()[0] for line in screen.lines()] == ["loading", "preparing"]
    screen.bars.show("warm-up", 1, 3)
    assert [words(line).split()[0] for line in screen.lines()] == ["loading", "warm-up"]


def test_what_is_waited_for_gives_way_to_the_first_stage(screen: Screen) -> None:
    screen.bars.wait("starting")
    assert words(screen.lines()[0]).startswith("starting")
    screen.bars.show("loading", 1, 2)
    assert [words(line).split()[0] for line in screen.lines()] == ["loading"]
