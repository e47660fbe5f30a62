from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import QueueFull
from generated.routes import OPERATIONS
from handlers.tenants import key_digest
from mashbox.app import create_app
from tests.contract.fuzz import CHAT, STREAMED, Findings, fuzz, served
from tests.e2e.server import Server
from tests.handlers.scripted_engine import ScriptedEngine, text_events

pytestmark = pytest.mark.contract

KEY = "k" * 16


@pytest.fixture(scope="module")
def findings() -> Iterator[Findings]:
    with served(create_app(ScriptedEngine(text_events("Hel", "lo")))) as url:
        yield fuzz(url, max_examples=100)


def test_the_application_keeps_the_contract(findings: Findings) -> None:
    assert findings.failures == {}
    assert findings.errors == []


def test_every_operation_was_tried_with_good_and_bad_requests(findings: Findings) -> None:
    assert {f"{o.method} {o.path}" for o in OPERATIONS} <= set(findings.cases)
    assert min(findings.cases.values()) >= 3
    assert findings.cases[CHAT] >= 400
    assert findings.statuses[CHAT, 200] >= 150
    assert findings.statuses[CHAT, 400] >= 200
    assert findings.statuses["GET /v1/models/{model}", 404] >= 5
    assert min(findings.streams[label] for label in STREAMED) >= 20


def test_links_were_followed(findings: Findings) -> None:
    assert findings.linked >= 1


def test_a_full_queue_keeps_the_contract_too() -> None:
    engine = ScriptedEngine(QueueFull("32 requests are waiting already.", 3, tenant_limit=True))
    with served(create_app(engine)) as url:
        for label in STREAMED:
            findings = fuzz(url, max_examples=3, only=label)
            assert findings.failures == {}
            assert findings.statuses[label, 429] >= 50


def test_a_server_with_keys_answers_nobody_without_one() -> None:
    engine = ScriptedEngine(text_events("Hel", "lo"))
    with served(create_app(engine, tenants={key_digest(KEY): "red"})) as url:
        findings = fuzz(url, max_examples=3, key=KEY)
    assert findings.failures == {}
    assert findings.errors == []
    assert findings.statuses[CHAT, 200] >= 50
    assert findings.statuses[CHAT, 401] >= 1


def test_a_real_server_with_a_worker_and_keys_keeps_the_contract(tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text(KEY)
    keys.chmod(0o600)
    with Server("mock", "--api-key-file", str(keys)) as server:
        findings = fuzz(server.wait_ready().url, max_examples=10, key=KEY)
        assert server.health()["worker_restarts"] == 0
    assert findings.failures == {}
    assert findings.errors == []
    assert min(findings.streams[label] for label in STREAMED) >= 1


@pytest.mark.model
def test_a_real_model_keeps_the_contract() -> None:
    with Server("smollm2-135m", "--ctx", "4096") as server:
        # Boundary values would take minutes here; they are tried without weights above.
        findings = fuzz(server.wait_ready().url, max_examples=5, tokens=3, coverage=False)
        assert server.health()["worker_restarts"] == 0
    assert findings.failures == {}
    assert findings.errors == []
    assert min(findings.streams[label] for label in STREAMED) >= 1
