from __future__ import annotations

import pytest

from engine.errors import QueueFull
from generated.routes import OPERATIONS
from handlers.api_keys import key_digest
from mashbox.app import create_app
from tests.contract.fuzz import CHAT, Findings, fuzz
from tests.handlers.scripted_engine import ScriptedEngine, text_events

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def findings() -> Findings:
    return fuzz(create_app(ScriptedEngine(text_events("Hel", "lo"))), max_examples=150)


def test_the_application_keeps_the_contract(findings: Findings) -> None:
    assert findings.failures == {}
    assert findings.errors == []


def test_every_operation_was_tried_with_good_and_bad_requests(findings: Findings) -> None:
    assert set(findings.cases) == {f"{o.method} {o.path}" for o in OPERATIONS}
    assert min(findings.cases.values()) >= 3
    assert findings.cases[CHAT] >= 400
    assert findings.statuses[CHAT, 200] >= 150
    assert findings.statuses[CHAT, 400] >= 200
    assert findings.streams >= 50


def test_a_full_queue_keeps_the_contract_too() -> None:
    engine = ScriptedEngine(QueueFull("32 requests are waiting already.", 3, tenant_limit=True))
    findings = fuzz(create_app(engine), max_examples=5)
    assert findings.failures == {}
    assert findings.statuses[CHAT, 429] >= 100


def test_a_server_with_keys_answers_nobody_without_one() -> None:
    engine = ScriptedEngine(text_events("Hel", "lo"))
    app = create_app(engine, tenants={key_digest("k" * 16): "red"})
    findings = fuzz(app, max_examples=5, key="k" * 16)
    assert findings.failures == {}
    assert findings.errors == []
    assert findings.statuses[CHAT, 200] >= 50
    assert findings.statuses[CHAT, 401] >= 1
