"""The page with a real model, from the moment the port is open."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest
from playwright.sync_api import expect

from tests.e2e.server import HTTP, Server
from tests.ui.conftest import OpenChat

pytestmark = pytest.mark.ui


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_open(server: Server, port: int) -> None:
    """Wait until the server listens; fails when it has ended."""
    while server.process.poll() is None:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
    pytest.fail(server.output)


def test_a_model_is_watched_loading_and_then_talked_to(open_chat: OpenChat) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with Server(
        "smollm2-135m", "--ui", "--ctx", "1024", "--slots", "2", "--port", str(port)
    ) as server:
        chat = open_chat(url)
        chat.visit.allow("status of 503")
        wait_open(server, port)
        chat.page.goto(url)
        expect(chat.banner).to_contain_text("Loading the model…")
        server.wait_ready()
        expect(chat.banner).not_to_contain_text("Loading the model…", timeout=60_000)
        chat.button("Settings").click()
        chat.page.get_by_label("Max tokens").fill("16")
        chat.page.keyboard.press("Escape")
        answer = chat.ask("What is the capital of France?")
        expect(answer).to_contain_text("Paris")
        assert HTTP.get(url + "/health").json()["live_rows"] == 0
