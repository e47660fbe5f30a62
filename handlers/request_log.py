"""One log line a request, written when it is over; never a key, never a word of a prompt."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.errors import EngineError
from engine.stats import Outcome, RequestStats
from handlers.errors import ApiError
from handlers.tenants import SHORTEST_KEY

logger = logging.getLogger("mashbox.requests")

SESSION_LENGTH = 64
# Whoever calls chooses the path, but not the length of our lines.
_PATH_LENGTH = 200
_CLIENT_LEFT = 499
_POLLS = frozenset({"/", "/health", "/v1/health", "/metrics"})
_POLL_ANSWERS = (200, 503)
_PAGE_FILES = "/ui/"


class LoggedAnswer(Protocol):
    """What is logged of an answer (see engine.answer.Answer)."""

    @property
    def stats(self) -> RequestStats:
        """Its numbers."""

    @property
    def outcome(self) -> Outcome:
        """How it ended, `abort` if it was closed before its end."""

    @property
    def error(self) -> EngineError | None:
        """What it ended in."""


@dataclass(slots=True)
class RequestRecord:
    """What the log line tells beside HTTP; whoever learns something fills it in.

    None means unknown: the line leaves it out. `secrets` are the keys that the
    request came with; they are cut out of what the client chose to be logged.
    """

    secrets: tuple[str, ...] = field(default=(), repr=False)
    response_id: str | None = None
    tenant: str | None = None
    session: str | None = None
    stream: bool | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    finish: str | None = None
    queue_ms: float | None = None
    ttft_ms: float | None = None
    tokens_per_second: float | None = None
    error: str | None = None

    def read_body(self, body: BaseModel) -> None:
        """Take from a parsed body what is logged; a session tag of the headers stays."""
        self.stream = getattr(body, "stream", None)
        self.tag(getattr(body, "prompt_cache_key", None))

    def read_answer(self, response_id: str, answer: LoggedAnswer) -> None:
        """Take from an answer that is over what is logged."""
        stats = answer.stats
        self.response_id = response_id
        self.prompt_tokens, self.cached_tokens = stats.prompt_tokens, stats.cached_tokens
        self.completion_tokens = stats.completion_tokens
        self.finish = answer.outcome
        self.error = str(answer.error) if answer.error else None
        self.queue_ms = _milliseconds(stats.queue_seconds)
        self.ttft_ms = _milliseconds(stats.ttft_seconds)
        self.tokens_per_second = _speed(stats)

    def tag(self, session: str | None) -> None:
        """Set the session tag, made printable, unless there is one or `session` is empty."""
        if session and not self.session:
            self.session = printable(session, SESSION_LENGTH, self.secrets)

    def fields(self) -> dict[str, Any]:
        """Give what is known, for the log line."""
        known = {name: getattr(self, name) for name in self.__slots__ if name != "secrets"}
        return {name: value for name, value in known.items() if value not in (None, "")}


class RequestLog:
    """Gives the scope a `record` and logs each request once, whatever becomes of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        begun = time.monotonic()
        headers = Headers(scope=scope)
        record = RequestRecord(keys_sent(headers))
        record.tag(_session_header(headers))
        wire = _Watched(send)
        try:
            await self._app({**scope, "record": record}, receive, wire.send)
        except Exception:
            record.finish = "error"
            raise
        finally:
            _log(scope, record, wire, time.monotonic() - begun)


def log_refusal(
    method: str,
    path: str,
    headers: list[tuple[bytes, bytes]],
    error: ApiError,
    request_id: str,
) -> None:
    """Log a request that was refused before the application saw it; `headers` are those so far."""
    record = RequestRecord(keys_sent(Headers(raw=headers)), error=error.reason)
    fields = {"request_id": request_id, **record.fields()}
    _write(logging.INFO, method, _path(path, record.secrets), error.status, fields)


class _Watched:
    """The way out of one response, and what has gone over it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = _CLIENT_LEFT
        self.complete = False

    async def send(self, message: Message) -> None:
        await self._send(message)
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.complete = not message.get("more_body", False)


def printable(text: str, length: int, secrets: tuple[str, ...] = ()) -> str:
    """Make a client's text safe for a log line: no secret, nothing that moves a cursor or a line.

    At most `length` characters of it are kept; an escape such as `\\n` or `\\u2028` is longer
    than the character that it stands for.
    """
    # Secrets first: one that is cut in two would not be found.
    kept = _without(secrets, text)[:length]
    return "".join(c if c.isprintable() else _escaped(c) for c in kept)


def _path(path: str, secrets: tuple[str, ...]) -> str:
    """Write a path in URL form, without spaces that could pass for the end of it."""
    return quote(_without(secrets, path), safe="/:@[]+,;=", errors="replace")[:_PATH_LENGTH]


def _without(secrets: tuple[str, ...], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "[key]")
    return text


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _speed(stats: RequestStats) -> float | None:
    """Tokens a second after the first one; None where there were no others."""
    if stats.first_token_at is None or stats.last_token_at is None:
        return None
    seconds = stats.last_token_at - stats.first_token_at
    return round((stats.completion_tokens - 1) / seconds, 1) if seconds > 0 else None


def keys_sent(headers: Headers) -> tuple[str, ...]:
    """Give the keys that a request carries, right or wrong; they may be printed nowhere."""
    # With or without its scheme: what is no valid header may still be somebody's key.
    words = [word for value in headers.getlist("authorization") for word in value.split()]
    sent = [*words, *headers.getlist("x-api-key")]
    # Shorter ones are no keys of ours, but words like "none" that honest tags have too.
    return tuple(key for key in sent if len(key) >= SHORTEST_KEY)


def _session_header(headers: Headers) -> str:
    # Header bytes are handed on as Latin-1; those of a UTF-8 tag are read as what they were.
    raw = headers.get("x-session-id", "").encode("latin-1")
    return raw.decode("utf-8", errors="backslashreplace")


def _log(scope: Scope, record: RequestRecord, wire: _Watched, seconds: float) -> None:
    # Nothing of ours ends a response without its last message, so its client did.
    if not wire.complete and wire.status != _CLIENT_LEFT and record.finish is None:
        record.finish = "abort"
    poll = scope["method"] == "HEAD" or scope["path"] in _POLLS
    quiet = poll or scope["path"].startswith(_PAGE_FILES)
    fields = {
        "seconds": round(seconds, 3),
        "request_id": scope.get("request_id"),
        **record.fields(),
    }
    # Probes come every few seconds, also while a model loads: a night's log would be theirs. The
    # chat page has dozens of files.
    level = logging.DEBUG if quiet and wire.status in _POLL_ANSWERS else logging.INFO
    _write(level, scope["method"], _path(scope["path"], record.secrets), wire.status, fields)


def _write(level: int, method: str, path: str, status: int, fields: dict[str, Any]) -> None:
    if logger.isEnabledFor(level):
        parts = {"method": method, "path": path, "status": status}
        extra = {"parts": parts, "fields": fields}
        logger.log(level, "%s %s %d", *parts.values(), extra=extra)
