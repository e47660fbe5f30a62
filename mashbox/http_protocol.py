"""HTTP/1.1 below the application: uvicorn's protocol with limits on size and time."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from handlers.errors import ApiError, bad_request
from handlers.request_ids import id_headers, new_request_id
from handlers.request_log import log_refusal
from mashbox.listener import READ_SECONDS

MAX_TARGET_BYTES = 8 * 2**10
MAX_HEAD_BYTES = 64 * 2**10

# How long a client may keep silent while it owes a request.
REQUEST_SECONDS = 30.0
# A refused client may still be sending; closed under it, the refusal would be lost on its way.
_LINGER_SECONDS = 2.0

_UPGRADE = re.compile(rb"\bupgrade\b,?", re.IGNORECASE)

_MALFORMED = bad_request("The request is not valid HTTP/1.1; send it with an HTTP client.", None)
_LONG_TARGET = ApiError(
    414, f"The request target is longer than {MAX_TARGET_BYTES} bytes; send a shorter one."
)
_LARGE_HEAD = ApiError(
    431, f"The headers are larger than {MAX_HEAD_BYTES // 2**10} KiB; send fewer or shorter ones."
)
_STALLED = ApiError(
    408, f"No byte of the body came for {REQUEST_SECONDS:.0f} seconds; send the request again."
)


class LimitedHttp(HttpToolsProtocol):
    """One connection whose client can be neither endless, nor silent, nor deaf.

    What is wrong with a request before the application sees it is answered here, in the shape of
    its route's errors. A client that closes its sending side has left, as uvicorn has it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self._fault = _MALFORMED
        self._refused = False
        self._in_head = False
        self._head_bytes = 0
        self._pending_bytes = 0
        self._unread_bytes = 0
        self._request_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._expect_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks."""
        self._expect_nothing()
        self._stop_read_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came; refuse what is no HTTP, or leads to nothing for too long."""
        if self._refused:
            return
        self._unset_keepalive_if_required()
        # Reset by every step forward: what is left are unfinished headers, trailers and the like.
        self._pending_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            if not self._refused:
                self._refuse(self._fault)
            return
        if self._pending_bytes > MAX_HEAD_BYTES:
            self._refuse(_LARGE_HEAD)
        elif self._in_body():
            self._expect_more()

    # Parser

    def on_message_begin(self) -> None:
        """Begin a request, unless the one before is still without its answer.

        Behind a request that waits for its turn uvicorn would not hear that the client leaves, so
        what is pipelined goes unread, as HTTP allows, and the connection ends with its answer.
        """
        if self.cycle and not self.cycle.response_complete:
            self.cycle.keep_alive = False
            self._refused = True
            raise ValueError("pipelined")
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = self._pending_bytes = 0
        self._expect_more()

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        super().on_url(url)
        if len(self.url) > MAX_TARGET_BYTES:
            self._stop_parser(_LONG_TARGET)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a trailer only counts, for who checked the headers did not see it."""
        if self._in_head:
            super().on_header(name, value)
        self._head_bytes += len(name) + len(b": ") + len(value) + len(b"\r\n")
        if self._head_bytes > MAX_HEAD_BYTES:
            self._stop_parser(_LARGE_HEAD)

    def on_headers_complete(self) -> None:
        """Start the application."""
        if self.parser.should_upgrade():
            return
        super().on_headers_complete()
        self._in_head = False
        self._pending_bytes = 0
        self._expect_more()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        super().on_body(body)
        self._pending_bytes = 0

    def on_message_complete(self) -> None:
        """Owe the client an answer."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._pending_bytes = 0
        self._expect_nothing()

    def _parse(self, data: bytes) -> None:
        """Feed the parser; a request that wishes to upgrade is parsed again without its wish.

        The parser reads no body behind one, and Java's client makes one with its first request.
        """
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                # As uvicorn has it.
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _head_without_upgrade(self) -> bytes:
        method = self.parser.get_method()
        if method == b"CONNECT":
            raise httptools.HttpParserError("a tunnel cannot be left out")
        version = b" HTTP/" + self.parser.get_http_version().encode()
        lines = [method + b" " + self.url + version]
        for name, value in self.headers:
            kept = _UPGRADE.sub(b"", value) if name == b"connection" else value
            lines.append(name + b": " + kept)
        return b"\r\n".join([*lines, b"", b""])

    def _stop_parser(self, fault: ApiError) -> None:
        self._fault = fault
        raise ValueError(fault.message)

    # Clients that send too little

    def _expect_more(self) -> None:
        self._expect_nothing()
        self._request_timer = self.loop.call_later(REQUEST_SECONDS, self._request_stalled)

    def _expect_nothing(self) -> None:
        if self._request_timer:
            self._request_timer.cancel()
            self._request_timer = None

    def _request_stalled(self) -> None:
        if self.flow.read_paused:
            # It is the application that takes nothing.
            self._expect_more()
        elif self._in_body() and not self.cycle.response_complete:
            self._refuse(_STALLED)
        else:
            self.transport.close()

    def _in_body(self) -> bool:
        return self.cycle is not None and self.cycle.more_body

    # Clients that take too little

    def pause_writing(self) -> None:
        """Begin to wait until the client reads."""
        super().pause_writing()
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._read_timer = self.loop.call_later(READ_SECONDS, self._reading_stalled)

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        self._stop_read_timer()

    def _stop_read_timer(self) -> None:
        if self._read_timer:
            self._read_timer.cancel()
            self._read_timer = None

    def _reading_stalled(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread >= self._unread_bytes:
            self.transport.abort()
            return
        self._unread_bytes = unread
        self._read_timer = self.loop.call_later(READ_SECONDS, self._reading_stalled)

    # Refusals

    def _refuse(self, error: ApiError) -> None:
        """Answer with `error` if the client can tell what it answers, and end the connection."""
        self._refused = True
        self._expect_nothing()
        if self._owes_nothing_else():
            self.transport.write(self._render(error))
        if self.cycle:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def _owes_nothing_else(self) -> bool:
        if self.cycle is None or self.cycle.response_complete:
            return True
        return self._in_body() and not self.cycle.response_started

    def _render(self, error: ApiError) -> bytes:
        path, request_id = self.url.partition(b"?")[0].decode("latin-1"), new_request_id()
        # Without a target there was no method either, and the parser would name any.
        method = self.parser.get_method().decode() if path else "-"
        log_refusal(method, path or "-", self.headers, error, request_id)
        response = error.response_on(path)
        headers = [
            *self.server_state.default_headers,
            *response.raw_headers,
            *id_headers(request_id, path),
            (b"connection", b"close"),
        ]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        return STATUS_LINE[response.status_code] + lines + b"\r\n" + bytes(response.body)
