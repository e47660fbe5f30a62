"""The console off a terminal: plain timestamped lines on standard error."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.config import EngineConfig, ModelSource
from engine.engine import Engine
from engine.messages import Progress, Ready
from engine.stats import EngineStats
from mashbox.console import Console, Welcome

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "


def loaded_engine() -> Engine:
    config = EngineConfig(ModelSource("m", Path("m")), ctx=2048, slots=4)
    runtime = {"threads": "2"}
    ready = Ready("{}", None, {}, (0,), 540_000_000, 4.5, "cpu", "float32", runtime)
    return cast(Engine, SimpleNamespace(config=config, loaded=ready))


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured: Any = capsys.readouterr()
    assert captured.out == ""
    return cast(str, captured.err).splitlines()


def test_a_stage_is_one_line_however_often_it_reports(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    for done in range(3):
        console.worker_progress(Progress("loading", done, 91_000_000))
    console.worker_progress(Progress("warm-up", 1, 3))
    first, second = lines(capsys)
    assert re.fullmatch(STAMP + r"loading \(91 MB\)", first)
    assert re.fullmatch(STAMP + r"warm-up \(3\)", second)


def test_ready_says_the_address_and_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    Console().ready(("127.0.0.1", 8000), loaded_engine(), Welcome())
    memory, ready, openai, anthropic = lines(capsys)
    assert "weights 0.54 GB" in memory and "cpu, float32, 2 threads" in memory
    assert re.fullmatch(STAMP + r"ready in \d+\.\d s   http://127\.0\.0\.1:8000", ready)
    assert openai.endswith(" OpenAI base URL    http://127.0.0.1:8000/v1")
    assert anthropic.endswith(" Anthropic base URL http://127.0.0.1:8000")


def test_ready_names_the_chat_page_where_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    Console().ready(("127.0.0.1", 8000), loaded_engine(), Welcome(page=True))
    assert lines(capsys)[1].endswith("   chat page: http://127.0.0.1:8000/")


def test_an_ipv6_address_is_bracketed(capsys: pytest.CaptureFixture[str]) -> None:
    Console().ready(("::1", 8000, 0, 0), loaded_engine(), Welcome())
    assert "http://[::1]:8000" in lines(capsys)[-1]


def test_an_error_is_the_bare_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    Console().error("[x] is no [bold]model[/bold].")
    assert lines(capsys) == ["[x] is no [bold]model[/bold]."]


def test_stopping_says_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.stopping(0, 10)
    console.stopping(2, 10)
    idle, busy = lines(capsys)
    assert idle.endswith(" stopping")
    assert "stopping: 2 answers in progress, up to 10 s" in busy


def test_a_restarting_worker_shows_no_stages(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.ready(("127.0.0.1", 8000), loaded_engine(), Welcome())
    lines(capsys)
    console.worker_progress(Progress("loading", 1, 2))
    assert lines(capsys) == []


def test_a_terminal_shows_the_curl_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    Console().ready(("127.0.0.1", 8000), loaded_engine(), Welcome())
    text = "\n".join(lines(capsys))
    assert "curl -s http://127.0.0.1:8000/v1/chat/completions" in text
    assert "OpenAI base URL    http://127.0.0.1:8000/v1" in text
    assert "Authorization" not in text


def test_a_keyed_server_s_curl_line_carries_a_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    Console().ready(("127.0.0.1", 8000), loaded_engine(), Welcome(keyed=True))
    text = "\n".join(lines(capsys))
    assert 'completions \\\n    -H "Authorization: Bearer $MASHBOX_API_KEY" \\\n' in text


def test_the_last_line_tells_what_was_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 4320.0])
    monkeypatch.setattr("mashbox.console.time.monotonic", lambda: next(clock))
    stats = EngineStats(1000)
    stats.outcomes |= {"stop": 833, "abort": 1}
    stats.prompt_tokens, stats.generation_tokens = 400_000, 800_000
    Console().stopped(stats)
    assert lines(capsys)[0].endswith(" stopped after 1 h 12 min: 834 requests, 1.2 M tokens")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_none_gets_no_colour_and_no_bars(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    console = Console()
    console.wait("starting")
    console.progress("loading", 1, 2_000_000)
    console.error("failed")
    first, second = lines(capsys)
    assert re.fullmatch(STAMP + r"loading \(2 MB\)", first)
    assert second == "failed"


def test_lines_that_nobody_takes_are_lost_and_all_else_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering=1) as broken, open("/dev/full", "w", buffering=1) as full:
        for stream in (broken, full):
            monkeypatch.setattr("sys.stderr", stream)
            console = Console()
            console.line("starting")
            console.error("wrong")
            # What they still hold cannot be written either.
            monkeypatch.undo()
            with contextlib.suppress(OSError):
                stream.close()
