"""What a person at a terminal sees, and what a file or a pipe gets instead."""

from __future__ import annotations

import os
import pty
import re
import signal
import threading
from pathlib import Path

import httpx
import pytest

from bench.protocols import Chat
from tests.e2e.scripts import ENDLESS, Pending, scripted
from tests.e2e.server import Program, Server

pytestmark = pytest.mark.e2e

COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "


class Terminal(Program):
    """`mashbox` as the only program of a terminal."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        ours, theirs = pty.openpty()
        self.written = ""
        self._more = threading.Condition()
        super().__init__(
            arguments,
            lambda: self._read(ours),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**_without_wishes(), "TERM": "xterm", **variables},
        )
        # Only without our copy of its end does the last program's leaving end the reading.
        os.close(theirs)

    def _read(self, descriptor: int) -> None:
        with open(descriptor, "rb", buffering=0) as screen:
            try:
                while piece := screen.read(4096):
                    with self._more:
                        self.written += piece.decode(errors="replace")
                        self._more.notify_all()
            except OSError:
                # So Linux says that the last program has left the terminal.
                return

    @property
    def output(self) -> str:
        """All that was written, without what only moves or colours."""
        return COLOUR.sub("", self.written).replace("\r", "")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until something matches."""
        with self._more:
            found = self._more.wait_for(lambda: re.search(pattern, self.output), 120)
        assert found, self.output
        return found


def _without_wishes() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}


def question(url: str, **fields: object) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
    return httpx.post(f"{url}/v1/chat/completions", json=body, headers={"x-session-id": "pi-42"})


def test_a_terminal_shows_how_to_call_and_a_line_of_columns_for_each_request() -> None:
    with Terminal("run", "mock", "--ui", "--port", "0") as terminal:
        url = terminal.wait_for(r"ready in \d+\.\d s   (http://\S+)   chat page: \1/\n")[1]
        terminal.wait_for(rf"curl -s {url}/v1/chat/completions ")
        terminal.wait_for(rf"OpenAI base URL    {url}/v1\n  Anthropic base URL {url}\n")
        assert question(url).status_code == 200
        assert question(url, model="other").status_code == 404
        terminal.wait_for(
            r"\n\d\d:\d\d:\d\d chat      200 stop +\d+ in  \d+ out  ttft \d\.\d\d s  .* s  "
            r"req [0-9a-f]{8}  session pi-42\n"
        )
        terminal.wait_for(r"chat      404 model not found \(model\)  ")
        assert terminal.stop(signal.SIGINT) == 0
    assert re.search(r"stopping\nstopped after \d+ s: 1 request, \d+ tokens\n$", terminal.output)
    assert "\x1b[33m" in terminal.written
    # The bars are gone, and the cursor is back.
    assert terminal.output.startswith("mashbox ") and "  starting" in terminal.output
    assert terminal.written.count("\x1b[?25l") == terminal.written.count("\x1b[?25h") > 0


def test_the_bars_of_a_model_follow_its_start() -> None:
    with Terminal("run", "smollm2-135m", "--ctx", "512", "--port", "0") as terminal:
        terminal.wait_for(
            r"memory    weights 0\.\d\d GB · cache 4 slots × 512 tokens 0\.09 GB · needs"
        )
        terminal.wait_for(r"loading .* [1-9]\d* / 538 MB")
        terminal.wait_for(r"warm-up .* 3 / 3")
        terminal.wait_for(r"model     weights 0\.\d\d GB · cpu, ")
        assert terminal.stop(signal.SIGINT) == 0


@pytest.mark.parametrize("wish", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colour_gets_plain_lines(wish: dict[str, str]) -> None:
    with Terminal("run", "mock", "--port", "0", **wish) as terminal:
        url = terminal.wait_for(r"ready in \d+\.\d s   (http://\S+)\n")[1]
        question(url)
        terminal.wait_for(r"POST /v1/chat/completions 200 seconds=\d.* finish=stop ")
        assert terminal.stop(signal.SIGINT) == 0
    assert "\x1b" not in terminal.written
    assert all(re.match(STAMP, line) for line in terminal.output.splitlines())


def test_a_file_gets_every_fact_in_a_timestamped_line(tmp_path: Path) -> None:
    with scripted(tmp_path) as server:
        url = re.escape(server.url)
        assert server.stop() == 0
    expected = [
        r"mashbox \S+   mock",
        rf"ready in \d+\.\d s   {url}",
        rf"OpenAI base URL    {url}/v1",
        rf"Anthropic base URL {url}",
        r"stopping",
        r"stopped after \d+ s: 0 requests, 0 tokens",
    ]
    lines = [line for line in server.lines if "INFO" not in line]
    assert len(lines) == len(expected), server.output
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(STAMP + pattern + "\n", line)


def test_a_busy_server_tells_from_time_to_time_how_busy_it_is(tmp_path: Path) -> None:
    with scripted(tmp_path, ENDLESS, options=("--slots", "1")) as server:
        running = Pending(server, Chat(), "endless", stream=True)
        server.wait_for_line(r"INFO running 1  waiting 0  [1-9]\d* tok/s  cache \d+ %")
        running.leave()


def test_a_worker_that_dies_while_it_loads_ends_the_server_with_a_sentence() -> None:
    with Server("mock") as server:
        while not (children := server.descendants()):
            assert server.process.poll() is None, server.output
        children[0].kill()
        assert server.process.wait(30) == 1
    assert "The model worker stopped (signal 9, probably out of memory).\n" in server.output
    assert "Traceback" not in server.output
