"""The four protocols as clients see them: what is asked, and whether what comes back is whole.

A verifier reads a response to its end. It accepts a whole answer, a stream that ends properly, with
its answer or with the protocol's error event, and an error status with the protocol's error body.
"""

from __future__ import annotations

import contextlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

Json = dict[str, Any]

INTERNAL = "internal server error: "


class Broken(AssertionError):
    """A response that no client can make sense of."""


@dataclass(slots=True)
class Answer:
    """What a client has got: the answer so far, its end, or why there is none.

    `seed` is the one that Completions tells. `request_id` belongs to the error event of a stream.
    """

    id: str = ""
    status: int = 200
    thinking: str = ""
    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    finish: str = ""
    seed: str = ""
    error: str = ""
    error_type: str = ""
    request_id: str = ""
    retry_after: int | None = None

    @property
    def complete(self) -> bool:
        """Whether it ended by itself."""
        return not self.error

    @property
    def faulted(self) -> bool:
        """Whether the server says that it failed, as a 500 or in a stream."""
        status, told = self.status in (200, 500), self.error.startswith(INTERNAL)
        return status and told and self.error_type in ("server_error", "api_error")

    @property
    def content(self) -> tuple[str, str, list[tuple[str, Any]], str]:
        """What two equal answers have in common."""
        return self.thinking, self.text, self.calls, self.finish


class Wire(ABC):
    """One protocol; `grammar` is a regular expression over the kinds of a stream's events."""

    path: str
    grammar: str

    @abstractmethod
    def body(self, text: str, **fields: object) -> Json:
        """Write a request that asks `text`."""

    def read(self, response: httpx.Response) -> Answer:
        """Read a response that has come to its end; raises Broken."""
        if response.headers["content-type"].startswith("text/event-stream"):
            return self.read_stream(response.content.decode())
        with _breaking():
            body = json.loads(response.content)
            if response.status_code == 200:
                return self.read_whole(body)
            return self._refused(response, body)

    def read_stream(self, body: str) -> Answer:
        """Read the text of a stream that has come to its end; raises Broken."""
        with _breaking():
            return self._read_stream(body)

    def _read_stream(self, body: str) -> Answer:
        events = read_events(body)
        kinds = " ".join(map(self.kind, events))
        expect(re.fullmatch(self.grammar, kinds), f"{self.path} does not stream so: {kinds}")
        answer = self.fold([event for event in events if isinstance(event, dict)])
        if answer.error:
            answer.id = answer.id or answer.request_id
            expect(answer.request_id == answer.id, f"the error event names {answer.request_id}")
        return answer

    @abstractmethod
    def read_whole(self, body: Json) -> Answer:
        """Read an answer that was not streamed."""

    @abstractmethod
    def kind(self, event: Any) -> str:
        """Name an event for the grammar."""

    @abstractmethod
    def fold(self, events: list[Json]) -> Answer:
        """Put the answer together from a stream's events; raises Broken where they disagree."""

    def error_of(self, body: Json) -> Json:
        """Find the error object of a refusal; raises Broken for another shape."""
        expect(set(body) == {"error"}, f"no error body: {body}")
        expect(set(body["error"]) == {"message", "type", "param", "code"}, f"no error: {body}")
        error: Json = body["error"]
        return error

    def _refused(self, response: httpx.Response, body: Json) -> Answer:
        error = self.error_of(body)
        waits = response.headers.get("retry-after")
        if response.status_code in (429, 503, 529):
            expect(waits and waits.isdigit() and int(waits) > 0, f"Retry-After is {waits}")
        return Answer(
            status=response.status_code,
            error=error["message"],
            error_type=error["type"],
            retry_after=int(waits) if waits else None,
        )


def expect(truth: object, otherwise: str) -> None:
    """Raise Broken with `otherwise` unless `truth`."""
    if not truth:
        raise Broken(otherwise)


@contextlib.contextmanager
def _breaking() -> Iterator[None]:
    """What is not there, or not of its type, breaks a response."""
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise Broken(f"{type(error).__name__}: {error}") from error


def the_one(values: list[Any]) -> Any:
    """The value that all are equal to; raises Broken."""
    expect(values and all(value == values[0] for value in values), f"not all the same: {values}")
    return values[0]


def read_events(body: str) -> list[Any]:
    """Take a stream apart; comments are left out, an end marker stays a string."""
    expect(body.endswith("\n\n"), f"the stream is cut: {body[-80:]!r}")
    blocks = [b for b in body.removesuffix("\n\n").split("\n\n") if not b.startswith(":")]
    return [_event(block) for block in blocks]


def _event(block: str) -> Any:
    *names, data = block.split("\n")
    expect(data.startswith("data: ") and len(names) <= 1, f"no event: {block!r}")
    if data == "data: [DONE]":
        return "done"
    event = json.loads(data.removeprefix("data: "))
    expect(names in ([], [f"event: {event.get('type')}"]), f"{names} names {event.get('type')}")
    return event
