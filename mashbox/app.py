"""Assembles the ASGI application: guard, connexion's routing, handlers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from connexion import AsyncApp
from connexion.middleware.context import ContextMiddleware
from connexion.middleware.lifespan import LifespanMiddleware
from connexion.middleware.request_validation import RequestValidationMiddleware
from connexion.middleware.routing import RoutingMiddleware
from connexion.resolver import Resolver
from starlette.types import ASGIApp, Receive, Scope, Send

from handlers.access import LOOPBACK_NAMES, AccessGuard, RequestIds
from handlers.body import PydanticBody
from handlers.errors import ErrorBoundary
from handlers.request_log import RequestLog
from handlers.routes import Routes, ServedEngine

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


def create_app(engine: ServedEngine, hosts: Iterable[str] = LOOPBACK_NAMES) -> ASGIApp:
    """Build the application that serves `engine` under the host names `hosts`."""
    routes = Routes(engine, contract())
    connexion = AsyncApp("mashbox", middlewares=list(_MIDDLEWARES))
    connexion.add_api(
        _routing(),
        resolver=Resolver(lambda operation_id: getattr(routes, operation_id)),
        validator_map={"body": {"application/json": PydanticBody}},
    )
    guard = AccessGuard(connexion, hosts)
    http = RequestIds(RequestLog(ErrorBoundary(guard)))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (http if scope["type"] == "http" else connexion)(scope, receive, send)

    return app


def _routing() -> dict[str, Any]:
    routing: dict[str, Any] = _generated_json("routing.json")
    # A GET route of starlette takes HEAD too, so that a path's own HEAD has to come first.
    for path, item in routing["paths"].items():
        routing["paths"][path] = dict(sorted(item.items(), key=lambda pair: pair[0] != "head"))
    return routing


def _generated_json(name: str) -> Any:
    return json.loads(files("generated").joinpath(name).read_text(encoding="utf-8"))
