"""Progress bars of a start or a download; they vanish when it is done."""

from __future__ import annotations

from datetime import timedelta

from rich.console import Console as RichConsole
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

# With the longest of numbers a bar still fits 80 columns.
_BAR_WIDTH = 24
# The others are measured in bytes.
_COUNTED = frozenset({"compiling", "warm-up"})
_FETCHING = "download"
# Bytes a second that are told as a whole number of megabytes.
_LEAST_SPEED = 500_000


class Bars:
    """One bar a stage; a stage that has done nothing yet shows that it is alive."""

    def __init__(self, console: RichConsole) -> None:
        self._progress = Progress(
            TextColumn("  {task.description:<10}"),
            BarColumn(_BAR_WIDTH),
            TextColumn("{task.fields[amount]}"),
            _TimeColumn(),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._waiting: TaskID | None = None

    def wait(self, stage: str) -> None:
        """Draw a bar that only moves, until there is a stage to show."""
        self._progress.start()
        self._waiting = self._progress.add_task(stage, total=None, amount="")

    def show(self, stage: str, done: int, total: int) -> None:
        """Draw `stage` at `done` of `total`."""
        self._progress.start()
        if self._waiting is not None:
            self._progress.remove_task(self._waiting)
            self._waiting = None
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=None, amount="")
        # As it begins nothing is counted, and the bar moves for want of a total.
        text = f"{amount(stage, done, bare=True)} / {amount(stage, total)}" if done else ""
        self._progress.update(
            self._tasks[stage], completed=done, total=total if done else None, amount=text
        )
        if done >= total:
            # Not all that follows is a stage of its own, as when loaded weights are laid out anew.
            self.wait("preparing")

    def close(self) -> None:
        """Take all bars off the terminal."""
        self._progress.stop()
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._tasks.clear()
        self._waiting = None


class _TimeColumn(ProgressColumn):
    """The time that a stage took so far, or of a download how fast it is and how much longer."""

    def render(self, task: Task) -> Text:
        """Write it for one bar."""
        left = task.time_remaining
        speed = task.speed or 0
        # What the first pieces tell is no speed yet.
        if task.description != _FETCHING or task.finished or not left or speed < _LEAST_SPEED:
            return Text(_clock(task.finished_time or task.elapsed or 0))
        return Text(f"{speed / 1e6:.0f} MB/s, {_clock(left)} left")


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def amount(stage: str, count: int, bare: bool = False) -> str:
    """Write a count of `stage`, megabytes unless it has a count of its own; `bare` has no unit."""
    if stage in _COUNTED:
        return f"{count}"
    return f"{count / 1e6:.0f}" if bare else f"{count / 1e6:.0f} MB"
