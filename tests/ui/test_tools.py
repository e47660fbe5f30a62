"""What developers do with the page: try tools, and take a request to the shell."""

from __future__ import annotations

import json
import subprocess

import pytest
from playwright.sync_api import expect

from tests.ui.chat import Chat

pytestmark = pytest.mark.ui

TOOLS = [{"type": "function", "function": {"name": "get_weather"}}]


def set_tools(chat: Chat, text: str) -> None:
    chat.button("Settings").click()
    chat.page.get_by_label("Tools (JSON)").fill(text)


def test_a_tool_is_offered_called_and_answered(chat: Chat) -> None:
    set_tools(chat, json.dumps(TOOLS))
    chat.page.keyboard.press("Escape")
    bodies = chat.record_requests()
    chat.ask("How is the weather?")
    assert bodies[0]["tools"] == TOOLS
    chat.page.get_by_label("Result of get_weather").fill("25 degrees")
    chat.button("Give results").click()
    expect(chat.answers).to_have_count(2)
    chat.wait_until_done()
    expect(chat.answers.last).to_contain_text("It is warm in Rome.")
    call, result = bodies[1]["messages"][-2:]
    assert result["content"] == "25 degrees"
    assert result["tool_call_id"] == call["tool_calls"][0]["id"]


def test_tools_that_are_no_json_are_told_before_anything_is_sent(chat: Chat) -> None:
    set_tools(chat, "[{")
    expect(chat.page.get_by_label("Tools (JSON)")).to_have_attribute("aria-invalid", "true")
    chat.page.keyboard.press("Escape")
    bodies = chat.record_requests()
    chat.send("How is the weather?")
    expect(chat.error).to_contain_text("not JSON")
    assert not bodies


def test_the_copied_command_gets_the_same_answer(chat: Chat) -> None:
    chat.visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.ask('It\'s about $HOME, "quotes" and `code`\n#!mock {"parts": [{"text": "Right."}]}')
    chat.button("Copy as curl").click()
    read = "async () => (await navigator.clipboard.readText()).startsWith('curl')"
    chat.page.wait_for_function(read)
    command = chat.page.evaluate("navigator.clipboard.readText()")
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30)
    assert '"content":"Right' in ran.stdout
    assert ran.stdout.rstrip().endswith("data: [DONE]")
