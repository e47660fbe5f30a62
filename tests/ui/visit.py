"""One visit of the page in a browser context of its own, watched for what must not happen."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Request, WebError

SCREENSHOTS = Path(__file__).parent / "screenshots"
# What stays in the browser; everything else has to be the page's origin.
_INSIDE = ("data:", "blob:")


class Visit:
    """A browser context with one page; leaving it fails if there were faults.

    Faults are requests to other origins, errors and warnings in the console, exceptions, dialogs.
    """

    def __init__(self, browser: Browser, url: str, options: dict[str, Any]) -> None:
        self.url = url
        self.faults: list[str] = []
        self.failure: Callable[[], str] = lambda: ""
        self._allowed: list[str] = []
        self.context = browser.new_context(**options)
        self.context.on("request", self._see_request)
        self.context.on("console", self._see_message)
        self.context.on("weberror", self._see_exception)
        self.context.on("dialog", self._see_dialog)
        self.page = self.context.new_page()

    def allow(self, pattern: str) -> None:
        """Take console messages that match this as the browser's own report of a refusal."""
        self._allowed.append(pattern)

    def screenshot(self, name: str) -> None:
        """Keep a picture of the page."""
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")

    def _see_request(self, request: Request) -> None:
        if not request.url.startswith((self.url + "/", *_INSIDE)):
            self.faults.append(f"request to {request.url}")

    def _see_message(self, message: ConsoleMessage) -> None:
        allowed = any(re.search(pattern, message.text) for pattern in self._allowed)
        if message.type in ("error", "warning") and not allowed:
            self.faults.append(f"console {message.type}: {message.text}")

    def _see_exception(self, error: WebError) -> None:
        self.faults.append(f"exception: {error.error}")

    def _see_dialog(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def __enter__(self) -> Visit:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if name := self.failure():
            self.screenshot(f"failed-{re.sub(r'[^a-z0-9_]+', '-', name)}")
        self.context.close()
        assert not self.faults, "\n".join(self.faults)
