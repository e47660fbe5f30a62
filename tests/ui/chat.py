"""The chat page as its user knows it: by roles, names and labels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, Route, expect

from tests.ui.visit import Visit

COMPLETIONS = "**/v1/chat/completions"


class Chat:
    """What the tests find and do on the page."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.page: Page = visit.page
        page = self.page
        self.composer = page.get_by_role("textbox", name="Message", exact=True)
        self.log = page.get_by_role("log", name="Conversation")
        self.banner = page.get_by_role("status")
        self.questions = page.locator('article[data-role="user"]')
        self.answers = page.locator('article[data-role="assistant"]')
        self.thinking = page.locator('details[data-part="thinking"]')
        self.tool = page.locator('details[data-part="tool"]')
        self.timings = page.locator('[data-part="timings"]')
        self.error = page.get_by_role("alert")
        self.key = page.get_by_label("API key")
        self.chats = page.get_by_role("navigation", name="Chats")

    def button(self, name: str) -> Locator:
        """The buttons of this name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def box(self, name: str) -> Locator:
        """The text box of this name."""
        return self.page.get_by_role("textbox", name=name, exact=True)

    def title(self, name: str | re.Pattern[str]) -> Locator:
        """The button of the conversation with this title."""
        return self.chats.get_by_role("button", name=name)

    def begin_anew(self) -> None:
        """Open a new conversation."""
        self.button("New chat").click()
        expect(self.questions).to_have_count(0)

    def send(self, text: str) -> None:
        """Send a message."""
        self.composer.fill(text)
        self.composer.press("Enter")

    def ask(self, text: str) -> Locator:
        """Send a message and wait for the end of its answer; returns the answer."""
        count = self.answers.count() + 1
        self.send(text)
        expect(self.answers).to_have_count(count)
        self.wait_until_done()
        return self.answers.last

    def wait_until_done(self) -> None:
        """Wait for the end of the answer."""
        expect(self.answers.last.locator('[data-part="timings"]')).to_contain_text("tokens")
        expect(self.button("Stop")).to_be_hidden()

    def unfold(self) -> None:
        """Click all that folds up, at once."""
        click = "document.querySelectorAll('summary').forEach((node) => node.click())"
        self.page.evaluate(click)

    def record_requests(self) -> list[Any]:
        """Collect the bodies of the chat requests from now on."""
        bodies: list[Any] = []

        def record(route: Route) -> None:
            bodies.append(route.request.post_data_json)
            route.fallback()

        self.page.route(COMPLETIONS, record)
        return bodies

    def with_tools(self, *names: str) -> None:
        """Offer these functions in every request from now on."""
        tools = [{"type": "function", "function": {"name": name}} for name in names]

        def add(route: Route) -> None:
            body = {**route.request.post_data_json, "tools": tools}
            route.continue_(post_data=body)

        self.page.route(COMPLETIONS, add)

    def exported(self) -> Any:
        """What the page exports, read from the file."""
        with self.page.expect_download() as download:
            self.button("Export").click()
        return json.loads(Path(download.value.path()).read_text("utf-8"))

    def import_file(self, text: str) -> None:
        """Give the page a file with chats."""
        with self.page.expect_file_chooser() as chooser:
            self.button("Import").click()
        chooser.value.set_files(
            {"name": "chats.json", "mimeType": "application/json", "buffer": text.encode()}
        )
