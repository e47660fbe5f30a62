"""Conversations: kept, found, renamed, deleted, edited, answered again."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from tests.e2e.scripts import TEXT
from tests.ui.chat import COMPLETIONS, Chat

pytestmark = pytest.mark.ui


def message(chat: Chat, name: str) -> None:
    """Press a button of the last message that has it."""
    article = chat.page.locator("article").filter(has=chat.button(name)).last
    article.hover()
    article.get_by_role("button", name=name, exact=True).click()


def test_a_reload_keeps_the_conversation(chat: Chat) -> None:
    chat.ask("Compare the planets")
    chat.ask("Thanks, and hello")
    before = chat.log.inner_text()
    chat.page.reload()
    if not chat.questions.count():
        chat.title("Compare the planets").first.click()
    expect(chat.questions).to_have_count(2)
    expect(chat.answers.first.get_by_role("table")).to_be_visible()
    assert chat.log.inner_text() == before
    expect(chat.thinking.first.locator("summary")).to_have_text(re.compile("Thought for"))


def test_what_was_said_before_is_sent_along(chat: Chat) -> None:
    chat.ask("Show me code")
    bodies = chat.record_requests()
    chat.ask("Hello again")
    said = [(m["role"], m["content"][:12]) for m in bodies[0]["messages"]]
    assert said == [
        ("user", "Show me code"),
        ("assistant", "## Greeting\n"),
        ("user", "Hello again"),
    ]
    assert bodies[0]["stream"] is True


def test_a_new_chat_is_empty_and_is_named_by_its_first_words(chat: Chat) -> None:
    chat.ask("Tell me something about the moons of Jupiter")
    chat.begin_anew()
    expect(chat.composer).to_be_focused()
    bodies = chat.record_requests()
    chat.ask("Hello there")
    assert [m["content"] for m in bodies[0]["messages"]] == ["Hello there"]
    expect(chat.title(re.compile("^Hello there"))).to_be_visible()
    chat.title(re.compile("^Tell me something")).first.click()
    expect(chat.questions).to_have_text(re.compile("moons of Jupiter"))


def test_chats_are_found_by_search(chat: Chat) -> None:
    for text in ("About apples", "About pears"):
        chat.ask(text)
        chat.begin_anew()
    chat.box("Search chats").fill("PEAR")
    expect(chat.title(re.compile("^About pears"))).to_be_visible()
    expect(chat.title(re.compile("^About apples"))).to_be_hidden()
    chat.box("Search chats").fill("")
    expect(chat.title(re.compile("^About apples"))).to_be_visible()


def test_a_chat_is_renamed(chat: Chat) -> None:
    chat.ask("Hello")
    chat.chats.get_by_role("listitem").first.hover()
    chat.chats.get_by_role("button", name=re.compile("^Rename chat")).first.click()
    expect(chat.box("Chat title")).to_be_focused()
    chat.page.keyboard.press("Control+a")
    chat.page.keyboard.type("My first chat")
    chat.page.keyboard.press("Enter")
    expect(chat.title("My first chat").first).to_be_visible()
    chat.chats.get_by_role("button", name=re.compile("^Rename chat")).first.click()
    expect(chat.box("Chat title")).to_be_focused()
    chat.page.keyboard.type("Never mind")
    chat.page.keyboard.press("Escape")
    expect(chat.title("Never mind")).to_have_count(0)
    chat.page.reload()
    expect(chat.title("My first chat").first).to_be_visible()


def test_a_deleted_chat_is_gone(chat: Chat) -> None:
    chat.ask("A secret question")
    chat.chats.get_by_role("listitem").first.hover()
    chat.chats.get_by_role("button", name=re.compile("^Delete chat")).first.click()
    expect(chat.title(re.compile("^A secret"))).to_have_count(0)
    expect(chat.questions).to_have_count(0)
    chat.page.reload()
    expect(chat.title(re.compile("^A secret"))).to_have_count(0)
    assert "secret" not in chat.page.evaluate("JSON.stringify(localStorage)")


def test_an_edited_message_is_answered_anew(chat: Chat) -> None:
    chat.ask("Compare the planets")
    chat.ask("Hello")
    chat.questions.first.hover()
    chat.questions.first.get_by_role("button", name="Edit message", exact=True).click()
    box = chat.box("Edit message")
    expect(box).to_have_value("Compare the planets")
    box.fill("Show me code")
    bodies = chat.record_requests()
    chat.button("Save and send").click()
    expect(chat.answers).to_have_count(1)
    chat.wait_until_done()
    expect(chat.answers.last).to_contain_text("Greeting")
    expect(chat.questions).to_have_text([re.compile("Show me code")])
    assert [m["content"] for m in bodies[0]["messages"]] == ["Show me code"]


def test_a_cancelled_edit_changes_nothing(chat: Chat) -> None:
    chat.ask("Hello")
    message(chat, "Edit message")
    chat.box("Edit message").fill("Something else")
    chat.button("Cancel").click()
    expect(chat.questions).to_have_text([re.compile("Hello")])
    expect(chat.answers).to_contain_text([TEXT])


def ask_for_code_instead(route: Route) -> None:
    """The script answers a request the same each time; this makes the next one another."""
    body = route.request.post_data_json
    body["messages"][-1]["content"] = "Show me code"
    route.continue_(post_data=body)


def test_regenerate_asks_the_same_again_and_keeps_both_answers(chat: Chat) -> None:
    chat.ask("Hello")
    chat.page.route(COMPLETIONS, ask_for_code_instead)
    bodies = chat.record_requests()
    message(chat, "Regenerate")
    expect(chat.answers.last).to_contain_text("Greeting")
    chat.wait_until_done()
    assert [m["content"] for m in bodies[0]["messages"]] == ["Hello"]
    expect(chat.answers).to_have_count(1)
    chat.answers.last.hover()
    chat.button("Previous version").click()
    expect(chat.answers.last).to_contain_text(TEXT)
    expect(chat.answers.last).to_contain_text(re.compile(r"1\s*/\s*2"))
    chat.button("Next version").click()
    expect(chat.answers.last).to_contain_text("Greeting")


def test_an_answer_goes_on_while_another_chat_is_open(chat: Chat) -> None:
    chat.send("endless")
    expect(chat.answers.last).to_contain_text("on and on")
    chat.begin_anew()
    expect(chat.button("Stop")).to_be_hidden()
    running = chat.chats.get_by_title("An answer is on its way")
    expect(running).to_have_count(1)
    expect(chat.ask("Hello")).to_contain_text(TEXT)
    chat.title("endless").click()
    expect(chat.answers.last).to_contain_text("on and on")
    chat.button("Stop").click()
    expect(chat.button("Stop")).to_be_hidden()
    expect(running).to_have_count(0)


def test_a_chat_shows_in_another_tab(chat: Chat) -> None:
    other = chat.visit.context.new_page()
    other.goto(chat.visit.url)
    chat.ask("Hello")
    title = other.get_by_role("navigation", name="Chats").get_by_role("button", name="Hello")
    expect(title).to_be_visible()
    title.click()
    expect(other.locator('article[data-role="assistant"]')).to_contain_text(TEXT)
