"""The contract tests of a night: many random cases, each night others (`tox -e nightly`).

A failure prints the request that shows it; the name of its test ends with the seed. Boundary values
are left out: they are the same every night, and each run of CI tries them.
"""

from __future__ import annotations

import random

import pytest

from mashbox.app import create_app
from tests.contract.fuzz import STREAMED, fuzz, served
from tests.e2e.server import Server
from tests.handlers.scripted_engine import ScriptedEngine, text_events

# Many short tests rather than few long ones: pytest ends a run in which one hangs for ten minutes.
EXAMPLES = 250
SEEDS = [random.randrange(1, 2**31) for _ in range(32)]


@pytest.mark.parametrize("seed", SEEDS[:24])
def test_the_application_keeps_the_contract(seed: int) -> None:
    with served(create_app(ScriptedEngine(text_events("Hel", "lo")))) as url:
        findings = fuzz(url, max_examples=EXAMPLES, seed=seed, coverage=False)
    assert findings.failures == {}
    assert findings.errors == []
    assert min(findings.streams[label] for label in STREAMED) >= EXAMPLES / 10


@pytest.mark.parametrize("seed", SEEDS[24:])
def test_a_real_server_keeps_the_contract(seed: int) -> None:
    with Server("mock") as server:
        findings = fuzz(server.wait_ready().url, max_examples=EXAMPLES, seed=seed, coverage=False)
        assert server.health()["worker_restarts"] == 0
    assert findings.failures == {}
    assert findings.errors == []
