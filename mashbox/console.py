"""What the terminal shows: bars and a panel on a terminal, plain timestamped lines off it."""

from __future__ import annotations

import logging
import os
import time
from datetime import timedelta
from typing import Any

from rich.console import Console as RichConsole
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from engine.engine import Engine
from engine.messages import Progress as WorkerProgress
from engine.messages import Ready

logger = logging.getLogger("mashbox.console")

_CURL = """  curl -s {url}/v1/chat/completions \\{key}
    -H 'Content-Type: application/json' \\
    -d '{{"messages": [{{"role": "user", "content": "Name three planets."}}]}}'"""
_KEY = """
    -H "Authorization: Bearer $MASHBOX_API_KEY" \\"""

# The others are measured in bytes.
_COUNTED = frozenset({"compiling", "warm-up"})


class Console:
    """Everything goes to standard error, so that standard output stays free for pipes.

    A `quiet` one shows errors only. With `as_log` all lines are log records: nothing stands between
    the log's lines that a program reading them would not understand.
    """

    def __init__(self, quiet: bool = False, as_log: bool = False) -> None:
        self._rich = RichConsole(stderr=True, highlight=False, soft_wrap=True)
        dumb = os.environ.get("TERM") == "dumb"
        self._fancy = self._rich.is_terminal and not (dumb or quiet or as_log)
        self._bars = _Bars(self._rich) if self._fancy else None
        self._quiet = quiet
        self._as_log = as_log
        self._seen_stages: set[str] = set()
        self._starting = True
        self._started = time.monotonic()

    def line(self, text: str) -> None:
        """Print one line; bars, if any, stay below it."""
        if self._as_log:
            logger.info("%s", text.strip())
        elif not self._quiet:
            stamp = "" if self._fancy else time.strftime("%Y-%m-%d %H:%M:%S ")
            self._rich.print(Text(stamp + text))

    def error(self, text: str) -> None:
        """Print what went wrong."""
        self.clear()
        if self._as_log:
            logger.error("%s", text)
        else:
            self._rich.print(Text(text, style="red" if self._fancy else ""))

    def clear(self) -> None:
        """Remove the bars."""
        if self._bars:
            self._bars.close()

    def progress(self, stage: str, done: int, total: int) -> None:
        """Show that `stage` is at `done` of `total`; off a terminal one line when it begins."""
        if self._bars:
            self._bars.show(stage, done, total)
        elif stage not in self._seen_stages:
            self._seen_stages.add(stage)
            self.line(f"{stage} ({_amount(stage, total)})")

    def worker_progress(self, progress: WorkerProgress) -> None:
        """Show the worker's way to readiness; a restarted one has log lines instead."""
        if self._starting:
            self.progress(progress.stage, progress.done, progress.total)

    def ready(self, address: tuple[Any, ...], engine: Engine, keyed: bool = False) -> None:
        """Say where the server is and how to call it, with a key if it is `keyed`."""
        self._end_start()
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        url = f"http://{host}:{address[1]}"
        if loaded := engine.loaded:
            self.line(
                f"  memory    weights {loaded.weight_bytes / 1e9:.2f} GB · "
                f"{loaded.device}, {loaded.dtype}{_threads(loaded)}"
            )
        self.line(f"ready in {time.monotonic() - self._started:.1f} s   {url}")
        if self._fancy:
            self._rich.print(Text(f"\n{_CURL.format(url=url, key=_KEY if keyed else '')}\n"))
            self._rich.print(Text(f"  OpenAI base URL    {url}/v1\n  Ctrl+C to stop"))

    def stopping(self, running: int, seconds: float) -> None:
        """Say that the server stops, and what it still waits for."""
        self._end_start()
        if not running:
            self.line("stopping")
        else:
            noun = "answer" if running == 1 else "answers"
            self.line(
                f"stopping: {running} {noun} in progress, up to {seconds:.0f} s "
                "(Ctrl+C again to stop now)"
            )

    def _end_start(self) -> None:
        self._starting = False
        self.clear()

    def stopped(self) -> None:
        """Say that it is over."""
        seconds = round(time.monotonic() - self._started)
        self.line(f"stopped (ran {timedelta(seconds=seconds)})")


def _threads(loaded: Ready) -> str:
    count = loaded.runtime.get("threads", "")
    if not count or loaded.device != "cpu":
        return ""
    return ", 1 thread" if count == "1" else f", {count} threads"


class _Bars:
    """The progress bars of the start; they vanish when it is done."""

    def __init__(self, console: RichConsole) -> None:
        self._progress = Progress(
            TextColumn("  {task.description:<9}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}

    def show(self, stage: str, done: int, total: int) -> None:
        self._progress.start()
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=total, amount="")
        amount = f"{_amount(stage, done)} / {_amount(stage, total)}"
        self._progress.update(self._tasks[stage], completed=done, total=total, amount=amount)

    def close(self) -> None:
        self._progress.stop()


def _amount(stage: str, count: int) -> str:
    return f"{count}" if stage in _COUNTED else f"{count / 1e6:.0f} MB"
