"""Tests of the contract tests: each fault that is built in here has to be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import generated.models
from engine.errors import QueueFull
from engine.events import Usage
from generated._base import StrictFloat
from generated.models import CompletionRequest, CompletionUsage
from handlers import access, completions, message_encoder, sse
from handlers.errors import ApiError
from handlers.request_ids import RequestIds
from handlers.routes import Routes
from handlers.tenants import key_digest
from mashbox.app import create_app
from tests.contract.fuzz import fuzz, served
from tests.handlers.scripted_engine import ScriptedEngine, Step, text_events

pytestmark = pytest.mark.contract

JUDGED = "every_answer_keeps_the_contract"
COMPLETIONS, MESSAGES = "POST /v1/completions", "POST /v1/messages"
FULL = QueueFull("32 requests are waiting already.", 3, tenant_limit=True)


def failed_checks(
    *scripts: list[Step] | Exception,
    only: str = COMPLETIONS,
    key: str = "",
    around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    coverage: bool = True,
) -> set[str]:
    engine = ScriptedEngine(*scripts or [text_events("Hel", "lo")])
    app = create_app(engine, tenants={key_digest(key): "red"} if key else {})
    with served(around(app)) as url:
        found = fuzz(url, max_examples=20, key=key, only=only, coverage=coverage)
        return set(found.failures)


class NoTemperatureBound(CompletionRequest):
    temperature: StrictFloat | None = 0.0


class LowTemperatureBound(CompletionRequest):
    temperature: Annotated[StrictFloat | None, Field(ge=0, le=2)] = 0.0


def test_a_bound_that_only_the_document_has_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated.models, "CompletionRequest", NoTemperatureBound)
    assert "negative_data_rejection" in failed_checks()


def test_a_bound_that_the_document_lacks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated.models, "CompletionRequest", LowTemperatureBound)
    assert "positive_data_acceptance" in failed_checks()


def test_an_error_of_another_shape_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def response(self: ApiError) -> Response:
        return JSONResponse({"detail": self.message}, self.status, self.headers)

    monkeypatch.setattr(ApiError, "response", response)
    assert {"response_schema_conformance", JUDGED} <= failed_checks(only="GET /v1/models/{model}")


def test_a_status_that_is_not_declared_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    respond = ApiError.response

    def response(self: ApiError) -> Response:
        self.status = 422 if self.status == 404 else self.status
        return respond(self)

    monkeypatch.setattr(ApiError, "response", response)
    found = failed_checks(only="GET /v1/models/{model}")
    assert {"status_code_conformance", JUDGED} <= found


def test_a_content_type_that_is_not_declared_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_models(self: Routes) -> Response:
        return PlainTextResponse("tiny-model")

    monkeypatch.setattr(Routes, "list_models", list_models)
    assert {"content_type_conformance", JUDGED} <= failed_checks(only="GET /v1/models")


def test_a_field_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_models(self: Routes) -> Response:
        return JSONResponse({"data": []})

    monkeypatch.setattr(Routes, "list_models", list_models)
    assert {"response_schema_conformance", JUDGED} <= failed_checks(only="GET /v1/models")


def test_a_bad_event_in_a_stream_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def data(model: BaseModel) -> bytes:
        return b"data: " + model.model_dump_json(exclude={"object"}).encode() + b"\n\n"

    monkeypatch.setattr(completions, "data", data)
    assert {"response_schema_conformance", JUDGED} <= failed_checks()


def test_a_stream_without_its_end_marker_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completions, "DONE", b"")
    assert JUDGED in failed_checks()


def test_events_in_the_wrong_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = message_encoder.MessageEncoder.feed

    def backwards(self: message_encoder.MessageEncoder, event: Any) -> list[bytes]:
        return feed(self, event)[::-1]

    monkeypatch.setattr(message_encoder.MessageEncoder, "feed", backwards)
    assert failed_checks(only=MESSAGES, coverage=False) == {JUDGED}


class Spoiled:
    """The application `app`, in whose answers `old` becomes `new`."""

    def __init__(self, app: ASGIApp, old: bytes, new: bytes) -> None:
        self._app, self._old, self._new = app, old, new

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def spoil(message: Message) -> None:
            if body := message.get("body"):
                message["body"] = body.replace(self._old, self._new)
            await send(message)

        await self._app(scope, receive, spoil)


# Whole answers keep their length.
@pytest.mark.parametrize(
    ("old", "new", "only"),
    [
        (b'"stop_reason":"end_turn"', b'"stop_reason":"tired_of"', MESSAGES),
        (b"event: message_stop", b"event: message_end", MESSAGES),
        (b'"type":"ping"', b'"type":"pong"', MESSAGES),
        (b'"text":"Hello"', b'"text":1234567', "POST /v1/responses"),
        (b'"sequence_number":3', b'"sequence_number":4', "POST /v1/responses"),
        (b'"finish_reason":"stop"', b'"finish_reason":"halt"', "POST /v1/chat/completions"),
        (b'"timings":', b'"minutes":', "POST /v1/chat/completions"),
        (b'"total_tokens":15', b'"total_tokens":16', "POST /v1/chat/completions"),
        (b'"delta":"Hel"', b'"delta":"Hal"', "POST /v1/responses"),
    ],
    ids=[
        "enum",
        "event name",
        "event type",
        "type in an item",
        "count of events",
        "chunk",
        "lost timings",
        "sum",
        "text of another delta",
    ],
)
def test_a_spoiled_value_is_found(old: bytes, new: bytes, only: str) -> None:
    found = failed_checks(only=only, around=lambda app: Spoiled(app, old, new), coverage=False)
    assert JUDGED in found


def test_an_answer_of_another_shape_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def usage(counts: Usage) -> CompletionUsage:
        return CompletionUsage.model_construct(prompt_tokens=-1)

    monkeypatch.setattr(completions, "completion_usage", usage)
    assert {"response_schema_conformance", JUDGED} <= failed_checks()


def test_a_missing_retry_after_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    respond = ApiError.response

    def response(self: ApiError) -> Response:
        self.headers.pop("Retry-After", None)
        return respond(self)

    monkeypatch.setattr(ApiError, "response", response)
    assert {"response_headers_conformance", JUDGED} <= failed_checks(FULL)


def test_a_missing_request_id_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def untagged(self: RequestIds, scope: object, receive: object, send: object) -> None:
        await self._app(scope, receive, send)  # type: ignore[arg-type]

    monkeypatch.setattr(RequestIds, "__call__", untagged)
    assert {"response_headers_conformance", JUDGED} <= failed_checks(only="GET /v1/models")


def test_a_crash_is_found() -> None:
    good = text_events("Hello")
    assert "not_a_server_error" in failed_checks(good, KeyError("inside"), good)


def test_a_stream_that_caches_may_keep_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    start = sse._Wire.start

    async def started(self: sse._Wire, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await start(self, status, [h for h in headers if h[0] != b"cache-control"])

    monkeypatch.setattr(sse._Wire, "start", started)
    assert failed_checks(only=MESSAGES, coverage=False) == {JUDGED}


def test_a_server_that_forgets_its_keys_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "find_tenant", lambda headers, tenants: "red")
    assert "ignored_auth" in failed_checks(only="GET /v1/models", key="k" * 16)
