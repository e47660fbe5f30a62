from __future__ import annotations

import asyncio
import json
import logging

import pytest
from connexion.exceptions import BadRequestProblem
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from engine.errors import (
    BadPrompt,
    ConnectionCut,
    ContextOverflow,
    EngineError,
    ModelError,
    NotReady,
    PromptRefused,
    QueueFull,
    Stopping,
    WorkerFailed,
)
from handlers.disconnect import ClientLeft
from handlers.errors import (
    ApiError,
    ErrorBoundary,
    api_error,
    bad_request,
    internal_error,
    is_messages,
)
from tests.handlers.asgi import Connection, http_scope
from tests.handlers.schemas import schema

OVERFLOW = ContextOverflow(600, 511)


def on_prompt(refusal: PromptRefused) -> PromptRefused:
    refusal.field = "prompt"
    return refusal


TABLE: list[tuple[Exception, int, str, str | None, str | None, dict[str, str]]] = [
    (
        NotReady("Loading.", 7),
        503, "overloaded_error", "not_ready", None, {"Retry-After": "7"},
    ),
    (
        QueueFull("Full.", 3, tenant_limit=True),
        429, "rate_limit_error", "rate_limit_exceeded", None, {"Retry-After": "3"},
    ),
    (
        QueueFull("Full.", 9, tenant_limit=False),
        429, "rate_limit_error", "rate_limit_exceeded", None, {"Retry-After": "9"},
    ),
    (OVERFLOW, 400, "invalid_request_error", "context_length_exceeded", "messages", {}),
    (BadPrompt("No."), 400, "invalid_request_error", None, "messages", {}),
    (on_prompt(BadPrompt("No.")), 400, "invalid_request_error", None, "prompt", {}),
    (
        on_prompt(ContextOverflow(600, 511)),
        400, "invalid_request_error", "context_length_exceeded", "prompt", {},
    ),
    (bad_request("No.", "n"), 400, "invalid_request_error", None, "n", {}),
    (HTTPException(404, "No."), 404, "invalid_request_error", None, None, {}),
    (
        HTTPException(405, "No.", {"Allow": "GET"}),
        405, "invalid_request_error", None, None, {"Allow": "GET"},
    ),
    (BadRequestProblem("No."), 400, "invalid_request_error", None, None, {}),
]  # fmt: skip


@pytest.mark.parametrize(("error", "status", "type_", "code", "param", "headers"), TABLE)
def test_errors_become_responses_by_the_table(
    error: Exception,
    status: int,
    type_: str,
    code: str | None,
    param: str | None,
    headers: dict[str, str],
) -> None:
    found = api_error(error)
    assert (found.status, found.type, found.code) == (status, type_, code)
    assert (found.param, found.headers) == (param, headers)


def test_an_overlong_prompt_is_told_both_numbers() -> None:
    assert api_error(OVERFLOW).message == "prompt is too long: 600 tokens > 511 maximum"


@pytest.mark.parametrize(
    "error",
    [
        WorkerFailed("inside"),
        ModelError("inside"),
        EngineError("inside"),
        ValueError("inside"),
        KeyError("inside"),
    ],
)
def test_what_is_not_the_client_s_fault_is_a_500_that_tells_nothing(error: Exception) -> None:
    found = api_error(error, "req_1")
    assert (found.status, found.type, found.code) == (500, "server_error", None)
    assert found.message.startswith("internal server error: ")
    assert "inside" not in found.message
    assert "req_1" in found.message


def test_without_a_request_id_none_is_spoken_of() -> None:
    assert "log" not in internal_error().message


def test_an_error_body_has_exactly_the_contract_s_fields() -> None:
    response = ApiError(404, "No.", code="c", headers={"Allow": "GET"}).response()
    assert json.loads(bytes(response.body)) == {
        "error": {
            "message": "No.", "type": "invalid_request_error", "param": None, "code": "c",
        }
    }  # fmt: skip
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/json"
    assert response.headers["allow"] == "GET"


def failing(error: BaseException, after_start: bool = False) -> ErrorBoundary:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if after_start:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    return ErrorBoundary(app)


async def test_an_unknown_exception_is_a_logged_500(caplog: pytest.LogCaptureFixture) -> None:
    connection = Connection()
    scope = {**http_scope(path="/v1/models"), "request_id": "req_1"}
    await connection.serve(failing(ZeroDivisionError("inside")), scope)
    assert connection.status == 500
    assert b"inside" not in connection.body
    assert b"req_1" in connection.body
    (record,) = caplog.records
    assert record.message == "req_1: GET /v1/models failed"
    assert record.exc_info and record.exc_info[0] is ZeroDivisionError


async def test_a_lost_worker_is_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    connection = Connection()
    scope = {**http_scope(path="/v1/models"), "request_id": "req_1"}
    await connection.serve(failing(WorkerFailed("The worker stopped.")), scope)
    assert connection.status == 500
    (record,) = caplog.records
    assert record.message == "req_1: GET /v1/models failed: The worker stopped."
    assert record.exc_info is None


@pytest.mark.parametrize("after_start", [False, True])
async def test_a_request_that_holds_up_the_stop_is_told_so(after_start: bool) -> None:
    connection = Connection()
    await connection.serve(failing(asyncio.CancelledError(), after_start))
    assert connection.status == (200 if after_start else 503)
    assert (b"stopping" in connection.body) is not after_start


async def test_on_messages_a_request_that_holds_up_the_stop_gets_that_route_s_error() -> None:
    connection = Connection()
    await connection.serve(failing(asyncio.CancelledError()), http_scope(path="/v1/messages"))
    assert connection.status == 529
    assert json.loads(connection.body)["type"] == "error"


async def test_refusals_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    connection = Connection()
    await connection.serve(failing(bad_request("No.", None)))
    assert connection.status == 400
    assert not caplog.records


async def test_an_error_after_the_response_began_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    connection = Connection()
    with pytest.raises(ZeroDivisionError):
        await connection.serve(failing(ZeroDivisionError(), after_start=True))
    assert len(connection.messages) == 1
    assert caplog.records[0].levelno == logging.ERROR


@pytest.mark.parametrize("after_start", [False, True])
async def test_nobody_is_answered_when_the_client_left(after_start: bool) -> None:
    connection = Connection()
    await connection.serve(failing(ClientLeft(), after_start))
    assert len(connection.messages) == after_start


@pytest.mark.parametrize("after_start", [False, True])
async def test_a_connection_that_is_cut_gets_no_body_and_no_log(
    after_start: bool, caplog: pytest.LogCaptureFixture
) -> None:
    connection = Connection()
    await connection.serve(failing(ConnectionCut(), after_start))
    assert [message["type"] for message in connection.messages] == ["http.response.start"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("error", "status", "kind", "headers"),
    [
        (ApiError(400, "Bad."), 400, "invalid_request_error", {}),
        (ApiError(403, "No.", "permission_error"), 403, "permission_error", {}),
        (ApiError(404, "Where?", "not_found_error"), 404, "not_found_error", {}),
        (ApiError(405, "No."), 405, "invalid_request_error", {}),
        (ApiError(413, "Large."), 413, "request_too_large", {}),
        (ApiError(415, "Type."), 415, "invalid_request_error", {}),
        (api_error(QueueFull("Full.", 3, tenant_limit=True)), 429, "rate_limit_error",
         {"retry-after": "3"}),
        (api_error(QueueFull("Full.", 3, tenant_limit=False)), 529, "overloaded_error",
         {"retry-after": "3", "x-should-retry": "true"}),
        (api_error(NotReady("Loading.", 7)), 529, "overloaded_error",
         {"retry-after": "7", "x-should-retry": "true"}),
        (api_error(ValueError("x")), 500, "api_error", {}),
    ],
)  # fmt: skip
def test_messages_has_its_own_shape_and_statuses(
    error: ApiError, status: int, kind: str, headers: dict[str, str]
) -> None:
    response = error.anthropic_response()
    body = json.loads(bytes(response.body))
    schema("AnthropicError").validate(body)
    assert response.status_code == status
    assert body == {"type": "error", "error": {"type": kind, "message": error.message}}
    assert {name: response.headers.get(name) for name in headers} == headers
    assert ("x-should-retry" in response.headers) == (status == 529)


@pytest.mark.parametrize(
    ("path", "anthropic"),
    [
        ("/v1/messages", True),
        ("/v1/messages/count_tokens", True),
        ("/v1/messagesx", False),
        ("/v1/responses", False),
    ],
)
def test_the_path_decides_the_shape(path: str, anthropic: bool) -> None:
    assert is_messages(path) == anthropic
    assert api_error(Stopping()).response_on(path).status_code == (529 if anthropic else 503)
