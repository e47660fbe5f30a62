# Generated from openapi.json by `python -m codegen`; do not edit.
"""The operations of openapi.json, and the protocol that a class answering them follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from starlette.responses import Response

from generated import models
from generated._base import ApiModel


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `method` is in capitals, `path` has its parameters in braces.

    `needs_key` tells that a server with keys answers it only to those who have one.
    """

    operation_id: str
    method: str
    path: str
    path_parameters: tuple[str, ...] = ()
    request_model: type[ApiModel] | None = None
    needs_key: bool = False


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "get_health",
        "GET",
        "/v1/health",
        needs_key=True,
    ),
    Operation(
        "head_health",
        "HEAD",
        "/v1/health",
    ),
    Operation(
        "get_health_short",
        "GET",
        "/health",
    ),
    Operation(
        "get_root",
        "GET",
        "/",
    ),
    Operation(
        "list_models",
        "GET",
        "/v1/models",
        needs_key=True,
    ),
    Operation(
        "get_model",
        "GET",
        "/v1/models/{model}",
        path_parameters=("model",),
        needs_key=True,
    ),
    Operation(
        "create_chat_completion",
        "POST",
        "/v1/chat/completions",
        request_model=models.ChatCompletionRequest,
        needs_key=True,
    ),
    Operation(
        "create_completion",
        "POST",
        "/v1/completions",
        request_model=models.CompletionRequest,
        needs_key=True,
    ),
    Operation(
        "create_message",
        "POST",
        "/v1/messages",
        request_model=models.MessagesRequest,
        needs_key=True,
    ),
    Operation(
        "count_tokens",
        "POST",
        "/v1/messages/count_tokens",
        request_model=models.CountTokensRequest,
        needs_key=True,
    ),
    Operation(
        "create_response",
        "POST",
        "/v1/responses",
        request_model=models.ResponsesRequest,
        needs_key=True,
    ),
    Operation(
        "get_metrics",
        "GET",
        "/metrics",
        needs_key=True,
    ),
    Operation(
        "get_openapi",
        "GET",
        "/openapi.json",
        needs_key=True,
    ),
)


class Handlers(Protocol):
    """One method for each operation: path parameters come as text, a body as its model."""

    async def get_health(self) -> Response:
        """Health: GET /v1/health."""
        ...

    async def head_health(self) -> Response:
        """Readiness without a body: HEAD /v1/health."""
        ...

    async def get_health_short(self) -> Response:
        """Health, short: GET /health."""
        ...

    async def get_root(self) -> Response:
        """Chat page, or health: GET /."""
        ...

    async def list_models(self) -> Response:
        """List models: GET /v1/models."""
        ...

    async def get_model(self, model: str) -> Response:
        """Look up a model: GET /v1/models/{model}."""
        ...

    async def create_chat_completion(self, request: models.ChatCompletionRequest) -> Response:
        """Chat completion: POST /v1/chat/completions."""
        ...

    async def create_completion(self, request: models.CompletionRequest) -> Response:
        """Text completion: POST /v1/completions."""
        ...

    async def create_message(self, request: models.MessagesRequest) -> Response:
        """Message: POST /v1/messages."""
        ...

    async def count_tokens(self, request: models.CountTokensRequest) -> Response:
        """Token count: POST /v1/messages/count_tokens."""
        ...

    async def create_response(self, request: models.ResponsesRequest) -> Response:
        """Response: POST /v1/responses."""
        ...

    async def get_metrics(self) -> Response:
        """Metrics: GET /metrics."""
        ...

    async def get_openapi(self) -> Response:
        """This description: GET /openapi.json."""
        ...
