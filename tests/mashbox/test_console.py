"""The console off a terminal: plain timestamped lines on standard error."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.config import EngineConfig, ModelSource
from engine.engine import Engine
from engine.messages import Progress, Ready
from mashbox.console import Console

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
    Console().ready(("127.0.0.1", 8000), loaded_engine())
    memory, ready = lines(capsys)
    assert "weights 0.54 GB" in memory and "cpu, float32, 2 threads" in memory
    assert re.fullmatch(STAMP + r"ready in \d+\.\d s   http://127\.0\.0\.1:8000", ready)


def test_an_ipv6_address_is_bracketed(capsys: pytest.CaptureFixture[str]) -> None:
    Console().ready(("::1", 8000, 0, 0), loaded_engine())
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
    console.ready(("127.0.0.1", 8000), loaded_engine())
    lines(capsys)
    console.worker_progress(Progress("loading", 1, 2))
    assert lines(capsys) == []


def test_a_terminal_shows_the_curl_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    Console().ready(("127.0.0.1", 8000), loaded_engine())
    text = "\n".join(lines(capsys))
    assert "curl -s http://127.0.0.1:8000/v1/chat/completions" in text
    assert "OpenAI base URL    http://127.0.0.1:8000/v1" in text
    assert "Authorization" not in text


def test_a_keyed_server_s_curl_line_carries_a_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    Console().ready(("127.0.0.1", 8000), loaded_engine(), keyed=True)
    text = "\n".join(lines(capsys))
    assert 'completions \\\n    -H "Authorization: Bearer $MASHBOX_API_KEY" \\\n' in text
