"""Errors as clients see them: one class, one table, one place that turns exceptions into bodies."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from connexion.exceptions import ProblemException
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.errors import (
    BadPrompt,
    ContextOverflow,
    EngineError,
    NotReady,
    QueueFull,
    ServerStopped,
)
from generated.models import Error, ErrorDetail
from handlers.disconnect import ClientLeft

logger = logging.getLogger("mashbox.errors")

_STOPPING = NotReady("The server is stopping; send the request to another one.")


@dataclass
class ApiError(Exception):
    """A refusal or failure with everything its response needs; `param` names the body's field."""

    status: int
    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def detail(self) -> ErrorDetail:
        """Give the error object that bodies and stream errors hold."""
        return ErrorDetail(message=self.message, type=self.type, param=self.param, code=self.code)

    def response(self) -> Response:
        """Give the whole JSON response."""
        body = Error(error=self.detail()).model_dump_json(exclude_unset=True)
        return Response(body, self.status, self.headers, "application/json")


def bad_request(message: str, param: str | None, code: str | None = None) -> ApiError:
    """Give the 400 for a body whose field `param` cannot be served."""
    return ApiError(400, message, code=code, param=param)


def internal_error(request_id: str | None = None) -> ApiError:
    """Give the 500 that tells nothing of the inside."""
    hint = f" The server log has more under {request_id}." if request_id else ""
    message = f"internal server error: the request failed on the server; send it again.{hint}"
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


def _engine_error(error: EngineError, request_id: str | None) -> ApiError:
    match error:
        case NotReady():
            headers = {"Retry-After": str(error.retry_after)}
            return ApiError(503, str(error), "overloaded_error", "not_ready", headers=headers)
        case QueueFull():
            headers = {"Retry-After": str(error.retry_after)}
            return ApiError(
                429, str(error), "rate_limit_error", "rate_limit_exceeded", headers=headers
            )
        case ContextOverflow():
            return bad_request(str(error), "messages", "context_length_exceeded")
        case BadPrompt():
            return bad_request(str(error), error.field)
        case ServerStopped():
            return ApiError(500, f"internal server error: {error}", "server_error")
    return internal_error(request_id)


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
        except asyncio.CancelledError:
            # Only a stopping server cancels requests, those that hold it up.
            if not started:
                await api_error(_STOPPING).response()(scope, receive, send)
        except Exception as error:
            answer = api_error(error, scope.get("request_id"))
            if answer.status == 500:
                _log_failure(error, scope)
            if started:
                raise
            await answer.response()(scope, receive, send)


def _log_failure(error: Exception, scope: Scope) -> None:
    where = (scope.get("request_id"), scope["method"], scope["path"])
    if isinstance(error, EngineError):
        logger.error("%s: %s %s failed: %s", *where, error)
    else:
        logger.error("%s: %s %s failed", *where, exc_info=error)
