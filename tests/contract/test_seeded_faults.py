"""Tests of the contract tests: each fault that is built in here has to be found."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

import generated.models
from engine.errors import QueueFull
from engine.events import Usage
from generated._base import StrictFloat
from generated.models import ChatCompletionRequest, ChatUsage
from handlers import access, chat_encoder
from handlers.api_keys import key_digest
from handlers.errors import ApiError
from handlers.request_ids import RequestIds
from mashbox.app import create_app
from tests.contract.fuzz import fuzz
from tests.handlers.scripted_engine import ScriptedEngine, Step, text_events

pytestmark = pytest.mark.contract


def failed_checks(*scripts: list[Step] | Exception) -> set[str]:
    engine = ScriptedEngine(*scripts or [text_events("Hel", "lo")])
    return set(fuzz(create_app(engine), max_examples=5).failures)


class NoTemperatureBound(ChatCompletionRequest):
    temperature: StrictFloat | None = 0.0


class LowTemperatureBound(ChatCompletionRequest):
    temperature: Annotated[StrictFloat | None, Field(ge=0, le=2)] = 0.0


def test_a_bound_that_only_the_document_has_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated.models, "ChatCompletionRequest", NoTemperatureBound)
    assert "negative_data_rejection" in failed_checks()


def test_a_bound_that_the_document_lacks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated.models, "ChatCompletionRequest", LowTemperatureBound)
    assert "positive_data_acceptance" in failed_checks()


def test_an_error_of_another_shape_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def response(self: ApiError) -> Response:
        return JSONResponse({"detail": self.message}, self.status, self.headers)

    monkeypatch.setattr(ApiError, "response", response)
    assert "response_schema_conformance" in failed_checks()


def test_a_bad_event_in_a_stream_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def data(model: BaseModel) -> bytes:
        return b"data: " + model.model_dump_json(exclude={"object"}).encode() + b"\n\n"

    monkeypatch.setattr(chat_encoder, "data", data)
    assert "response_schema_conformance" in failed_checks()


def test_a_stream_without_its_end_marker_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_encoder, "DONE", b"")
    assert "response_schema_conformance" in failed_checks()


def test_an_answer_of_another_shape_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def usage(counts: Usage) -> ChatUsage:
        return ChatUsage.model_construct(
            prompt_tokens=-1, completion_tokens=counts.completion_tokens, total_tokens=0
        )

    monkeypatch.setattr(chat_encoder, "chat_usage", usage)
    assert "response_schema_conformance" in failed_checks()


def test_a_missing_retry_after_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    respond = ApiError.response

    def response(self: ApiError) -> Response:
        self.headers.pop("Retry-After", None)
        return respond(self)

    monkeypatch.setattr(ApiError, "response", response)
    full = QueueFull("32 requests are waiting already.", 3, tenant_limit=True)
    assert "response_headers_conformance" in failed_checks(full)


def test_a_missing_request_id_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def untagged(self: RequestIds, scope: object, receive: object, send: object) -> None:
        await self._app(scope, receive, send)  # type: ignore[arg-type]

    monkeypatch.setattr(RequestIds, "__call__", untagged)
    assert "response_headers_conformance" in failed_checks()


def test_a_crash_is_found() -> None:
    good = text_events("Hello")
    assert "not_a_server_error" in failed_checks(good, KeyError("inside"), good)


def test_a_server_that_forgets_its_keys_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "find_tenant", lambda headers, tenants: "red")
    app = create_app(ScriptedEngine(text_events("Hello")), tenants={key_digest("k" * 16): "red"})
    assert "ignored_auth" in fuzz(app, max_examples=1, key="k" * 16).failures
