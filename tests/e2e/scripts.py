"""Scripted servers, and what to ask them in all four protocols."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.wire import Answer, Wire
from tests.e2e.server import HTTP, Server

Json = dict[str, Any]

THOUGHT = "Let me think."
TEXT = "Hello from the script."
PARTS: list[Json] = [{"reasoning": THOUGHT}, {"text": TEXT}]


@contextmanager
def scripted(folder: Path, *answers: Json, options: tuple[str, ...] = ()) -> Iterator[Server]:
    """A server that gives `answers`, and the text of PARTS to what none of them matches."""
    path = folder / "script.json"
    path.write_text(json.dumps({"answers": [*answers, {"parts": PARTS}]}))
    with Server("scripted", "--script", str(path), *options) as server:
        yield server.wait_ready()


def ask(server: Server, wire: Wire, text: str, **fields: object) -> Answer:
    """Ask and verify the answer; fails with what was broken."""
    return wire.read(HTTP.post(server.url + wire.path, json=wire.body(text, **fields)))


def thinks(wire: Wire) -> bool:
    """Whether the scripted model thinks for this protocol; a bare prompt leaves no room for it."""
    return wire.path != "/v1/completions"


def is_right(wire: Wire, answer: Answer) -> bool:
    """Whether it is the whole answer of PARTS."""
    thought = THOUGHT if thinks(wire) else ""
    return answer.complete and (answer.thinking, answer.text) == (thought, TEXT)
