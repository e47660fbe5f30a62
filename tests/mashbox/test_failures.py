"""How commands end at a signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import typer

from mashbox.console import Console
from mashbox.failures import in_one_sentence

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Leave the process's own handlers as they were."""
    before = [signal.getsignal(number) for number in STOPS]
    yield
    for number, handler in zip(STOPS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_unwinds_and_ends_with_130(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    cleaned = []
    with pytest.raises(typer.Exit) as ended, in_one_sentence(Console()):
        try:
            os.kill(os.getpid(), number)
        finally:
            cleaned.append(number)
    assert ended.value.exit_code == 130 and cleaned == [number]
    assert capsys.readouterr().err == "stopped\n"


def test_a_closed_terminal_stops_nothing_under_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with in_one_sentence(Console()):
        os.kill(os.getpid(), signal.SIGHUP)
