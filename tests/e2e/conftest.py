"""Servers for all end-to-end tests that do not hurt them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.server import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server("smollm2-135m", "--ctx", "2048", "--slots", "8") as running:
        yield running.wait_ready()


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[Server]:
    """The scripted model with its own script."""
    with Server("mock") as running:
        yield running.wait_ready()
