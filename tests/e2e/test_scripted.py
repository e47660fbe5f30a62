"""The scripted model as a running server: how it starts, and what clients see of its faults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.e2e.server import Server

pytestmark = pytest.mark.e2e

HELLO = {"parts": [{"text": "Hello from the script."}]}


@contextmanager
def scripted(tmp_path: Path, *answers: dict[str, Any]) -> Iterator[Server]:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"answers": answers}))
    with Server("scripted", "--script", str(path)) as server:
        yield server.wait_ready()


def content(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    text: str = response.json()["choices"][0]["message"]["content"]
    return text


def events(server: Server, path: str, body: dict[str, Any]) -> list[str]:
    """The data of a streamed answer's events."""
    with httpx.stream("POST", server.url + path, json={**body, "stream": True}) as response:
        lines = list(response.iter_lines())
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


def stream(server: Server, text: str = "Hi") -> list[dict[str, Any]]:
    body = {"messages": [{"role": "user", "content": text}]}
    *chunks, end = events(server, "/v1/chat/completions", body)
    assert end == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]


def test_neither_process_loads_torch(tmp_path: Path) -> None:
    with scripted(tmp_path, HELLO) as server:
        assert content(server.chat(max_tokens=100)) == "Hello from the script."
        for process in [psutil.Process(server.process.pid), *server.descendants()]:
            assert not [m.path for m in process.memory_maps() if "libtorch" in m.path]
        assert server.stop() == 0


def test_the_context_holds_the_prompts_of_coding_agents(tmp_path: Path) -> None:
    words = "Read the file, change the function and run the tests again. " * 2_000
    with scripted(tmp_path, HELLO) as server:
        answer = server.chat(words)
        assert answer.json()["usage"]["prompt_tokens"] > 20_000
        assert server.chat(words * 20).json()["error"]["code"] == "context_length_exceeded"


def test_a_crash_before_any_output_is_not_seen_by_the_client(tmp_path: Path) -> None:
    crash = {"match": {"restarts": 0}, "parts": [{"text": "lost"}], "crash_at": 0}
    with scripted(tmp_path, crash, HELLO) as server:
        assert content(server.chat(max_tokens=100)) == "Hello from the script."
        assert server.health()["worker_restarts"] == 1


def test_a_crash_in_the_middle_of_a_stream_ends_it_with_an_error(tmp_path: Path) -> None:
    crash = {"match": {"user": "die"}, **HELLO, "crash_at": 3}
    with scripted(tmp_path, crash, HELLO) as server:
        chunks = stream(server, "die")
        assert chunks[-1]["choices"][0]["finish_reason"] == "error"
        assert chunks[-1]["error"]["message"].startswith("internal server error: ")
        text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)
        assert "Hello from the script.".startswith(text.strip()) and text
        server.wait_for_health(status="ok")
        assert content(server.chat(max_tokens=100)) == "Hello from the script."


@pytest.mark.parametrize(
    ("path", "body", "last"),
    [
        (
            "/v1/messages",
            {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]},
            ["content_block_delta", "error"],
        ),
        ("/v1/responses", {"input": "Hi"}, ["error", "response.failed"]),
    ],
)
def test_a_crash_ends_the_other_protocols_streams_in_their_own_way(
    tmp_path: Path, path: str, body: dict[str, Any], last: list[str]
) -> None:
    with scripted(tmp_path, {**HELLO, "crash_at": 3}) as server:
        types = [json.loads(data)["type"] for data in events(server, path, body)]
        assert types[-2:] == last
        assert any(kind.endswith("delta") for kind in types)


def test_a_failed_step_leaves_the_worker_alive(tmp_path: Path) -> None:
    fail = {"match": {"user": "fail"}, **HELLO, "raise_at": 2}
    with scripted(tmp_path, fail, HELLO) as server:
        pid = server.health()["worker_pid"]
        assert stream(server, "fail")[-1]["choices"][0]["finish_reason"] == "error"
        assert content(server.chat(max_tokens=100)) == "Hello from the script."
        assert server.health()["worker_pid"] == pid
