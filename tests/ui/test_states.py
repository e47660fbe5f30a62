"""What the page says and does while the server is not simply ready."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.e2e.scripts import TEXT, scripted
from tests.e2e.server import Server
from tests.ui.axe import faults
from tests.ui.chat import COMPLETIONS, Chat
from tests.ui.conftest import OpenChat

pytestmark = pytest.mark.ui

LOADING = "Loading the model…"
OUT_OF_REACH = "The server is out of reach"
KEY = "a-key-of-more-than-sixteen-characters"


@pytest.fixture(scope="module")
def locked_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("locked")
    keys = folder / "keys"
    keys.write_text(KEY + "\n")
    keys.chmod(0o600)
    with scripted(folder, options=("--ui", "--api-key-file", str(keys))) as running:
        yield running


def still_loading(route: Route) -> None:
    route.fulfill(status=503, json={"status": "loading"}, headers={"Retry-After": "1"})


def test_a_loading_model_is_waited_for(open_chat: OpenChat, server: Server) -> None:
    chat = open_chat(server.url)
    chat.visit.allow("status of 503")
    chat.page.route("**/health", still_loading)
    chat.page.goto(server.url)
    expect(chat.banner).to_contain_text(LOADING)
    chat.page.unroute("**/health")
    expect(chat.banner).not_to_contain_text(LOADING)
    expect(chat.ask("Hello")).to_contain_text(TEXT)


def test_a_question_to_a_loading_model_is_asked_again(chat: Chat) -> None:
    chat.visit.allow("status of 503")
    expect(chat.ask("warming up?")).to_contain_text("Warm now.")
    expect(chat.questions).to_have_count(1)


# Keeps all that the banner has said: it may say it too briefly to be waited for.
LISTEN = """() => {
  const banner = document.querySelector("[role=status]");
  window.said = [];
  new MutationObserver(() => window.said.push(banner.innerText.trim())).observe(banner, {
    subtree: true, childList: true, characterData: true});
}"""


def test_a_full_queue_is_counted_down_and_tried_again(chat: Chat) -> None:
    chat.visit.allow("status of 429")
    chat.page.evaluate(LISTEN)
    expect(chat.ask("busy?")).to_contain_text("Now there is room.")
    waits = [f"The queue is full, trying again in {seconds} s" for seconds in (2, 1)]
    assert chat.page.evaluate("window.said") == [*waits, ""]
    expect(chat.questions).to_have_count(1)


def test_the_countdown_can_be_stopped(chat: Chat) -> None:
    chat.visit.allow("status of 429")
    bodies = chat.record_requests()
    chat.send('Busy.\n#!mock {"refuse": {"kind": "rate_limit", "retry_after": 60}}')
    expect(chat.banner).to_contain_text("The queue is full")
    chat.button("Stop").click()
    expect(chat.banner).not_to_contain_text("The queue is full")
    expect(chat.ask("Hello")).to_contain_text(TEXT)
    assert len(bodies) == 2


def test_a_locked_server_asks_for_the_key(open_chat: OpenChat, locked_server: Server) -> None:
    chat = open_chat(locked_server.url)
    chat.visit.allow("status of 401")
    chat.page.goto(locked_server.url)
    expect(chat.key).to_be_visible()
    assert faults(chat) == []
    chat.key.fill("a-wrong-key-of-sixteen-characters")
    chat.button("Use key").click()
    expect(chat.page.get_by_text("does not know this key")).to_be_visible()
    chat.key.fill(KEY)
    chat.page.keyboard.press("Enter")
    expect(chat.key).to_be_hidden()
    expect(chat.ask("Hello")).to_contain_text(TEXT)


def test_a_question_waits_for_the_key(open_chat: OpenChat, locked_server: Server) -> None:
    chat = open_chat(locked_server.url)
    chat.visit.allow("status of 401")
    chat.page.goto(locked_server.url)
    # The form takes the focus when it comes.
    expect(chat.key).to_be_focused()
    chat.send("Hello")
    chat.key.fill(KEY)
    chat.button("Use key").click()
    expect(chat.answers.last).to_contain_text(TEXT)
    expect(chat.questions).to_have_count(1)


def test_the_key_lasts_as_long_as_the_tab(open_chat: OpenChat, locked_server: Server) -> None:
    chat = open_chat(locked_server.url)
    chat.visit.allow("status of 401")
    chat.page.goto(locked_server.url)
    chat.key.fill(KEY)
    chat.button("Use key").click()
    expect(chat.key).to_be_hidden()
    chat.page.reload()
    expect(chat.ask("Hello")).to_contain_text(TEXT)
    assert KEY in chat.page.evaluate("JSON.stringify(sessionStorage)")
    assert KEY not in chat.page.evaluate("JSON.stringify(localStorage) + document.cookie")


def test_a_server_out_of_reach_is_told_and_found_again(chat: Chat) -> None:
    chat.visit.allow("net::ERR_INTERNET_DISCONNECTED")
    chat.visit.context.set_offline(True)
    chat.send("Hello")
    expect(chat.banner).to_contain_text(OUT_OF_REACH)
    chat.visit.context.set_offline(False)
    expect(chat.banner).not_to_contain_text(OUT_OF_REACH)
    expect(chat.ask("Hello again")).to_contain_text(TEXT)


@pytest.mark.parametrize("text", ["break off", "go wrong"])
def test_a_broken_answer_keeps_its_text_and_says_why(chat: Chat, text: str) -> None:
    chat.visit.allow("net::ERR_INCOMPLETE_CHUNKED_ENCODING")
    chat.send(text)
    alert = chat.answers.last.get_by_role("alert")
    expect(alert).to_contain_text(re.compile("error|broke|lost|wrong|ended", re.IGNORECASE))
    expect(chat.answers.last).to_contain_text("one")
    expect(chat.button("Stop")).to_be_hidden()
    expect(chat.button("Regenerate")).to_have_count(1)
    expect(chat.ask("Hello")).to_contain_text(TEXT)


def test_a_refusal_is_shown_in_the_servers_words(chat: Chat) -> None:
    chat.visit.allow("status of 400")
    chat.send("too long")
    expect(chat.answers.last.get_by_role("alert")).to_contain_text("prompt is too long")
    expect(chat.button("Stop")).to_be_hidden()
    expect(chat.ask("Hello")).to_contain_text(TEXT)


def test_a_dead_worker_and_a_dead_server_are_told(open_chat: OpenChat, tmp_path: Path) -> None:
    crash = {"match": {"user": "die", "restarts": 0}, "parts": [{"text": "one two"}], "crash_at": 2}
    with scripted(tmp_path, crash, options=("--ui",)) as server:
        chat = open_chat(server.url)
        chat.visit.allow("status of 503|net::ERR_|status of 500")
        chat.page.goto(server.url)
        chat.send("die")
        expect(chat.answers.last.get_by_role("alert")).to_be_visible()
        server.wait_for_health(status="ok", worker_restarts=1)
        expect(chat.banner).to_contain_text("was started again")
        expect(chat.ask("Hello")).to_contain_text(TEXT)
        server.stop()
        chat.send("Are you there?")
        expect(chat.banner).to_contain_text(OUT_OF_REACH)


def answering(**answer: Any) -> Callable[[Route], None]:
    return lambda route: route.fulfill(**answer)


def test_an_answer_from_anything_else_is_no_crash(chat: Chat) -> None:
    chat.visit.allow("status of 502")
    page = "<html><body>502 Bad Gateway <script>alert(1)</script></body></html>"
    chat.page.route(COMPLETIONS, answering(status=502, body=page))
    chat.send("Hello")
    expect(chat.answers.last.get_by_role("alert")).to_contain_text("502")
    headers = {"Content-Type": "text/event-stream"}
    for number, strange in enumerate(["null", "1", "[]", "{}", '{"choices": null}', "{"], 1):
        chat.page.route(COMPLETIONS, answering(headers=headers, body=f"data: {strange}\n\n"))
        chat.send("Hello")
        expect(chat.error).to_have_count(number + 1)
        expect(chat.error.last).to_contain_text("no answer")


def test_a_connection_that_ends_at_once_is_tried_again_in_a_while(chat: Chat) -> None:
    asked: list[float] = []

    def end_the_first(route: Route) -> None:
        asked.append(time.monotonic())
        if len(asked) > 1:
            route.fallback()
        else:
            route.fulfill(headers={"Content-Type": "text/event-stream"}, body="")

    chat.page.route(COMPLETIONS, end_the_first)
    expect(chat.ask("Hello")).to_contain_text(TEXT)
    first, second = asked
    assert second - first > 0.9
