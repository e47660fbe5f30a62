from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from datetime import datetime

import pytest

from mashbox.console import Console
from mashbox.logs import LogFormat, set_up_logging


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("mashbox")
    handlers, level, our_level = root.handlers[:], root.level, ours.level
    yield
    logging.captureWarnings(False)
    root.handlers, ours.level = handlers, our_level
    root.setLevel(level)


def log(*, fields: dict[str, object] | None = None) -> None:
    extra = {} if fields is None else {"fields": fields}
    logging.getLogger("mashbox.test").info("said %d", 1, extra=extra)


def test_text_has_the_fields_behind_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(LogFormat.text)
    log()
    log(fields={"status": 200, "stream": True, "session": 'a b="c"', "id": "x-1"})
    plain, full = (line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines())
    assert plain == "INFO said 1"
    assert full == r'INFO said 1 status=200 stream=true session="a b=\"c\"" id=x-1'


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(LogFormat.json)
    log(fields={"status": 200, "session": "a\u2028b"})
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("broken")
    said, broken = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert datetime.fromisoformat(said.pop("time")).tzinfo
    assert said == {
        "level": "INFO", "logger": "mashbox.test", "message": "said 1",
        "status": 200, "session": "a\u2028b",
    }  # fmt: skip
    assert broken["message"] == "broken"
    assert "ValueError: two\nlines" in broken["exception"]


def test_the_console_s_lines_and_warnings_become_json_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logging(LogFormat.json)
    console = Console(as_log=True)
    console.line("  ready")
    console.error("failed")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["message"]) for line in lines[:2]] == [
        ("INFO", "ready"),
        ("ERROR", "failed"),
    ]
    assert "DeprecationWarning: old" in lines[2]["message"]


@pytest.mark.parametrize(
    ("level", "seen"),
    [(logging.DEBUG, "dbg inf wrn"), (logging.INFO, "inf wrn"), (logging.WARNING, "wrn")],
)
def test_levels_are_ours_alone(capsys: pytest.CaptureFixture[str], level: int, seen: str) -> None:
    set_up_logging(LogFormat.text, level)
    for name in ("mashbox.test", "other"):
        logger = logging.getLogger(name)
        logger.debug("dbg")
        logger.info("inf")
    logging.getLogger("mashbox.test").warning("wrn")
    assert " ".join(line[-3:] for line in capsys.readouterr().err.splitlines()) == seen


def test_a_quiet_console_shows_errors_only(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(quiet=True)
    console.line("ready")
    console.error("failed")
    assert capsys.readouterr().err == "failed\n"
