"""How a command ends that cannot do what it was asked: a sentence, and an exit code."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import typer

from engine.errors import ModelError
from mashbox.console import Console


class StartError(Exception):
    """Why the server cannot start, in words for the user, and the exit code that says so."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def stop_signals() -> list[signal.Signals]:
    """Return the signals that ask to stop; not a closed terminal's where nohup has it ignored."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if ignored else [signal.SIGHUP])]


@contextlib.contextmanager
def in_one_sentence(console: Console) -> Iterator[None]:
    """Print what the user can mend, and exit with its code: 1 for models, 130 at a signal."""
    # While no event loop listens for them, these unwind like Ctrl+C and leave nothing behind.
    for number in stop_signals():
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    except StartError as error:
        code, said = error.exit_code, str(error)
    except ModelError as error:
        code, said = 1, str(error)
    except KeyboardInterrupt:
        code, said = 130, "stopped"
    else:
        return
    console.error(said)
    raise typer.Exit(code)
