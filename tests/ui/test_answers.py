"""How an answer comes in: text, thinking, tool calls, and what it says of itself."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.e2e.scripts import TEXT, THOUGHT
from tests.e2e.server import HTTP, Server
from tests.ui.answers import CODE
from tests.ui.chat import Chat

pytestmark = pytest.mark.ui

GROWN = "([node, length]) => node.innerText.length > length"


def running(server: Server) -> float:
    """How many requests hold a slot."""
    text = HTTP.get(server.url + "/metrics").text
    found = re.search(r"^\S*num_requests_running\S* (\S+)$", text, re.MULTILINE)
    assert found, text
    return float(found[1])


def test_a_question_is_answered(chat: Chat) -> None:
    answer = chat.ask("Hello?")
    expect(chat.questions).to_contain_text("Hello?")
    expect(answer).to_contain_text(TEXT)
    expect(chat.composer).to_be_empty()


def test_text_shows_while_it_comes(chat: Chat) -> None:
    chat.send("endless")
    answer = chat.answers.last
    for _ in range(3):
        length = len(answer.inner_text())
        chat.page.wait_for_function(GROWN, arg=[answer.element_handle(), length])
        expect(chat.button("Stop")).to_be_visible()
    chat.button("Stop").click()


def test_the_pace_shows_while_it_comes(chat: Chat) -> None:
    chat.send("endless")
    expect(chat.timings).to_contain_text("tok/s")
    expect(chat.button("Stop")).to_be_visible()
    chat.button("Stop").click()


def test_stop_frees_the_slot_and_keeps_the_text(chat: Chat, server: Server) -> None:
    server.wait_for_health(10, live_rows=0)
    chat.send("endless")
    expect(chat.answers.last).to_contain_text("on and on on")
    assert running(server) == 1
    chat.button("Stop").click()
    expect(chat.button("Stop")).to_be_hidden()
    server.wait_for_health(10, live_rows=0)
    assert running(server) == 0
    expect(chat.answers.last).to_contain_text("on and on on")
    expect(chat.ask("And now?")).to_contain_text(TEXT)


def test_tables_lists_and_emphasis_are_elements(chat: Chat) -> None:
    answer = chat.ask("Compare the planets")
    table = answer.get_by_role("table")
    expect(table.get_by_role("row")).to_have_count(5)
    expect(table.get_by_role("columnheader")).to_have_text(
        ["Planet", "Radius (km)", "Day (hours)", "Moons"]
    )
    expect(table.get_by_role("cell", name="6371")).to_be_visible()
    expect(answer.locator("ol > li")).to_have_count(3)
    expect(answer.locator("ol ul > li")).to_have_count(2)
    for selector, text in {"strong": "inner", "em": "backwards", "del": "three"}.items():
        expect(answer.locator(selector)).to_have_text(text)
    expect(answer.locator("blockquote")).to_contain_text("noon to noon")


def test_links_open_elsewhere_and_tell_nothing(chat: Chat) -> None:
    link = chat.ask("Compare the planets").get_by_role("link", name="the list")
    expect(link).to_have_attribute("href", "https://example.org/planets")
    expect(link).to_have_attribute("target", "_blank")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")


def test_a_link_whose_address_comes_later_is_a_link(chat: Chat) -> None:
    text = "See [the list] and more.\n\nIt is long.\n\n[the list]: https://example.org/planets"
    script = {"parts": [{"text": text}], "token_delay_ms": 30}
    answer = chat.ask(f"Where?\n#!mock {json.dumps(script)}")
    expect(answer.get_by_role("link", name="the list")).to_be_visible()


def test_code_is_highlighted_by_its_language(chat: Chat) -> None:
    blocks = chat.ask("Show me code").locator("pre")
    expect(blocks).to_have_count(3)
    expect(blocks.nth(0).locator(".hljs-keyword").first).to_have_text("def")
    expect(blocks.nth(1).locator(".hljs-literal").first).to_have_text("true")
    expect(blocks.nth(2).locator("[class^=hljs-]")).to_have_count(0)
    expect(chat.answers.last).to_contain_text("python")


def test_code_and_whole_answers_are_copied_as_they_were_written(chat: Chat) -> None:
    chat.visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    answer = chat.ask("Show me code")
    clipboard = "navigator.clipboard.readText()"
    answer.get_by_role("button", name="Copy code", exact=True).first.click()
    copied = CODE.split("```python\n")[1].split("```")[0]
    chat.page.wait_for_function(
        f"async (text) => (await {clipboard}).trim() === text", arg=copied.strip()
    )
    answer.hover()
    answer.get_by_role("button", name="Copy message", exact=True).click()
    chat.page.wait_for_function(
        f"async (text) => (await {clipboard}).trim() === text", arg=CODE.strip()
    )


def test_thinking_is_open_while_it_lasts(chat: Chat) -> None:
    chat.send("ponder")
    expect(chat.thinking).to_have_attribute("open", "")
    expect(chat.thinking.locator("summary")).to_contain_text("Thinking…")
    expect(chat.thinking).to_contain_text("Hm, and then again, Hm")
    chat.button("Stop").click()


def test_thinking_folds_and_tells_how_long_it_took(chat: Chat) -> None:
    answer = chat.ask("Hello?")
    summary = chat.thinking.locator("summary")
    expect(summary).to_have_text(re.compile(r"Thought for \d+\.\d s"))
    expect(chat.thinking.get_by_text(THOUGHT)).to_be_hidden()
    summary.click()
    expect(chat.thinking.get_by_text(THOUGHT)).to_be_visible()
    expect(answer.get_by_text(TEXT)).to_be_visible()


def test_a_tool_call_shows_its_name_and_arguments(chat: Chat) -> None:
    chat.with_tools("get_weather")
    chat.send("How is the weather?")
    expect(chat.tool.locator("summary")).to_contain_text("get_weather")
    chat.wait_until_done()
    if chat.tool.get_attribute("open") is None:
        chat.tool.locator("summary").click()
    expect(chat.tool).to_contain_text(re.compile(r'"city":\s*"Rome"'))
    expect(chat.tool).to_contain_text(re.compile(r'"days":\s*3'))


def test_an_answer_tells_its_tokens_and_pace(chat: Chat) -> None:
    chat.ask("Hello?")
    chat.ask("Hello again?")
    expect(chat.timings.last).to_have_text(
        re.compile(r"^\d+ tokens · [\d.,]+ tok/s · first token \d+\.\d\d s( · \d+ cached)?$")
    )


def test_an_answer_cut_at_its_limit_says_so(chat: Chat) -> None:
    chat.button("Settings").click()
    chat.page.get_by_label("Max tokens").fill("12")
    chat.page.keyboard.press("Escape")
    chat.ask("endless")
    expect(chat.answers.last).to_contain_text(re.compile("limit|length|max", re.IGNORECASE))
