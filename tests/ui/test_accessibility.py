"""axe-core finds no serious fault, and screen readers hear answers by the sentence."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.scripts import TEXT
from tests.e2e.server import Server
from tests.ui.axe import faults
from tests.ui.chat import Chat
from tests.ui.conftest import OpenChat

pytestmark = pytest.mark.ui


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_chat: OpenChat, server: Server, scheme: str) -> None:
    chat = open_chat(server.url, color_scheme=scheme)
    chat.page.goto(server.url)
    expect(chat.composer).to_be_visible()
    assert faults(chat) == []
    chat.with_tools("get_weather")
    for text in ("Show me code", "Compare the planets", "How is the weather?", "lines"):
        chat.ask(text)
    chat.unfold()
    assert faults(chat) == []
    chat.button("Settings").click()
    expect(chat.page.get_by_label("Temperature")).to_be_visible()
    assert faults(chat) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_while_an_answer_comes_or_fails(
    open_chat: OpenChat, server: Server, scheme: str
) -> None:
    chat = open_chat(server.url, color_scheme=scheme)
    chat.visit.allow("status of 400|status of 429")
    chat.page.goto(server.url)
    chat.send("too long")
    expect(chat.answers.last.get_by_role("alert")).to_be_visible()
    chat.send("ponder")
    expect(chat.thinking).to_contain_text("and then again")
    assert faults(chat) == []
    chat.button("Stop").click()
    chat.send('Busy.\n#!mock {"refuse": {"kind": "rate_limit", "retry_after": 60}}')
    expect(chat.banner).to_contain_text("The queue is full")
    assert faults(chat) == []


def test_axe_finds_nothing_serious_on_a_phone_or_in_editing(
    open_chat: OpenChat, server: Server
) -> None:
    chat = open_chat(server.url, viewport={"width": 360, "height": 740})
    chat.page.goto(server.url)
    chat.ask("Hello")
    chat.button("Edit message").click()
    expect(chat.box("Edit message")).to_be_focused()
    assert faults(chat) == []
    chat.button("Show chats").click()
    chat.button("Rename chat").click()
    expect(chat.box("Chat title")).to_be_focused()
    assert faults(chat) == []


# What the polite live region says, each time it changes.
LISTEN = """() => {
  const region = document.querySelector("[aria-live=polite]:not([role])");
  window.said = [];
  const note = () => region.innerText && window.said.push(region.innerText.trim());
  new MutationObserver(note).observe(region, {
    subtree: true, childList: true, characterData: true});
}"""


def test_answers_are_read_out_by_the_sentence_to_their_end(chat: Chat) -> None:
    expect(chat.log).to_have_attribute("aria-live", "off")
    chat.page.evaluate(LISTEN)
    chat.ask("lines")
    chat.page.wait_for_function("() => window.said.join(' ').includes('Line 60 of')")
    said = chat.page.evaluate("window.said")
    assert said[0].startswith("Line 1 of a long answer.")
    assert all(text.endswith("long answer.") for text in said)
    # The last sentence has nothing behind it that would end it.
    chat.ask("Hello?")
    chat.page.wait_for_function(f"() => window.said.at(-1) === {TEXT!r}")


def test_the_page_has_a_language_and_a_title(chat: Chat) -> None:
    assert chat.page.evaluate("document.documentElement.lang") == "en"
    expect(chat.page).to_have_title("mashbox")
    chat.ask("Hello there")
    expect(chat.page).to_have_title("Hello there · mashbox")
