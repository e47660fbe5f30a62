"""Nothing that a model, a tool or a file says becomes code, markup of its own, or a request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.scripts import Json
from tests.ui.chat import Chat
from tests.ui.payloads import PAYLOADS

pytestmark = pytest.mark.ui

# What no text may bring onto the page: elements, attributes, links to anywhere but the web.
FOUND = """() => {
  const forbidden = "script, style, link, meta, base, iframe, object, embed, form[action], math, " +
    "video, audio, source, noscript, img, foreignObject, a[id], [style*='url'], [srcdoc]";
  const found = [
    ...document.querySelectorAll("#app :is(" + forbidden + ")"),
    ...document.querySelectorAll("body > :not(#app, noscript)"),
    ...[...document.querySelectorAll("*")].filter((node) =>
      [...node.attributes].some(({ name }) => name.startsWith("on") || name.includes("xlink"))),
    ...[...document.querySelectorAll("a[href]")].filter((node) =>
      !/^(https?|mailto):/.test(node.getAttribute("href"))),
  ];
  return found.map((node) => node.outerHTML.slice(0, 200));
}"""


def assert_harmless(page: Page) -> None:
    """What runs or asks other origins is a fault of the visit; here is what waits for a click."""
    assert page.evaluate(FOUND) == []


def test_what_is_said_stays_text(chat: Chat) -> None:
    said = "\n\n".join(PAYLOADS)
    answer = json.dumps({"parts": [{"reasoning": said}, {"text": said}]})
    chat.ask(f"{said}\n#!mock {answer}")
    chat.thinking.locator("summary").click()
    expect(chat.thinking).to_have_attribute("open", "")
    assert_harmless(chat.page)


def conversation(texts: list[str]) -> Json:
    """An exported chat in which each text is asked, thought and answered."""
    nodes: dict[str, Json] = {}
    for text in texts:
        for role in ("user", "assistant"):
            node = {"parent": next(reversed(nodes), None), "role": role, "content": text}
            nodes[f"n{len(nodes)}"] = {**node, "reasoning": text, "thoughtMs": 1}
    chat = {"id": "a", "title": "Payloads", "leaf": next(reversed(nodes)), "nodes": nodes}
    return {"format": "mashbox-chats", "version": 1, "chats": [chat]}


def test_each_text_alone_stays_text(chat: Chat) -> None:
    chat.import_file(json.dumps(conversation(PAYLOADS)))
    chat.title("Payloads").click()
    expect(chat.answers).to_have_count(len(PAYLOADS))
    chat.unfold()
    expect(chat.page.locator("details[open] .markdown")).to_have_count(len(PAYLOADS))
    assert_harmless(chat.page)


def test_tool_calls_stay_text(chat: Chat) -> None:
    calls = [
        {"tool_call": {"name": " ".join(text.split()), "arguments": {text: [text, {"x": text}]}}}
        for text in PAYLOADS
    ]
    chat.with_tools("real")
    for first in range(0, len(calls), 10):
        chunk = calls[first : first + 10]
        chat.send(f"Call them.\n#!mock {json.dumps({'parts': chunk})}")
        expect(chat.tool).to_have_count(first + len(chunk))
        chat.wait_until_done()
    expect(chat.tool.first).to_contain_text("<script>")
    chat.unfold()
    assert_harmless(chat.page)


def replaced(value: Any, old: str, new: str) -> Any:
    """The same JSON value with one of its strings replaced everywhere."""
    if isinstance(value, dict):
        return {key: replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, old, new) for item in value]
    return new if value == old else value


def test_imported_chats_stay_text(chat: Chat) -> None:
    chat.ask("Compare the planets")
    chats = chat.exported()
    wicked = json.dumps(chats)
    for old in {text for text in strings(chats) if len(text) > 15}:
        wicked = json.dumps(replaced(json.loads(wicked), old, "\n\n".join(PAYLOADS)))
    chat.import_file(wicked)
    for title in chat.title("<script>").all():
        title.click()
        expect(title).to_have_attribute("aria-current", "page")
        assert_harmless(chat.page)
    assert_harmless(chat.page)


def strings(value: Any) -> list[str]:
    """All strings of a JSON value."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


def test_a_link_cannot_hide_its_address_in_the_page(chat: Chat) -> None:
    text = "[a](//evil.example) [b](/v1/models) [c](https://ok.example) [d](mailto:a@b.example)"
    answer = chat.ask(f"Links.\n#!mock {json.dumps({'parts': [{'text': text}]})}")
    for link in answer.get_by_role("link").all():
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    expect(answer.get_by_role("link", name="c")).to_be_visible()


def test_the_policy_holds_what_would_slip_through(chat: Chat) -> None:
    chat.visit.allow("Content Security Policy")
    ran = chat.page.evaluate(
        """async () => {
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.body.append(script);
          return Boolean(window.ran);
        }"""
    )
    assert not ran
    asked = chat.page.evaluate(
        "fetch('https://evil.example/').then(() => 'answered', (error) => error.name)"
    )
    assert asked == "TypeError"
