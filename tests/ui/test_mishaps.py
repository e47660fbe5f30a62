"""What nobody plans for: odd answers, other tabs, a page that is left, keys pressed too often."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.scripts import TEXT
from tests.e2e.server import Server
from tests.ui.chat import Chat

pytestmark = pytest.mark.ui

STORED = """() => Object.keys(localStorage).filter((key) => key.startsWith("mashbox.chat."))
  .flatMap((key) => Object.values(JSON.parse(localStorage[key]).nodes))"""
BLOCKED = """for (const name of ["localStorage", "sessionStorage"]) {
  const get = () => { throw new DOMException("blocked", "SecurityError"); };
  Object.defineProperty(window, name, { get });
}"""
WRONG_SETTINGS = ["5", "[1]", "{", '{"system": 5, "tools": {}, "thinking": [], "seed": "x"}']
# More than the stack holds, and runs of text whose markup would take many seconds to find.
STRANGE = {
    "quotes": ">" * 10_000 + "deep",
    "lists": "- " * 8_000 + "deep",
    "emphasis": "_a" * 40_000,
    "spaces": "a" + " " * 50_000 + "b",
}


def directive(**answer: object) -> str:
    """A line that asks the mock for this answer."""
    return f"\n#!mock {json.dumps(answer)}"


def other_tab(chat: Chat) -> Page:
    """The same page in another tab of the browser."""
    page = chat.visit.context.new_page()
    page.goto(chat.page.url)
    return page


@pytest.mark.parametrize("name", STRANGE)
def test_no_answer_blanks_or_blocks_the_page(chat: Chat, name: str) -> None:
    text = STRANGE[name]
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": text}}]},
        {"choices": [], "timings": {}},
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    headers = {"Content-Type": "text/event-stream"}
    chat.page.route(
        "**/v1/chat/completions", lambda route: route.fulfill(headers=headers, body=body)
    )
    chat.send("Go on")
    expect(chat.button("Regenerate")).to_be_visible()
    assert text[:100].split()[0] in chat.answers.inner_text()
    chat.page.reload()
    expect(chat.questions).to_have_text(["Go on"])


def test_a_chat_has_one_answer_on_its_way(chat: Chat, server: Server) -> None:
    chat.ask("Hello")
    chat.page.keyboard.press("ArrowUp")
    chat.box("Edit message").fill("Hello again")
    bodies = chat.record_requests()
    chat.send("endless")
    expect(chat.answers.last).to_contain_text("on and on")
    expect(chat.button("Save and send")).to_be_disabled()
    chat.box("Edit message").press("Enter")
    expect(chat.box("Edit message")).to_have_value("Hello again")
    chat.button("Stop").click()
    server.wait_for_health(10, live_rows=0)
    chat.box("Edit message").press("Enter")
    expect(chat.answers).to_contain_text([TEXT])
    assert [body["messages"][-1]["content"] for body in bodies] == ["endless", "Hello again"]


def test_escape_in_a_field_stops_no_answer(chat: Chat) -> None:
    chat.send("endless")
    expect(chat.answers.last).to_contain_text("on and on")
    chat.box("Search chats").fill("end")
    chat.box("Search chats").press("Escape")
    expect(chat.box("Search chats")).to_be_empty()
    chat.button("Rename chat").click()
    chat.box("Chat title").press("Escape")
    expect(chat.box("Chat title")).to_be_hidden()
    expect(chat.button("Stop")).to_be_visible()
    chat.composer.press("Escape")
    expect(chat.button("Stop")).to_be_hidden()


def test_an_answer_that_a_reload_breaks_off_is_kept_as_stopped(chat: Chat, server: Server) -> None:
    chat.send("endless")
    expect(chat.answers.last).to_contain_text("on and on")
    chat.page.reload()
    expect(chat.answers.last).to_contain_text("on and on")
    expect(chat.timings).to_have_text("stopped")
    expect(chat.error).to_have_count(0)
    server.wait_for_health(10, live_rows=0)


def test_back_leads_to_the_chat_before(chat: Chat) -> None:
    chat.ask("Hello")
    chat.begin_anew()
    chat.ask("Compare the planets")
    chat.title("Hello").click()
    expect(chat.questions).to_have_text(["Hello"])
    chat.page.go_back()
    expect(chat.questions).to_have_text(["Compare the planets"])
    chat.page.go_forward()
    expect(chat.questions).to_have_text(["Hello"])


def test_a_deleted_chat_comes_back_where_it_was(chat: Chat) -> None:
    chat.ask("Hello")
    chat.button("Delete chat").click()
    chat.button("Undo").click()
    expect(chat.questions).to_have_text(["Hello"])
    chat.page.reload()
    expect(chat.questions).to_have_text(["Hello"])


def test_what_two_tabs_say_in_one_chat_is_kept(chat: Chat) -> None:
    chat.ask("Hello")
    chat.send("endless")
    expect(chat.answers.last).to_contain_text("on and on")
    other = other_tab(chat)
    field = other.get_by_role("textbox", name="Message", exact=True)
    field.fill("Compare the planets")
    field.press("Enter")
    expect(other.get_by_role("table")).to_be_visible()
    expect(other.get_by_role("button", name="Stop", exact=True)).to_be_hidden()
    chat.button("Stop").click()
    expect(chat.button("Stop")).to_be_hidden()
    said = [node["content"] for node in chat.page.evaluate(STORED) if node["role"] == "user"]
    assert sorted(said) == ["Compare the planets", "Hello", "endless"]
    chat.page.reload()
    expect(chat.page.get_by_role("table")).to_be_visible()


def test_a_chat_deleted_in_another_tab_stays_deleted(chat: Chat, server: Server) -> None:
    chat.send("endless")
    expect(chat.answers.last).to_contain_text("on and on")
    other_tab(chat).get_by_role("button", name="Delete chat").click()
    expect(chat.questions).to_have_count(0)
    server.wait_for_health(10, live_rows=0)
    assert chat.page.evaluate(STORED) == []


def test_what_another_tab_keeps_takes_no_chat_away(chat: Chat) -> None:
    full = "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); }"
    chat.page.evaluate(f"() => {{ {full} }}")
    chat.ask("Hello")
    expect(chat.banner).to_contain_text("no room left")
    other = other_tab(chat)
    other.evaluate("localStorage.setItem('mashbox.chat.x', 'no chat')")
    other.get_by_role("textbox", name="Message", exact=True).fill("Compare the planets")
    other.keyboard.press("Enter")
    expect(chat.title("Compare the planets")).to_be_visible()
    expect(chat.title("Hello")).to_be_visible()
    expect(chat.questions).to_have_text(["Hello"])


@pytest.mark.parametrize("text", WRONG_SETTINGS)
def test_settings_that_are_none_are_passed_over(chat: Chat, text: str) -> None:
    chat.page.evaluate("(text) => localStorage.setItem('mashbox.settings', text)", text)
    chat.page.reload()
    expect(chat.ask("Hello")).to_contain_text(TEXT)
    chat.button("Settings").click()
    expect(chat.page.get_by_label("System prompt")).to_be_empty()


def test_the_header_names_the_model_that_answers_now(chat: Chat) -> None:
    chat.page.route(
        "**/v1/models",
        lambda route: route.fulfill(json={"data": [{"id": "former", "max_model_len": 1000}]}),
    )
    chat.page.reload()
    expect(chat.page.locator("header")).to_contain_text("former")
    chat.page.unroute("**/v1/models")
    chat.ask("Hello")
    expect(chat.page.locator("header")).not_to_contain_text("former")
    expect(chat.page.locator("header")).to_contain_text("mock")


def test_text_from_right_to_left_begins_at_the_right(chat: Chat) -> None:
    hebrew = "שלום עולם"
    text = f"{hebrew}\n\n```\ncode\n```"
    answer = chat.ask(hebrew + directive(parts=[{"text": text}]))
    direction = "node => getComputedStyle(node).direction"
    assert chat.questions.locator(".said").evaluate(direction) == "rtl"
    assert answer.get_by_text(hebrew).evaluate(direction) == "rtl"
    assert answer.locator("pre").evaluate(direction) == "ltr"


def test_paper_shows_the_whole_conversation(chat: Chat) -> None:
    chat.ask("lines")
    chat.page.emulate_media(media="print")
    height = chat.page.evaluate("document.documentElement.scrollHeight")
    box = chat.answers.bounding_box()
    assert box and height > box["height"] > 1500
    expect(chat.composer).to_be_hidden()
    expect(chat.button("New chat")).to_be_hidden()


def test_a_browser_that_keeps_nothing_chats_all_the_same(chat: Chat) -> None:
    chat.page.add_init_script(BLOCKED)
    chat.page.reload()
    expect(chat.ask("Hello")).to_contain_text(TEXT)
    chat.begin_anew()
    chat.title("Hello").click()
    expect(chat.answers.last).to_contain_text(TEXT)
