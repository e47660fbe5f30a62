"""The settings: what they send, and that they last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.scripts import TEXT
from tests.ui.chat import Chat
from tests.ui.test_security import exported, import_file

pytestmark = pytest.mark.ui

SET = {
    "Temperature": ("0.4", "temperature", 0.4),
    "Top P": ("0.8", "top_p", 0.8),
    "Top K": ("30", "top_k", 30),
    "Min P": ("0.1", "min_p", 0.1),
    "Max tokens": ("200", "max_tokens", 200),
    "Seed": ("7", "seed", 7),
}


def open_settings(chat: Chat) -> None:
    chat.button("Settings").click()
    expect(chat.page.get_by_label("Temperature")).to_be_visible()


def close_settings(chat: Chat) -> None:
    chat.page.keyboard.press("Escape")
    expect(chat.page.get_by_label("Temperature")).to_be_hidden()


def test_defaults_are_the_servers(chat: Chat) -> None:
    bodies = chat.record_requests()
    chat.ask("Hello")
    assert not {field for _, field, _ in SET.values()} & set(bodies[0])
    assert [m["role"] for m in bodies[0]["messages"]] == ["user"]


def test_what_is_set_is_sent_and_lasts(chat: Chat) -> None:
    open_settings(chat)
    chat.page.get_by_label("System prompt").fill("Be brief.")
    for label, (text, _, _) in SET.items():
        field = chat.page.get_by_label(label, exact=True)
        field.press_sequentially(text)
        expect(field).to_have_value(text)
    close_settings(chat)
    chat.page.reload()
    bodies = chat.record_requests()
    chat.ask("Hello")
    assert {field: bodies[0].get(field) for _, field, _ in SET.values()} == {
        field: value for _, field, value in SET.values()
    }
    assert bodies[0]["messages"][0] == {"role": "system", "content": "Be brief."}


def test_reset_goes_back_to_the_servers_defaults(chat: Chat) -> None:
    open_settings(chat)
    chat.page.get_by_label("Temperature", exact=True).fill("1.5")
    chat.button("Reset").click()
    expect(chat.page.get_by_label("Temperature", exact=True)).to_be_empty()
    close_settings(chat)
    bodies = chat.record_requests()
    chat.ask("Hello")
    assert "temperature" not in bodies[0]


def test_a_value_out_of_bounds_is_marked_and_not_sent(chat: Chat) -> None:
    open_settings(chat)
    field = chat.page.get_by_label("Temperature", exact=True)
    field.press_sequentially("99")
    expect(field).to_have_value("99")
    expect(field).to_have_js_property("validity.valid", False)
    close_settings(chat)
    bodies = chat.record_requests()
    chat.ask("Hello")
    assert "temperature" not in bodies[0]


def test_exported_chats_come_back_in_another_browser(chat: Chat, tmp_path: Path) -> None:
    chat.ask("Compare the planets")
    chat.button("New chat").click()
    chat.ask("Hello")
    log = chat.log.inner_text()
    chats = exported(chat)
    chat.page.evaluate("localStorage.clear()")
    chat.page.reload()
    expect(chat.title("Hello")).to_have_count(0)
    import_file(chat, json.dumps(chats))
    chat.title("Hello").first.click()
    expect(chat.answers).to_contain_text([TEXT])
    assert chat.log.inner_text() == log
    expect(chat.title("Compare the planets").first).to_be_visible()
    assert exported(chat) == chats


@pytest.mark.parametrize(
    "content",
    [
        "no JSON",
        "{}",
        "[]",
        "null",
        '{"chats": [null, 1, "x", {}]}',
        '{"conversations": {"__proto__": {"polluted": 1}}}',
        '[{"id": 1, "title": {}, "messages": [{"role": "user"}, {"role": "x", "content": []}]}]',
    ],
)
def test_a_wrong_file_is_refused_in_words(chat: Chat, content: str) -> None:
    chat.ask("Hello")
    import_file(chat, content)
    expect(chat.banner).to_contain_text("import")
    chat.page.reload()
    expect(chat.title("Hello").first).to_be_visible()
    assert chat.page.evaluate("({}).polluted") is None


FILL = """() => {
  let size = 1 << 20, count = 0;
  while (size >= 1) {
    try { localStorage.setItem(`junk${count++}`, "x".repeat(size)); } catch { size >>= 1; }
  }
}"""


def test_a_full_storage_is_told_and_chatting_goes_on(chat: Chat) -> None:
    chat.page.evaluate(FILL)
    expect(chat.ask("Hello")).to_contain_text(TEXT)
    expect(chat.banner).to_contain_text("no room left")
    expect(chat.ask("Compare the planets").get_by_role("table")).to_be_visible()
