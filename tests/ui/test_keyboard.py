"""The page without a mouse."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.scripts import TEXT
from tests.ui.chat import Chat

pytestmark = pytest.mark.ui

# The focused element's name, and whether its focus can be seen.
FOCUSED = """() => {
  const node = document.activeElement;
  const style = getComputedStyle(node);
  const seen = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0)
    || style.boxShadow !== "none"
    || (node.parentElement && getComputedStyle(node.parentElement).boxShadow !== "none");
  const name = node.getAttribute("aria-label") || node.title || node.innerText || node.id;
  return [node === document.body ? "" : name.trim().split("\\n")[0], seen];
}"""


def test_a_conversation_needs_no_mouse(chat: Chat) -> None:
    keyboard = chat.page.keyboard
    expect(chat.composer).to_be_focused()
    keyboard.type("First line")
    keyboard.press("Shift+Enter")
    keyboard.type("second line")
    expect(chat.composer).to_have_value("First line\nsecond line")
    keyboard.press("Enter")
    expect(chat.answers.last).to_contain_text(TEXT)
    chat.wait_until_done()
    expect(chat.composer).to_be_focused()
    keyboard.press("ArrowUp")
    expect(chat.box("Edit message")).to_be_focused()
    keyboard.press("Control+a")
    keyboard.type("Compare the planets")
    keyboard.press("Enter")
    expect(chat.answers.last.get_by_role("table")).to_be_visible()


def test_escape_stops(chat: Chat) -> None:
    chat.send("endless")
    expect(chat.answers.last).to_contain_text("on and on")
    chat.page.keyboard.press("Escape")
    expect(chat.button("Stop")).to_be_hidden()


def test_shortcuts_search_and_begin_anew(chat: Chat) -> None:
    chat.ask("Hello")
    chat.page.keyboard.press("Control+k")
    expect(chat.box("Search chats")).to_be_focused()
    chat.page.keyboard.press("Control+Shift+O")
    expect(chat.questions).to_have_count(0)
    expect(chat.composer).to_be_focused()


def test_an_empty_message_is_not_sent(chat: Chat) -> None:
    chat.send("   ")
    expect(chat.questions).to_have_count(0)


def test_enter_inside_a_composition_does_not_send(chat: Chat) -> None:
    chat.composer.fill("にほん")
    chat.composer.dispatch_event(
        "keydown", {"key": "Enter", "isComposing": True, "keyCode": 229, "bubbles": True}
    )
    expect(chat.questions).to_have_count(0)


def test_every_control_is_reached_and_shows_its_focus(chat: Chat) -> None:
    chat.ask("Show me code")
    names: list[str] = []
    for _ in range(60):
        chat.page.keyboard.press("Tab")
        name, seen = chat.page.evaluate(FOCUSED)
        assert seen or not name, f"the focus of {name} cannot be seen"
        names.append(name)
    wanted = ["New chat", "Settings", "Import", "Export", "Copy code", "Copy message", "Regenerate"]
    assert not [name for name in wanted if not any(name in reached for reached in names)]


def test_settings_keep_the_focus_and_give_it_back(chat: Chat) -> None:
    chat.button("Settings").focus()
    chat.page.keyboard.press("Enter")
    expect(chat.page.get_by_label("System prompt")).to_be_visible()
    for _ in range(20):
        chat.page.keyboard.press("Tab")
        inside = (
            "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
        assert chat.page.evaluate(inside)
    chat.page.keyboard.press("Escape")
    expect(chat.button("Settings")).to_be_focused()
