"""The scripted model as a running server; what clients see of its faults is in test_faults."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from bench.protocols import Chat
from tests.e2e.scripts import ask, is_right, scripted

pytestmark = pytest.mark.e2e


def test_neither_process_loads_torch(tmp_path: Path) -> None:
    with scripted(tmp_path) as server:
        assert is_right(Chat(), ask(server, Chat(), "Hi"))
        for process in [psutil.Process(server.process.pid), *server.descendants()]:
            assert not [m.path for m in process.memory_maps() if "libtorch" in m.path]
        assert server.stop() == 0


def test_the_context_holds_the_prompts_of_coding_agents(tmp_path: Path) -> None:
    words = "Read the file, change the function and run the tests again. " * 2_000
    with scripted(tmp_path) as server:
        answer = server.chat(words)
        assert answer.json()["usage"]["prompt_tokens"] > 20_000
        assert server.chat(words * 20).json()["error"]["code"] == "context_length_exceeded"
