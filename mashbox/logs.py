"""Log lines on standard error, as text or as JSON, one record a line."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

_BARE = re.compile(r"[\w.:/@+\[\]-]+", re.ASCII)


class LogFormat(StrEnum):
    """How log lines are written."""

    text = "text"
    json = "json"


def set_up_logging(
    log_format: LogFormat, level: int = logging.INFO, handler: logging.Handler | None = None
) -> None:
    """Send log records to standard error, ours from `level`, others' from WARNING.

    A `handler` writes them in its own way instead.
    """
    if handler is None:
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter() if log_format is LogFormat.json else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # Python's own warnings would stand between JSON lines as plain text.
    logging.captureWarnings(True)
    # Ours alone: libraries tell more than whoever reads the log can use.
    logging.getLogger("mashbox").setLevel(level)


class TextFormatter(logging.Formatter):
    """Time, level, message, and a record's `fields` as name=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Write one record without its traceback."""
        pairs = [f"{name}={_value(value)}" for name, value in _fields(record).items()]
        return " ".join([super().formatMessage(record), *pairs])


class JsonFormatter(logging.Formatter):
    """One JSON object a record: `time` (UTC), `level`, `logger`, `message`, `parts`, `fields`.

    A record's `parts` are what its message is made of.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write one record; everything beyond ASCII is escaped."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "parts", {}),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # In ASCII a line is one line, whatever separators its reader knows.
        return json.dumps(line)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def _value(value: object) -> str:
    # Quoted, a client's tag cannot pass for fields of its own.
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, bool) else str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
