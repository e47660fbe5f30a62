"""The settings: what they send, and that they last."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.scripts import TEXT
from tests.ui.chat import Chat

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


SPOILT = {"system": 1, "thinking": {}, "tools": [1], "temperature": "hot", "top_k": 30, "x": 1}


def test_kept_settings_of_the_wrong_type_are_passed_over(chat: Chat) -> None:
    keep = "(settings) => localStorage.setItem('mashbox.settings', JSON.stringify(settings))"
    chat.page.evaluate(keep, SPOILT)
    chat.page.reload()
    bodies = chat.record_requests()
    expect(chat.ask("Hello")).to_contain_text(TEXT)
    assert {"messages", "stream", "stream_options", "top_k"} == set(bodies[0])
    assert [m["role"] for m in bodies[0]["messages"]] == ["user"]


def told(chats: Any) -> list[Any]:
    """What exported chats tell: an import gives new ids, and fills in empty fields."""
    said = ("parent", "role", "content", "reasoning", "thoughtMs", "finish")
    return [
        [chat["title"], chat["created"], chat["updated"], chat["leaf"]]
        + [[node.get(name) or "" for name in said] for node in chat["nodes"].values()]
        for chat in chats["chats"]
    ]


def test_exported_chats_come_back_in_another_browser(chat: Chat) -> None:
    chat.ask("Compare the planets")
    chat.begin_anew()
    chat.ask("Hello")
    log = chat.log.inner_text()
    chats = chat.exported()
    chat.page.evaluate("localStorage.clear()")
    chat.page.reload()
    expect(chat.title("Hello")).to_have_count(0)
    chat.import_file(json.dumps(chats))
    chat.title("Hello").click()
    expect(chat.answers).to_contain_text([TEXT])
    assert chat.log.inner_text() == log
    expect(chat.title("Compare the planets")).to_be_visible()
    assert told(chat.exported()) == told(chats)


def test_an_import_overwrites_nothing(chat: Chat) -> None:
    chat.ask("Hello")
    chat.import_file(json.dumps(chat.exported()))
    expect(chat.title("Hello")).to_have_count(2)


NO_EXPORTS = ["no JSON", "{}", "[]", "null", '{"__proto__": {"polluted": 1}}', '{"chats": [{}]}']
NO_CHATS = [None, 1, "x", {}, {"id": 1}, {"id": "a", "nodes": {"b": {"role": "owner"}}}]


# What the page says of a file, without the way there.
IMPORTED = """async (text) => {
  const { imported } = await import("/ui/store.js");
  try { return imported(text).length; } catch (error) { return error.message; }
}"""


def test_wrong_files_are_refused_in_words(chat: Chat) -> None:
    chat.ask("Hello")
    chat.import_file(NO_EXPORTS[0])
    expect(chat.banner).to_contain_text("no exported chats")
    chat.button("Dismiss").click()
    expect(chat.banner).to_be_empty()
    expect(chat.title("Hello")).to_have_count(1)
    damaged = [json.dumps({"format": "mashbox-chats", "chats": [value]}) for value in NO_CHATS]
    for text, words in [(t, "no exported chats") for t in NO_EXPORTS] + [
        (t, "is damaged; nothing was imported") for t in damaged
    ]:
        assert words in str(chat.page.evaluate(IMPORTED, text)), text
    assert chat.page.evaluate("({}).polluted") is None


def spoilt(value: Any, text: str) -> Any:
    """The same JSON value with every number and every null replaced by a text."""
    if isinstance(value, dict):
        return {key: spoilt(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [spoilt(item, text) for item in value]
    return value if isinstance(value, str) else text


def test_a_chat_with_fields_of_the_wrong_type_breaks_nothing(chat: Chat) -> None:
    chat.ask("Hello")
    chats = chat.exported()
    chats["chats"] = spoilt(chats["chats"], "what?")
    for node in chats["chats"][0]["nodes"].values():
        node["calls"] = [None, 1, {"id": 1, "name": [], "arguments": {}}]
    chat.import_file(json.dumps(chats))
    expect(chat.title("Hello")).to_have_count(2)
    chat.page.reload()
    expect(chat.title("Hello")).to_have_count(2)
    for title in chat.title("Hello").all():
        title.click()
        expect(title).to_have_attribute("aria-current", "page")
    expect(chat.ask("And now?")).to_contain_text(TEXT)


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
