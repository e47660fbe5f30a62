"""One recorded exchange against the contract: its route, its request and its response."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from generated.routes import OPERATIONS, Operation
from handlers.access import check_body_headers
from handlers.body import parse_body
from handlers.errors import ApiError
from mashbox.recordings import Exchange
from mashbox.schema_check import Json, SchemaCheck, resolve
from mashbox.stream_check import check_stream

_STREAM = "text/event-stream"
_JSON = "application/json"
_PARAMETER = re.compile(r"\\\{\w+\\\}")


@dataclass(frozen=True, slots=True)
class Finding:
    """What breaks the contract: `part` of the exchange, and a sentence that names the field."""

    part: str
    sentence: str


class Routes:
    """Finds the operation of a URL's path, which a proxy may have given a prefix."""

    def __init__(self) -> None:
        paths = dict.fromkeys(operation.path for operation in OPERATIONS)
        self._patterns = {path: _pattern(path) for path in paths}
        self._operations = {(o.method, o.path): o for o in OPERATIONS}
        self._head = next(o for o in OPERATIONS if o.method == "HEAD")
        self._first_segments = {path.split("/")[1] for path in paths}

    def find(self, method: str, path: str) -> Operation | str:
        """Give the operation, or a sentence that says why there is none."""
        if method == "HEAD":
            # The contract: HEAD tells readiness, whatever the path.
            return self._head
        if not (known := self._path(path)):
            return "The contract has no such path."
        methods = [m for m, p in self._operations if p == known]
        return self._operations.get(
            (method, known), f"{known} does not take {method}; use {', '.join(sorted(methods))}."
        )

    def _path(self, path: str) -> str | None:
        for known, pattern in self._patterns.items():
            if (found := pattern.fullmatch(path)) and self._is_prefix(found[1]):
                return known
        return None

    def _is_prefix(self, text: str) -> bool:
        # A base URL that has /v1 once too often is a client's mistake, and no proxy's prefix; and
        # so a path fits one pattern, however others end.
        return self._first_segments.isdisjoint(text.split("/")[1:])


def _pattern(path: str) -> re.Pattern[str]:
    prefix = "()" if path == "/" else "(.*?)"
    return re.compile(prefix + _PARAMETER.sub(".+", re.escape(path)))


class ExchangeCheck:
    """Checks exchanges against an OpenAPI document; `responses` counts those looked at."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._schemas = SchemaCheck(document)
        self._routes = Routes()
        self.responses = 0

    def findings(self, exchange: Exchange) -> Iterator[Finding]:
        """Say what breaks the contract, the request first.

        What answers an unknown path or method is not looked at.
        """
        operation = self._routes.find(exchange.method, exchange.path)
        if isinstance(operation, str):
            yield Finding("request", operation)
            return
        request = _Request(operation, exchange)
        yield from (Finding("request", sentence) for sentence in request.faults)
        yield from self._response(operation, exchange, request.stream)

    def _response(
        self, operation: Operation, exchange: Exchange, stream: bool
    ) -> Iterator[Finding]:
        if not exchange.status:
            yield Finding("response", "There is none: the connection broke, or the client left.")
            return
        self.responses += 1
        node = self._document["paths"][operation.path][operation.method.lower()]
        if not (response := node["responses"].get(str(exchange.status))):
            yield Finding("response", f"The contract has no status {exchange.status} here.")
            return
        response = resolve(self._document, response)
        sentences = self._header_faults(response, exchange)
        yield from (Finding("response", sentence) for sentence in sentences)
        yield from self._body(response.get("content", {}), exchange, stream)

    def _header_faults(self, response: Json, exchange: Exchange) -> Iterator[str]:
        for name, reference in response.get("headers", {}).items():
            header = resolve(self._document, reference)
            value: Any = exchange.response_headers.get(name)
            if value is None:
                if header.get("required"):
                    yield f"The header {name} is missing."
                continue
            schema = header["schema"]
            if schema.get("type") == "integer" and value.isdecimal():
                value = int(value)
            for fault in self._schemas.faults(schema, value):
                yield f"The header {name} {fault.removeprefix('The body ')}"

    def _body(self, content: Json, exchange: Exchange, stream: bool) -> Iterator[Finding]:
        body = exchange.response_body
        if body is None:
            yield Finding("response", "The recording lacks the body; record it too.")
        elif not content:
            if body:
                yield Finding("response", "There is a body where the contract has none.")
        else:
            given = exchange.response_headers.get("content-type", "").partition(";")[0]
            media_type = given.strip().lower()
            yield from _type_faults(media_type, content, stream)
            if media_type in content:
                coding = exchange.response_headers.get("content-encoding", "identity")
                yield from self._content(media_type, content[media_type]["schema"], body, coding)

    def _content(
        self, media_type: str, schema: Json, body: bytes, coding: str
    ) -> Iterator[Finding]:
        try:
            text = body.decode()
            value = from_json(text, allow_inf_nan=False) if media_type == _JSON else text
        except UnicodeDecodeError:
            how = "" if coding == "identity" else f" but {coding}; record it decoded"
            yield Finding("response", f"The body is not UTF-8{how}.")
        except ValueError as error:
            yield Finding("response", f"The body is not valid JSON: {error}.")
        else:
            if media_type == _STREAM:
                yield from self._stream(schema, value)
            else:
                faults = self._schemas.faults(schema, value)
                yield from (Finding("response", fault) for fault in faults)

    def _stream(self, schema: Json, text: str) -> Iterator[Finding]:
        name = schema.get("$ref", "").rpartition("/")[2]
        for part, sentence in check_stream(text, name, lambda v: self._schemas.faults(schema, v)):
            yield Finding(f"response {part}", sentence)


class _Request:
    """A request as the server reads it: what it would refuse, and whether it asks for a stream."""

    def __init__(self, operation: Operation, exchange: Exchange) -> None:
        self.faults: list[str] = []
        self.stream = False
        if not operation.request_model:
            return
        try:
            check_body_headers(exchange.request_headers)
        except ApiError as error:
            self.faults.append(error.message)
        try:
            body = parse_body(operation.request_model, exchange.request_body)
            self.stream = bool(getattr(body, "stream", False))
        except ApiError as error:
            self.faults.append(error.message)


def _type_faults(media_type: str, content: Json, stream: bool) -> Iterator[Finding]:
    wanted = _STREAM if stream and _STREAM in content else next(iter(content))
    if media_type not in content:
        yield Finding("response", f"Content-Type should be {' or '.join(content)}.")
    elif _STREAM in (media_type, wanted) and media_type != wanted:
        asked = "a stream" if stream else "a whole answer"
        yield Finding("response", f"Content-Type should be {wanted}: {asked} was asked for.")
