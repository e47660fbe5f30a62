"""A browser, servers with the chat page, and visits that leave no trace."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.e2e.scripts import scripted
from tests.e2e.server import Server
from tests.ui.answers import ANSWERS
from tests.ui.chat import Chat
from tests.ui.visit import SCREENSHOTS, Visit

CHROMIUM = Path("/usr/bin/chromium")
# Root may not use Chromium's sandbox; the rest keeps it from calling home.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
FAILED = pytest.StashKey[bool]()
OpenChat = Callable[..., Chat]

expect.set_options(timeout=30_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield
    item.stash[FAILED] = report.failed
    return report


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        # In CI a missing browser is a fault.
        tell: Callable[[str], Any] = pytest.fail if os.environ.get("CI") else pytest.skip
        tell(f"{CHROMIUM} is missing; install Debian's package chromium")
    SCREENSHOTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that follows ANSWERS; tests leave it as it was."""
    folder = tmp_path_factory.mktemp("script")
    with scripted(folder, *ANSWERS, options=("--ui",)) as running:
        yield running


@pytest.fixture
def open_chat(browser: Browser, request: pytest.FixtureRequest) -> Iterator[OpenChat]:
    """Open a server's page in a new browser context; fails if a visit leaves faults."""
    with ExitStack() as visits:

        def open_page(url: str, **options: Any) -> Chat:
            visit = visits.enter_context(Visit(browser, url, options))
            visit.failure = lambda: request.node.name if request.node.stash[FAILED] else ""
            return Chat(visit)

        yield open_page


@pytest.fixture
def chat(open_chat: OpenChat, server: Server) -> Chat:
    """The page of `server`, ready for a message."""
    opened = open_chat(server.url)
    opened.page.goto(server.url)
    return opened
