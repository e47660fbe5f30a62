"""What the terminal shows: bars and a welcome on a terminal, plain timestamped lines off it."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Any, NamedTuple

from rich.console import Console as RichConsole
from rich.text import Text

from engine.engine import Engine
from engine.messages import Progress as WorkerProgress
from engine.messages import Ready
from engine.stats import EngineStats
from mashbox.bars import Bars, amount
from mashbox.wording import counted, duration, rounded

logger = logging.getLogger("mashbox.console")

_CURL = """
  curl -s {url}/v1/chat/completions \\{key}
    -H 'Content-Type: application/json' \\
    -d '{{"messages": [{{"role": "user", "content": "Name three planets."}}]}}'
"""
_KEY = """
    -H "Authorization: Bearer $MASHBOX_API_KEY" \\"""


class Welcome(NamedTuple):
    """What callers have to know beside the address: whether they need a key, and of the page."""

    keyed: bool = False
    page: bool = False


class _Rich(RichConsole):
    """A console that nobody has to read: a server goes on when its log's reader or disk is gone."""

    def on_broken_pipe(self) -> None:
        """Lose the line; rich would end the process."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, or lose the line where it cannot be written."""
        with contextlib.suppress(OSError):
            super().print(*objects, **options)


class Console:
    """Everything goes to standard error, so that standard output stays free for pipes.

    A `quiet` one shows errors only. With `as_log` all lines are log records: nothing stands between
    the log's lines that a program reading them would not understand.
    """

    def __init__(self, quiet: bool = False, as_log: bool = False) -> None:
        # Long lines are left to the terminal: what is copied out of it stays in one piece.
        self._rich = _Rich(stderr=True, highlight=False, soft_wrap=True)
        plain = self._rich.is_dumb_terminal or self._rich.no_color or as_log
        self.is_terminal = self._rich.is_terminal and not plain
        self._bars = Bars(self._rich) if self.is_terminal and not quiet else None
        self._quiet = quiet
        self._as_log = as_log
        self._seen_stages: set[str] = set()
        self._starting = True
        self._started = time.monotonic()

    def line(self, text: str, style: str = "") -> None:
        """Print one line; bars, if any, stay below it."""
        if self._as_log:
            logger.info("%s", text.strip())
        elif not self._quiet:
            stamp = time.strftime("%Y-%m-%d %H:%M:%S ")
            self.show(text if self.is_terminal else stamp + text.strip(), style)

    def show(self, text: str, style: str = "") -> None:
        """Print text as it is, in colour on a terminal; bars stay below it."""
        # As Text, what a client or a path has in square brackets is no markup.
        self._rich.print(Text(text, style=style if self.is_terminal else ""))

    def error(self, text: str) -> None:
        """Print what went wrong."""
        self.clear()
        if self._as_log:
            logger.error("%s", text)
        else:
            self.show(text, "red")

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
            self.line(f"{stage} ({amount(stage, total)})")

    def wait(self, stage: str) -> None:
        """Show that something goes on that cannot be measured, until the next stage."""
        if self._bars:
            self._bars.wait(stage)

    def worker_progress(self, progress: WorkerProgress) -> None:
        """Show the worker's way to readiness; a restarted one has log lines instead."""
        if self._starting:
            self.progress(progress.stage, progress.done, progress.total)

    def ready(self, address: tuple[Any, ...], engine: Engine, welcome: Welcome) -> None:
        """Say where the server is and how to call it."""
        self._end_start()
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        url = f"http://{host}:{address[1]}"
        if (loaded := engine.loaded) and not engine.config.model.scripted:
            weights = f"weights {loaded.weight_bytes / 1e9:.2f} GB"
            self.line(f"  model     {weights} · {loaded.device}, {loaded.dtype}{_threads(loaded)}")
        page = f"   chat page: {url}/" if welcome.page else ""
        self.line(f"ready in {time.monotonic() - self._started:.1f} s   {url}{page}", "green")
        if self._bars:
            # A person tries it; a file that keeps the lines need not have it.
            self.show(_CURL.format(url=url, key=_KEY if welcome.keyed else ""))
        self.line(f"  OpenAI base URL    {url}/v1")
        self.line(f"  Anthropic base URL {url}")
        if self._bars:
            self.show("  Ctrl+C to stop\n")

    def stopping(self, running: int, seconds: float) -> None:
        """Say that the server stops, and what it still waits for."""
        self._end_start()
        if not running:
            self.line("stopping")
        else:
            self.line(
                f"stopping: {counted(running, 'answer')} in progress, up to {seconds:.0f} s "
                "(Ctrl+C again to stop now)"
            )

    def _end_start(self) -> None:
        self._starting = False
        self.clear()

    def stopped(self, stats: EngineStats) -> None:
        """Say that it is over, and what was done."""
        requests = sum(stats.outcomes.values())
        tokens = rounded(stats.prompt_tokens + stats.generation_tokens)
        ran = duration(time.monotonic() - self._started)
        self.line(f"stopped after {ran}: {counted(requests, 'request')}, {tokens} tokens")


def _threads(loaded: Ready) -> str:
    count = loaded.runtime.get("threads", "")
    # On a graphics card the few that feed it say nothing of its speed.
    return f", {counted(int(count), 'thread')}" if count and loaded.device == "cpu" else ""
