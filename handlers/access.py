"""Who may come in: host names, origins, keys, methods and types, before anything is read."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from generated.routes import OPERATIONS
from handlers.api_keys import find_tenant
from handlers.body import MAX_BODY_BYTES, too_large
from handlers.errors import ApiError
from handlers.tenants import NO_KEYS, Tenants

_HEAD_PATH = next(o.path for o in OPERATIONS if o.method == "HEAD")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]*)?")
# Browsers leave them out of Origin; a client may still put them into Host.
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class AccessGuard:
    """Checks every request in the contract's order before it is routed.

    `hosts` are the names the server answers to, in lower case. The scope gets the caller's
    `tenant`, which is empty where no key is asked for.
    """

    def __init__(self, app: ASGIApp, hosts: Container[str], tenants: Tenants = NO_KEYS) -> None:
        self._app = app
        self._hosts = hosts
        self._tenants = tenants
        self._routes = _Routes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request; raises ApiError."""
        headers = Headers(scope=scope)
        host = read_host(headers)
        check_host(host, self._hosts)
        check_origin(headers, host, scope)
        if scope["method"] == "HEAD":
            # The contract: HEAD tells readiness, whatever the path.
            scope = {**scope, "path": _HEAD_PATH, "raw_path": _HEAD_PATH.encode()}
        scope = {**scope, "tenant": self._tenant(headers, scope)}
        check_upgrade(headers)
        self._routes.check(scope["path"], scope["method"])
        if scope["method"] == "POST":
            scope = {**scope, "headers": check_body_headers(headers)}
        await self._app(scope, receive, send)

    def _tenant(self, headers: Headers, scope: Scope) -> str:
        is_open = scope["method"] == "HEAD" or not self._routes.needs_key(scope["path"])
        if is_open or not self._tenants:
            return ""
        tenant = find_tenant(headers, self._tenants)
        if "record" in scope:
            scope["record"].tenant = tenant
        return tenant


@dataclass
class _Route:
    """One path of the contract, matched the way connexion matches it."""

    regex: re.Pattern[str]
    methods: set[str]
    needs_key: bool


class _Routes:
    """The contract's paths."""

    def __init__(self) -> None:
        routes: dict[str, _Route] = {}
        for operation in OPERATIONS:
            regex = compile_path(operation.path.replace("}", ":path}"))[0]
            route = routes.setdefault(operation.path, _Route(regex, {"HEAD"}, False))
            route.methods.add(operation.method)
            route.needs_key |= operation.needs_key
        self._routes = list(routes.values())

    def needs_key(self, path: str) -> bool:
        """Whether a path takes a key; unknown ones below /v1 do, so that nobody can map them."""
        matching = self._matching(path)
        return any(r.needs_key for r in matching) if matching else path.startswith("/v1/")

    def check(self, path: str, method: str) -> None:
        """Raise 404 or 405 for what the contract does not have."""
        allowed = {name for route in self._matching(path) for name in route.methods}
        if not allowed:
            raise ApiError(404, f"There is no {path} here.", "not_found_error")
        if method not in allowed:
            raise wrong_method(path, method, allowed)

    def _matching(self, path: str) -> list[_Route]:
        return [route for route in self._routes if route.regex.match(path)]


def wrong_method(path: str, method: str, allowed: Iterable[str]) -> ApiError:
    """Give the 405 of a path that takes the `allowed` methods only."""
    names = ", ".join(sorted(allowed))
    return ApiError(405, f"{path} does not take {method}; use {names}.", headers={"Allow": names})


def read_host(headers: Headers) -> str:
    """Give the Host header, lower case; raises 400 when it is missing or not a host."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _host_name(hosts[0]):
        raise ApiError(400, "The Host header is missing or malformed; send the server's address.")
    return hosts[0].lower()


def check_host(host: str, allowed: Container[str]) -> None:
    """Refuse a host name the server does not answer to (a page could have made it point here)."""
    if _host_name(host) not in allowed:
        raise ApiError(
            403,
            "This server does not answer to the host name of the Host header; use its own address.",
            "permission_error",
        )


def check_origin(headers: Headers, host: str, scope: Scope) -> None:
    """Refuse a request that a web page of another origin makes."""
    foreign = not all(_same_origin(origin, host) for origin in headers.getlist("origin"))
    # A link to the page may stand anywhere.
    page = scope["method"] == "GET" and scope["path"] == "/"
    navigation = page and headers.get("sec-fetch-mode") == "navigate"
    other_site = not {"cross-site", "same-site"}.isdisjoint(headers.getlist("sec-fetch-site"))
    if foreign or (other_site and not navigation):
        raise ApiError(
            403,
            "Requests from web pages of another origin are refused; call the server directly.",
            "permission_error",
        )


def check_upgrade(headers: Headers) -> None:
    """Send clients that try a web socket first straight back to plain HTTP."""
    if headers.get("upgrade", "").lower() == "websocket":
        raise ApiError(
            426,
            "There are no web sockets here; send the request over plain HTTP.",
            headers={"Upgrade": "HTTP/1.1", "Connection": "Upgrade"},
        )


def _same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin.lower())
    except ValueError:
        return False
    default = ":" + _DEFAULT_PORTS.get(parts.scheme, "")
    return parts.netloc.removesuffix(default) == host.removesuffix(default)


def _host_name(host: str) -> str:
    """Give the name in `name[:port]`, brackets kept; empty when malformed."""
    match = _HOST.fullmatch(host.lower())
    return match[1] if match else ""


def check_body_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Give a POST's headers as connexion wants them; raises ApiError 415 or 413."""
    media_type, _, _ = headers.get("content-type", "").partition(";")
    if media_type.strip().lower() != "application/json":
        raise ApiError(415, "The body must be sent with Content-Type: application/json.")
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise too_large()
    # Charset and case are settled here, so that connexion finds the one type it knows.
    others = [(name, value) for name, value in headers.raw if name != b"content-type"]
    return [*others, (b"content-type", b"application/json")]
