"""Progress bars of a start or a download; they vanish when it is done."""

from __future__ import annotations

from rich.console import Console as RichConsole
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

# The others are measured in bytes.
_COUNTED = frozenset({"compiling", "warm-up"})


class Bars:
    """One bar a stage; a stage that has done nothing yet shows that it is alive."""

    def __init__(self, console: RichConsole) -> None:
        self._progress = Progress(
            TextColumn("  {task.description:<10}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
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
            self._tasks[stage] = self._progress.add_task(stage, total=total, amount="")
        text = f"{amount(stage, done, bare=True)} / {amount(stage, total)}"
        # Without a total the bar moves although nothing is counted.
        self._progress.update(
            self._tasks[stage], completed=done, total=total if done else None, amount=text
        )

    def close(self) -> None:
        """Take all bars off the terminal."""
        self._progress.stop()


def amount(stage: str, count: int, bare: bool = False) -> str:
    """Write a count of `stage`, megabytes unless it has a count of its own; `bare` has no unit."""
    if stage in _COUNTED:
        return f"{count}"
    return f"{count / 1e6:.0f}" if bare else f"{count / 1e6:.0f} MB"
