"""Log lines for a person at a terminal: a request in columns, warnings in colour."""

from __future__ import annotations

import logging
import time
from typing import Any

from mashbox.console import Console

# The common paths have short names.
_NAMES = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "complete",
    "/v1/messages": "messages",
    "/v1/messages/count_tokens": "count",
    "/v1/responses": "responses",
}
_OUTCOMES = {429: "queue full", 499: "cancelled"}


class TerminalHandler(logging.Handler):
    """Writes records through the console, so that its bars stay whole."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self.setFormatter(TerminalFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        status = getattr(record, "parts", {}).get("status", 0)
        failed = record.levelno >= logging.ERROR or status >= 500
        warned = record.levelno >= logging.WARNING or status >= 400
        self._console.show(self.format(record), "red" if failed else "yellow" if warned else "")


class TerminalFormatter(logging.Formatter):
    """Time and message; of a request the columns of `request_line`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Write one record without its traceback."""
        parts, fields = getattr(record, "parts", {}), getattr(record, "fields", {})
        if "status" not in parts:
            return super().formatMessage(record)
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        return f"{clock} {request_line(parts, fields)}"


def request_line(parts: dict[str, Any], fields: dict[str, Any]) -> str:
    """Put what is known of a request into one line; `parts` and `fields` are those of its record.

    Times are in seconds, the speed is that of the answer's tokens after the first.
    """
    name = _NAMES.get(parts["path"], f"{parts['method']} {parts['path']}")
    columns = [f"{name:<9} {parts['status']} {_outcome(parts['status'], fields):<10}"]
    if (prompt := fields.get("prompt_tokens")) is not None:
        cached = f" ({fields['cached_tokens']} cached)" if fields.get("cached_tokens") else ""
        columns += [f"{prompt} in{cached}", f"{fields.get('completion_tokens', 0)} out"]
    if (first := fields.get("ttft_ms")) is not None:
        columns.append(f"ttft {first / 1000:.2f} s")
    if speed := fields.get("tokens_per_second"):
        columns.append(f"{speed:.1f} tok/s")
    if (seconds := fields.get("seconds")) is not None:
        columns.append(f"{seconds:.1f} s")
    columns.append(f"req {_short(str(fields.get('request_id')))}")
    if session := fields.get("session"):
        columns.append(f"session {session}")
    return "  ".join(columns)


def _outcome(status: int, fields: dict[str, Any]) -> str:
    if status in _OUTCOMES:
        return _OUTCOMES[status]
    if fields.get("finish") == "abort":
        return "cancelled"
    return str(fields.get("finish") or fields.get("error") or "").replace("_", " ")


def _short(request_id: str) -> str:
    # Enough to find the request in a log file or an error's text.
    return request_id.removeprefix("req_")[:8]
