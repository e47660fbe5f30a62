"""What a client sees of a script that the server process plays, and of directives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bench.protocols import WIRES
from bench.wire import Wire
from tests.e2e.scripts import THOUGHT, ask, scripted, thinks
from tests.e2e.server import HTTP, Server

pytestmark = pytest.mark.e2e

BUSY = {"match": {"user": "busy"}, "parts": [{"text": "Now."}], "refuse": {"kind": "rate_limit"}}
FULL = {"match": {"user": "full"}, "refuse": {"kind": "overloaded", "retry_after": 4}}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "plan",
        "parameters": {
            "type": "object",
            "properties": {"steps": {"type": "array", "items": {"enum": ["go"]}, "minItems": 2}},
            "required": ["steps"],
        },
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with scripted(tmp_path_factory.mktemp("mock"), BUSY, FULL) as running:
        yield running


def directive(**answer: Any) -> str:
    return "Please.\n#!mock " + json.dumps(answer)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.path)
def test_a_directive_gives_the_answer_in_every_protocol(server: Server, wire: Wire) -> None:
    parts = [{"reasoning": THOUGHT}, {"text": "As told."}]
    answer = ask(server, wire, directive(parts=parts))
    assert answer.text == "As told."
    assert answer.thinking == (THOUGHT if thinks(wire) else "")


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.path)
def test_a_wrong_directive_is_a_400_that_names_the_field(server: Server, wire: Wire) -> None:
    refused = HTTP.post(server.url + wire.path, json=wire.body(directive(parts=[{"say": "Hi"}])))
    assert refused.status_code == 400
    assert '#!mock.parts[0] has no field "say"' in refused.json()["error"]["message"]


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.path)
def test_refusals_have_the_statuses_of_a_full_server(server: Server, wire: Wire) -> None:
    busy, full = (HTTP.post(server.url + wire.path, json=wire.body(w)) for w in ("busy", "full"))
    assert busy.status_code == 429
    assert full.status_code == (529 if wire.path == "/v1/messages" else 429)
    assert (busy.headers["Retry-After"], full.headers["Retry-After"]) == ("1", "4")


@pytest.mark.parametrize("stream", [True, False])
def test_a_connection_is_cut_in_the_middle_of_an_answer(server: Server, stream: bool) -> None:
    text = directive(parts=[{"text": "one two three four"}], cut_at=2)
    with pytest.raises(httpx.RemoteProtocolError):
        server.chat(text, stream=stream, max_tokens=50)
    assert server.chat("Still there?").status_code == 200
    assert "Traceback" not in server.output


def test_a_stream_ends_in_an_error_of_its_own(server: Server) -> None:
    text = directive(parts=[{"text": "one two three four"}], error_at=2)
    lines = server.chat(text, stream=True, max_tokens=50).text.split("\n\n")
    assert '"finish_reason":"error"' in lines[-3]
    assert lines[-2] == "data: [DONE]"


def test_the_same_request_has_the_same_answer(server: Server) -> None:
    asked = {"text": directive(parts=[{"tool_call": {}}]), "tools": [TOOL], "max_tokens": 200}
    calls = [
        server.chat(**asked).json()["choices"][0]["message"]["tool_calls"][0]["function"]
        for _ in range(2)
    ]
    assert calls[0] == calls[1] == {"name": "plan", "arguments": '{"steps": ["go", "go"]}'}
