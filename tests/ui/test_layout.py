"""How the page looks and scrolls, on phones, in the dark, with long answers."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.server import Server
from tests.ui.answers import HUGE
from tests.ui.chat import Chat
from tests.ui.conftest import OpenChat

pytestmark = pytest.mark.ui

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True}
# The box that scrolls the conversation, and how far its end is below what is seen.
SCROLLER = """() => {
  let node = document.querySelector("[role=log]");
  while (node && !/auto|scroll/.test(getComputedStyle(node).overflowY)) node = node.parentElement;
  return node || document.scrollingElement;
}"""
BELOW = f"""() => {{
  const box = ({SCROLLER})();
  return box.scrollHeight - box.clientHeight - box.scrollTop;
}}"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def assert_fits(page: Page, *parts: Locator) -> None:
    """The page does not scroll sideways, and the parts are inside the window."""
    assert page.evaluate(OVERFLOW) <= 0
    for part in parts:
        expect(part).to_be_visible()
        box = part.bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= page.viewport_size["width"]


def below(chat: Chat) -> float:
    return float(chat.page.evaluate(BELOW))


def test_a_phone_shows_everything_without_sideways_scrolling(
    open_chat: OpenChat, server: Server
) -> None:
    chat = open_chat(server.url, **PHONE)
    chat.page.goto(server.url)
    assert_fits(chat.page, chat.composer, chat.button("Send"))
    chat.visit.screenshot("phone-empty")
    chat.ask("Compare the planets")
    assert_fits(chat.page, chat.composer, chat.answers.last)
    chat.visit.screenshot("phone-table")
    chat.ask("Show me code " + "unbrokenword" * 20)
    assert_fits(chat.page, chat.composer, chat.questions.last, chat.answers.last)
    chat.visit.screenshot("phone-code")


def test_a_phone_shows_chats_and_settings_in_turn(open_chat: OpenChat, server: Server) -> None:
    chat = open_chat(server.url, **PHONE)
    chat.page.goto(server.url)
    chat.ask("Hello")
    expect(chat.chats).to_be_hidden()
    chat.button("Show chats").click()
    expect(chat.title("Hello").first).to_be_in_viewport()
    assert_fits(chat.page, chat.button("New chat"))
    chat.visit.screenshot("phone-chats")
    chat.title("Hello").click()
    expect(chat.chats).to_be_hidden()
    chat.button("Settings").click()
    assert_fits(chat.page, chat.page.get_by_label("System prompt"), chat.button("Reset"))
    chat.visit.screenshot("phone-settings")


def test_a_growing_answer_stays_in_view(chat: Chat) -> None:
    chat.page.set_viewport_size({"width": 900, "height": 500})
    chat.ask("lines")
    expect(chat.answers.last.get_by_text("Line 60 of")).to_be_in_viewport()
    assert below(chat) < 40


def test_a_reader_who_scrolled_up_is_left_in_peace(chat: Chat) -> None:
    chat.page.set_viewport_size({"width": 900, "height": 500})
    chat.ask("lines")
    chat.send("endless")
    expect(chat.answers.last).to_contain_text("on and on")
    chat.log.hover()
    chat.page.mouse.wheel(0, -600)
    chat.page.wait_for_function(f"() => ({BELOW})() > 300")
    top = chat.page.evaluate(f"({SCROLLER})().scrollTop")
    grown = "length => document.querySelector('[role=log]').innerText.length > length"
    chat.page.wait_for_function(grown, arg=len(chat.log.inner_text()) + 200)
    assert chat.page.evaluate(f"({SCROLLER})().scrollTop") == top
    chat.button("Jump to latest").click()
    chat.page.wait_for_function(f"() => ({BELOW})() < 40")
    expect(chat.button("Jump to latest")).to_be_hidden()
    chat.page.wait_for_function(grown, arg=len(chat.log.inner_text()) + 200)
    assert below(chat) < 40
    chat.button("Stop").click()


# A network that delivers 200 kB in 2000 pieces within about three seconds, and a clock that keeps
# the longest time between two frames in milliseconds.
FAST_SERVER = """(text) => {
  const real = window.fetch;
  const chunk = (delta, rest) => "data: " + JSON.stringify({choices: [{index: 0, delta}], ...rest});
  window.fetch = (path, options) => {
    if (!String(path).endsWith("chat/completions")) return real(path, options);
    let at = 0;
    const body = new ReadableStream({
      async pull(stream) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        for (const end = at + 1000; at < end && at < text.length; at += 100)
          stream.enqueue(chunk({content: text.slice(at, at + 100)}) + "\\n\\n");
        if (at < text.length) return;
        stream.enqueue(chunk({}, {timings: {predicted_n: 2, queue_ms: 0, prompt_ms: 0}}));
        stream.enqueue("\\n\\ndata: [DONE]\\n\\n");
        stream.close();
      },
    });
    return Promise.resolve(new Response(body.pipeThrough(new TextEncoderStream())));
  };
  let last = performance.now();
  window.longest = 0;
  requestAnimationFrame(function frame(now) {
    window.longest = Math.max(window.longest, now - last);
    last = now;
    requestAnimationFrame(frame);
  });
}"""


def test_a_huge_answer_leaves_the_page_responsive(chat: Chat) -> None:
    chat.page.evaluate(FAST_SERVER, HUGE)
    chat.send("huge")
    expect(chat.timings).to_contain_text("tok/s")
    chat.composer.fill("Typing goes on")
    expect(chat.composer).to_have_value("Typing goes on", timeout=2000)
    # Waiting reads the line below the answer: to read all of its text takes its time too.
    expect(chat.timings).to_contain_text("2 tokens", timeout=60_000)
    assert chat.answers.inner_text().rstrip().count("The very end.") == 1
    assert chat.page.evaluate("window.longest") < 1000


MOTION = """() => [...document.querySelectorAll("*")].filter((node) => {
  const style = getComputedStyle(node);
  const seconds = (text) => Math.max(...text.split(",").map((part) => parseFloat(part)));
  return seconds(style.transitionDuration) > 0.01
    || (style.animationName !== "none" && seconds(style.animationDuration) > 0.01);
}).map((node) => node.outerHTML.slice(0, 100))"""


def test_whoever_wants_no_motion_gets_none(open_chat: OpenChat, server: Server) -> None:
    chat = open_chat(server.url, reduced_motion="reduce")
    chat.page.goto(server.url)
    chat.send("ponder")
    expect(chat.thinking).to_contain_text("and then again")
    assert chat.page.evaluate(MOTION) == []
    chat.button("Stop").click()
    chat.button("Settings").click()
    assert chat.page.evaluate(MOTION) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_systems_colours(
    open_chat: OpenChat, server: Server, scheme: str
) -> None:
    chat = open_chat(server.url, color_scheme=scheme, viewport={"width": 1280, "height": 900})
    chat.page.goto(server.url)
    chat.visit.screenshot(f"{scheme}-empty")
    chat.with_tools("get_weather")
    chat.ask("Show me code")
    chat.visit.screenshot(f"{scheme}-code")
    chat.ask("Compare the planets")
    chat.visit.screenshot(f"{scheme}-table")
    chat.ask("How is the weather?")
    chat.visit.screenshot(f"{scheme}-tool")
    chat.send("ponder")
    expect(chat.thinking.last).to_contain_text("and then again")
    chat.visit.screenshot(f"{scheme}-thinking")
    chat.button("Stop").click()
    chat.button("Settings").click()
    expect(chat.page.get_by_label("Temperature")).to_be_visible()
    chat.visit.screenshot(f"{scheme}-settings")
    colour = chat.page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(json.loads(colour.replace("rgb(", "[").replace(")", "]"))) / 3
    assert (brightness > 128) == (scheme == "light")
