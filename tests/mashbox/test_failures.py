"""How commands end that cannot do what they were asked, or are stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import typer

from engine.errors import ModelError
from mashbox.console import Console
from mashbox.failures import StartError, in_one_sentence

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Leave the process's own handlers as they were."""
    before = [signal.getsignal(number) for number in STOPS]
    yield
    for number, handler in zip(STOPS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("error", "code"),
    [(ModelError("No such model."), 1), (StartError("No such model.", exit_code=2), 2)],
)
def test_what_the_user_can_mend_is_a_sentence_and_a_code(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, in_one_sentence(Console()):
        raise error
    assert (ended.value.exit_code, capsys.readouterr().err) == (code, "No such model.\n")


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
