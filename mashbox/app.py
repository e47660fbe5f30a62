"""Assembles the ASGI application: guard, connexion's routing, handlers."""

from __future__ import annotations

import json
from collections.abc import Container
from contextlib import nullcontext
from importlib.resources import files
from typing import Any

from connexion import ConnexionMiddleware
from connexion.middleware.abstract import ROUTING_CONTEXT
from connexion.middleware.lifespan import LifespanMiddleware
from connexion.middleware.request_validation import RequestValidationMiddleware
from connexion.middleware.routing import RoutingMiddleware
from connexion.resolver import Resolver
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from generated.routes import Handlers
from handlers.access import AccessGuard
from handlers.body import PARSED_BODY, PydanticBody
from handlers.body_budget import BodyBudget
from handlers.errors import ErrorBoundary
from handlers.request_ids import RequestIds
from handlers.request_log import RequestLog
from handlers.routes import Routes, ServedEngine
from handlers.tenants import NO_KEYS, Tenants
from mashbox.hosts import LOOPBACK_NAMES
from mashbox.page import ChatPage

# Of connexion's stack only what serves: errors, documents and access are ours.
_MIDDLEWARES = [
    RoutingMiddleware,
    RequestValidationMiddleware,
    LifespanMiddleware,
]


def contract() -> dict[str, Any]:
    """Load openapi.json."""
    document: dict[str, Any] = _generated_json("openapi.json")
    return document


def create_app(
    engine: ServedEngine,
    hosts: Container[str] = LOOPBACK_NAMES,
    tenants: Tenants = NO_KEYS,
    ui: bool = False,
) -> ASGIApp:
    """Build the application that serves `engine` under the host names `hosts`.

    With `tenants`, only their keys open what the contract wants a key for. With `ui` it has the
    chat page.
    """
    document = contract()
    if tenants:
        _require_keys(document)
    routes = Routes(engine, document)
    connexion = ConnexionMiddleware(
        _Operations(routes),
        import_name="mashbox",
        middlewares=list(_MIDDLEWARES),
        lifespan=lambda app: nullcontext(),
    )
    connexion.add_api(
        _routing(),
        resolver=Resolver(lambda operation_id: getattr(routes, operation_id)),
        validator_map={"body": {"application/json": PydanticBody}},
    )
    guard: ASGIApp = AccessGuard(BodyBudget(connexion), hosts, tenants)
    inner = ChatPage(guard, hosts) if ui else guard
    http = RequestIds(RequestLog(ErrorBoundary(inner)))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # The server's own start and stop come this way too, and are no requests.
        await (http if scope["type"] == "http" else connexion)(scope, receive, send)

    return app


class _Operations:
    """Calls the handler of the operation that connexion has found.

    connexion's own application looks at the handler's signature anew for each request, which costs
    more than all else that connexion does.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = scope["extensions"]
        handler = getattr(self._handlers, found[ROUTING_CONTEXT]["operation_id"])
        bodies = [found[PARSED_BODY]] if PARSED_BODY in found else []
        response: Response = await handler(*bodies, **scope["path_params"])
        await response(scope, receive, send)


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
