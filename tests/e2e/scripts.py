"""Scripted servers, and what to ask them in all four protocols."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx

from bench.wire import Answer, Wire
from tests.contract.judge import judge
from tests.e2e.server import HTTP, Server

Json = dict[str, Any]

THOUGHT = "Let me think."
TEXT = "Hello from the script."
PARTS: list[Json] = [{"reasoning": THOUGHT}, {"text": TEXT}]

# An answer to "endless", which goes on until its client leaves.
ENDLESS: Json = {
    "match": {"user": "endless"},
    "parts": [{"text": "on and on "}],
    "finish": "length",
    "token_delay_ms": 20,
}


def write_script(folder: Path, answers: Iterable[Json]) -> Path:
    """Write a script that gives `answers`, and the text of PARTS to what none of them matches."""
    path = folder / "script.json"
    path.write_text(json.dumps({"answers": [*answers, {"parts": PARTS}]}))
    return path


@contextmanager
def scripted(folder: Path, *answers: Json, options: tuple[str, ...] = ()) -> Iterator[Server]:
    """A server that follows the script of `write_script`."""
    path = write_script(folder, answers)
    with Server("mock", "--mock-script", str(path), *options) as server:
        yield server.wait_ready()


def ask(server: Server, wire: Wire, text: str, **fields: object) -> Answer:
    """Ask and verify the answer; fails with what was broken."""
    body = wire.body(text, **fields)
    return wire.read(HTTP.post(server.url + wire.path, json=body, timeout=60))


def thinks(wire: Wire) -> bool:
    """Whether the scripted model thinks for this protocol; a bare prompt leaves no room for it."""
    return wire.path != "/v1/completions"


def is_right(wire: Wire, answer: Answer) -> bool:
    """Whether it is the whole answer of PARTS."""
    thought = THOUGHT if thinks(wire) else ""
    return answer.complete and (answer.thinking, answer.text) == (thought, TEXT)


class Pending:
    """A request that is sent at once; its answer is read later, or never."""

    def __init__(
        self, server: Server, wire: Wire, text: str, key: str = "", **fields: object
    ) -> None:
        self.wire = wire
        address = httpx.URL(server.url)
        self._connection = HTTPConnection(address.host, address.port, timeout=60)
        headers = {"Content-Type": "application/json", **({"x-api-key": key} if key else {})}
        self._connection.request("POST", wire.path, json.dumps(wire.body(text, **fields)), headers)

    def answer(self) -> Answer:
        """Wait for the answer and verify it; fails with what was broken."""
        got = self._connection.getresponse()
        body = got.read()
        judge(f"POST {self.wire.path}", got.status, dict(got.getheaders()), body)
        response = httpx.Response(got.status, headers=got.getheaders(), content=body)
        self._connection.close()
        return self.wire.read(response)

    def leave(self) -> None:
        """Close the connection."""
        self._connection.close()
