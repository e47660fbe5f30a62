"""Command lines of the servers under comparison: the same room for all."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench import servers
from bench.scenarios import SCENARIOS
from bench.servers import OURS, SERVERS, Room
from bench.weights import Weights
from mashbox.cli import app

FILES = Weights(Path("/w/model"), Path("/w/f32.gguf"), Path("/w/q8.gguf"))
ROOM = Room(ctx=2048, slots=8, threads=1)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "llama_server_program", lambda: Path("/p/llama-server"))
    monkeypatch.setattr(servers, "transformers_program", lambda: Path("/p/transformers"))


def line(name: str) -> str:
    return " ".join(SERVERS[name](FILES, 9000, ROOM).command)


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_has_the_name_it_is_asked_by_and_its_port(name: str) -> None:
    peer = SERVERS[name](FILES, 9000, ROOM)
    assert peer.name == name and peer.url == "http://127.0.0.1:9000"
    assert "--port 9000" in line(name)


def test_all_slots_of_a_server_have_the_same_context() -> None:
    assert "--ctx 2048 --slots 8" in line("mashbox")
    # llama-server divides its context by its slots.
    assert "--ctx-size 16384 --parallel 8" in line("llama-q8")


def test_all_servers_have_the_same_threads() -> None:
    assert all("--threads 1" in line(name) for name in OURS)
    assert SERVERS["transformers"](FILES, 9000, ROOM).environment["OMP_NUM_THREADS"] == "1"
    assert "--threads 1 --threads-batch 1" in line("llama-f32")


def test_servers_that_are_compared_like_for_like_run_in_float32() -> None:
    assert "--quant" not in line("mashbox") and "--quant none" in line("mashbox-f32")
    assert "--dtype float32" in line("transformers")
    assert "/w/f32.gguf" in line("llama-f32") and "/w/q8.gguf" in line("llama-q8")


def test_our_command_line_has_the_options() -> None:
    help_text = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
    used = {word for name in OURS for word in line(name).split() if word.startswith("--")}
    assert used and all(option in help_text for option in used)


def test_slots_are_the_concurrency_and_at_most_sixteen() -> None:
    slots = {name: scenario.slots for name, scenario in SCENARIOS.items()}
    assert (slots["chats-1"], slots["chats-8"], slots["chats-32"]) == (1, 8, 16)
