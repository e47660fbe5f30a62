"""Assembles the ASGI application: guard, connexion's routing, handlers."""

from __future__ import annotations

import json
from collections.abc import Container
from importlib.resources import files
from typing import Any

from connexion import AsyncApp
from connexion.middleware.context import ContextMiddleware
from connexion.middleware.lifespan import LifespanMiddleware
from connexion.middleware.request_validation import RequestValidationMiddleware
from connexion.middleware.routing import RoutingMiddleware
from connexion.resolver import Resolver
from starlette.types import ASGIApp, Receive, Scope, Send

from handlers.access import AccessGuard
from handlers.api_keys import NO_KEYS, Tenants
from handlers.body import PydanticBody
from handlers.body_budget import BodyBudget
from handlers.errors import ErrorBoundary
from handlers.request_ids import RequestIds
from handlers.request_log import RequestLog
from handlers.routes import Routes, ServedEngine
from mashbox.hosts import LOOPBACK_NAMES

# Of connexion's stack only what serves: errors, documents and access are ours.
_MIDDLEWARES = [
    RoutingMiddleware,
    RequestValidationMiddleware,
    LifespanMiddleware,
    ContextMiddleware,
]


def contract() -> dict[str, Any]:
    """Load openapi.json."""
    document: dict[str, Any] = _generated_json("openapi.json")
    return document


def create_app(
    engine: ServedEngine, hosts: Container[str] = LOOPBACK_NAMES, tenants: Tenants = NO_KEYS
) -> ASGIApp:
    """Build the application that serves `engine` under the host names `hosts`.

    With `tenants`, only their keys open what the contract wants a key for.
    """
    document = contract()
    if tenants:
        _require_keys(document)
    routes = Routes(engine, document)
    connexion = AsyncApp("mashbox", middlewares=list(_MIDDLEWARES))
    connexion.add_api(
        _routing(),
        resolver=Resolver(lambda operation_id: getattr(routes, operation_id)),
        validator_map={"body": {"application/json": PydanticBody}},
    )
    guard = AccessGuard(BodyBudget(connexion), hosts, tenants)
    http = RequestIds(RequestLog(ErrorBoundary(guard)))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # The server's own start and stop come this way too, and are no requests.
        await (http if scope["type"] == "http" else connexion)(scope, receive, send)

    return app


def _require_keys(document: dict[str, Any]) -> None:
    """Take the alternative of no key out of the document."""
    for item in document["paths"].values():
        for operation in item.values():
            if {} in operation.get("security", ()):
                operation["security"].remove({})


def _routing() -> dict[str, Any]:
    routing: dict[str, Any] = _generated_json("routing.json")
    # A GET route of starlette takes HEAD too, so that a path's own HEAD has to come first.
    for path, item in routing["paths"].items():
        routing["paths"][path] = dict(sorted(item.items(), key=lambda pair: pair[0] != "head"))
    return routing


def _generated_json(name: str) -> Any:
    return json.loads(files("generated").joinpath(name).read_text(encoding="utf-8"))
