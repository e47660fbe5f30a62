"""Servers for all end-to-end tests that do not hurt them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.judged import judge_transports
from tests.e2e.server import Server


@pytest.fixture(scope="session", autouse=True)
def judged_answers() -> Iterator[None]:
    """What servers answer to these tests is held to the contract."""
    with pytest.MonkeyPatch.context() as patch:
        judge_transports(patch)
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server("smollm2-135m", "--ctx", "2048", "--slots", "8") as running:
        yield running.wait_ready()


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[Server]:
    """The scripted model with its own script."""
    with Server("mock") as running:
        yield running.wait_ready()
