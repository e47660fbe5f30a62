"""Recorded HTTP traffic: HAR 1.2 files and JSON lines, read one exchange at a time."""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Annotated, Any
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, Field, ValidationError
from starlette.datastructures import Headers

_CHUNK = 2**20
_HAR = re.compile(r'\{\s*"log"')
_ENTRIES = re.compile(r'"entries"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_FORMS = "Record HAR or JSON lines as docs/contract-testing.md shows."
_decoder = json.JSONDecoder()


class UnusableRecording(Exception):
    """A file that holds no exchanges, or not in a form that can be read; the text says why."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response; `number` counts from 1, `path` has no query.

    The status is 0 where there was no response, and the response's body None where it was left out
    of the recording.
    """

    number: int
    method: str
    path: str
    request_headers: Headers
    request_body: bytes
    status: int
    response_headers: Headers
    response_body: bytes | None


def read_recording(file: IO[bytes]) -> Iterator[Exchange]:
    """Read a HAR file or JSON lines, whichever it is; raises UnusableRecording."""
    number = 0
    try:
        text = _Text(file)
        form: type[_HarEntry | _Line]
        form, end = (_HarEntry, "]") if text.starts_with(_HAR) else (_Line, "")
        if form is _HarEntry:
            text.skip(_ENTRIES)
        while text.next_character() != end:
            number += 1
            yield _exchange(number, form.model_validate(text.value()))
    except ValidationError as error:
        said = f"Entry {number} is no exchange: {_reason(error)}. {_FORMS}"
        raise UnusableRecording(said) from None
    except (ValueError, RecursionError) as error:
        subject = f"Entry {number}" if number else "It"
        raise UnusableRecording(f"{subject} cannot be read: {error}. {_FORMS}") from None
    if not number:
        raise UnusableRecording("It holds no exchanges. Record at least one.")


class _Text:
    """A long UTF-8 text of which no more is in memory than the JSON value that is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0

    def starts_with(self, pattern: re.Pattern[str]) -> bool:
        """Whether `pattern` comes next, after space."""
        self.next_character()
        return bool(pattern.match(self._text, self._at))

    def skip(self, pattern: re.Pattern[str]) -> None:
        """Go behind the next match; raises ValueError when there is none."""
        while not (found := pattern.search(self._text, self._at)):
            if not self._read_more():
                raise ValueError("the log has no entries")
        self._at = found.end()

    def next_character(self) -> str:
        """Skip space and commas; gives what comes next, nothing at the end."""
        while True:
            if space := _BETWEEN.match(self._text, self._at):
                self._at = space.end()
            if self._at < len(self._text) or not self._read_more():
                return self._text[self._at : self._at + 1]

    def value(self) -> Any:
        """Read one JSON value; raises ValueError."""
        while True:
            try:
                value, self._at = _decoder.raw_decode(self._text, self._at)
                return value
            except json.JSONDecodeError as error:
                if not self._read_more():
                    raise ValueError(f"it is not valid JSON, or cut off ({error.msg})") from None

    def _read_more(self) -> bool:
        # Doubled: a long value is parsed again after each piece, so there must be few.
        kept = self._text[self._at :]
        more = self._file.read(max(_CHUNK, len(kept)))
        self._text, self._at = kept + self._decoder.decode(more, final=not more), 0
        return bool(more)


_Status = Annotated[int, Field(ge=0, le=999)]


class _Header(BaseModel):
    name: str
    value: str


class _HarBody(BaseModel):
    text: str | None = None
    encoding: str | None = None
    size: int = 0

    def read(self) -> bytes | None:
        if self.text is None:
            # Browsers leave out what they did not keep, and say so by its size alone.
            return None if self.size > 0 else b""
        if self.encoding == "base64":
            return base64.b64decode(self.text, validate=True)
        # Half a surrogate, which browsers do write, is the body's fault and not the file's.
        return self.text.encode("utf-8", "surrogatepass")


class _HarMessage(BaseModel):
    headers: list[_Header]
    body: _HarBody | None = Field(None, validation_alias=AliasChoices("postData", "content"))

    def pairs(self) -> Iterable[tuple[str, str]]:
        return ((header.name, header.value) for header in self.headers)

    def content(self) -> bytes | None:
        return self.body.read() if self.body else b""


class _HarRequest(_HarMessage):
    method: str
    url: str


class _HarResponse(_HarMessage):
    status: _Status


class _HarEntry(BaseModel):
    request: _HarRequest
    response: _HarResponse


class _LineMessage(BaseModel):
    headers: dict[str, str] = {}
    body: Any = None

    def pairs(self) -> Iterable[tuple[str, str]]:
        return self.headers.items()

    def content(self) -> bytes | None:
        if self.body is None:
            return b""
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return text.encode("utf-8", "surrogatepass")


class _LineRequest(_LineMessage):
    method: str
    url: str


class _LineResponse(_LineMessage):
    status: _Status


class _Line(BaseModel):
    request: _LineRequest
    response: _LineResponse


def _exchange(number: int, entry: _HarEntry | _Line) -> Exchange:
    request, response = entry.request, entry.response
    return Exchange(
        number,
        request.method.upper(),
        urlsplit(request.url).path or "/",
        _headers(request.pairs()),
        request.content() or b"",
        response.status,
        _headers(response.pairs()),
        response.content(),
    )


def _headers(pairs: Iterable[tuple[str, str]]) -> Headers:
    raw = [(_header_bytes(name.lower()), _header_bytes(value)) for name, value in pairs]
    return Headers(raw=raw)


def _header_bytes(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or "it"
    # pydantic's own words would name classes of this module.
    if first["type"] in {"model_type", "dict_type"}:
        return f"{place} should be an object"
    return f"{place}: {first['msg']}"
