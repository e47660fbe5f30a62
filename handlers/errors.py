"""Errors as clients see them: one class, one table, one place that turns exceptions into bodies."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, field, replace
from typing import Any

from connexion.exceptions import ProblemException
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.errors import (
    BadPrompt,
    ConnectionCut,
    ContextOverflow,
    EngineError,
    NotReady,
    QueueFull,
    ServerStopped,
    Stopping,
)
from generated.models import AnthropicError, AnthropicErrorDetail, ErrorBody, ErrorDetail
from handlers.disconnect import ClientLeft

logger = logging.getLogger("mashbox.errors")

_MESSAGES = "/v1/messages"
_OVERLOADED = 529
_INTERNAL = "internal server error: "
_ANTHROPIC_TYPES: dict[int, Any] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    _OVERLOADED: "overloaded_error",
}


@dataclass
class ApiError(Exception):
    """A refusal or failure with everything its response needs; `param` names the body's field.

    `overloaded` tells that the whole server is at its limit, not this caller; Messages has a
    status of its own for that.
    """

    status: int
    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    overloaded: bool = False

    @property
    def reason(self) -> str:
        """What a log may tell of it: nothing that the client wrote but the name of a field."""
        name = self.code or self.type
        return f"{name} ({re.split('[.[]', self.param)[0]})" if self.param else name

    def detail(self) -> ErrorDetail:
        """Give the error object that bodies and stream errors hold."""
        return ErrorDetail(message=self.message, type=self.type, param=self.param, code=self.code)

    def response(self) -> Response:
        """Give the whole JSON response in OpenAI's shape."""
        return _json(ErrorBody(error=self.detail()), self.status, self.headers)

    def anthropic_detail(self) -> AnthropicErrorDetail:
        """Give the error object of Messages' bodies and error events."""
        status = _OVERLOADED if self.overloaded else self.status
        return AnthropicErrorDetail(
            type=_ANTHROPIC_TYPES.get(status, "invalid_request_error"), message=self.message
        )

    def anthropic_response(self) -> Response:
        """Give the whole JSON response in Anthropic's shape."""
        body = AnthropicError(type="error", error=self.anthropic_detail())
        if not self.overloaded:
            return _json(body, self.status, self.headers)
        return _json(body, _OVERLOADED, {**self.headers, "x-should-retry": "true"})

    def response_on(self, path: str) -> Response:
        """Give the whole JSON response in the shape that `path` has."""
        return self.anthropic_response() if is_messages(path) else self.response()


def _json(body: BaseModel, status: int, headers: dict[str, str]) -> Response:
    return Response(body.model_dump_json(exclude_unset=True), status, headers, "application/json")


def bad_request(message: str, param: str | None, code: str | None = None) -> ApiError:
    """Give the 400 for a body whose field `param` cannot be served."""
    return ApiError(400, message, code=code, param=param)


def internal_error(request_id: str | None = None) -> ApiError:
    """Give the 500 that tells nothing of the inside."""
    hint = f" The server log has more under {request_id}." if request_id else ""
    message = f"{_INTERNAL}the request failed on the server; send it again.{hint}"
    return ApiError(500, message, type="server_error")


def api_error(error: Exception, request_id: str | None = None) -> ApiError:
    """Map any exception to the response it stands for; unknown ones become a plain 500.

    `request_id` is what the log line of a 500 begins with.
    """
    match error:
        case ApiError():
            return error
        case EngineError():
            return _engine_error(error, request_id)
        case HTTPException():
            return ApiError(error.status_code, error.detail, headers=dict(error.headers or {}))
        case ProblemException():
            return ApiError(error.status, str(error.detail or error.title))
    return internal_error(request_id)


def stream_error(error: EngineError, request_id: str) -> ApiError:
    """Map what ended a stream; some clients send again only on the words that it begins with."""
    failure = api_error(error, request_id)
    if failure.message.startswith(_INTERNAL):
        return failure
    return replace(failure, message=_INTERNAL + failure.message)


def _engine_error(error: EngineError, request_id: str | None) -> ApiError:
    match error:
        case NotReady():
            headers = {"Retry-After": str(error.retry_after)}
            return ApiError(
                503, str(error), "overloaded_error", "not_ready", headers=headers, overloaded=True
            )
        case QueueFull():
            headers = {"Retry-After": str(error.retry_after)}
            return ApiError(
                429,
                str(error),
                "rate_limit_error",
                "rate_limit_exceeded",
                headers=headers,
                overloaded=not error.tenant_limit,
            )
        case ContextOverflow():
            return bad_request(str(error), error.field, "context_length_exceeded")
        case BadPrompt():
            return bad_request(str(error), error.field)
        case ServerStopped():
            return ApiError(500, f"{_INTERNAL}{error}", "server_error")
    return internal_error(request_id)


def is_messages(path: str) -> bool:
    """Whether errors on this path have Anthropic's shape."""
    return path == _MESSAGES or path.startswith(_MESSAGES + "/")


class ErrorBoundary:
    """Outermost application: whatever escapes the ones inside becomes a response of its shape."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; an exception after the response began can only end the connection."""
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except ClientLeft:
            return
        except ConnectionCut:
            if not started:
                await _begin(send)
        except asyncio.CancelledError:
            # Only a stopping server cancels requests, those that hold it up.
            if not started:
                await api_error(Stopping()).response_on(scope["path"])(scope, receive, send)
        except Exception as error:
            answer = api_error(error, scope.get("request_id"))
            if record := scope.get("record"):
                record.error = record.error or answer.reason
            _log_failure(error, answer, scope)
            if started:
                raise
            await answer.response_on(scope["path"])(scope, receive, send)


async def _begin(send: Send) -> None:
    """Send no more than headers: uvicorn closes a connection whose response stays that short."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"1")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


def _log_failure(error: Exception, answer: ApiError, scope: Scope) -> None:
    if answer.status != 500:
        return
    where = (scope.get("request_id"), scope["method"], scope["path"])
    if isinstance(error, EngineError):
        logger.error("%s: %s %s failed: %s", *where, error)
    else:
        logger.error("%s: %s %s failed", *where, exc_info=error)
