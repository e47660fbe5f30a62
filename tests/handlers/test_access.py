from __future__ import annotations

import re

import pytest
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from generated.routes import OPERATIONS
from handlers.access import AccessGuard, read_host
from handlers.errors import ApiError
from handlers.tenants import NO_KEYS, Tenants, key_digest
from mashbox.hosts import LOOPBACK_NAMES
from tests.handlers.asgi import CHAT, Connection, http_scope

JSON = {"content_type": "application/json"}


class Inner:
    """The application behind the guard; keeps the scopes that reach it."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)


async def visit(
    scope: Scope, hosts: frozenset[str] = LOOPBACK_NAMES, tenants: Tenants = NO_KEYS
) -> Scope:
    inner = Inner()
    await Connection().serve(AccessGuard(inner, hosts, tenants), scope)
    return inner.scopes[0]


async def refusal(scope: Scope, tenants: Tenants = NO_KEYS) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await visit(scope, tenants=tenants)
    return caught.value


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:80", "localhost:"],
)
async def test_loopback_names_are_answered_with_any_port_and_case(host: str) -> None:
    assert (await visit(http_scope(host=host)))["path"] == "/"


@pytest.mark.parametrize(
    "host",
    ["example.com", "localhost.evil.com", "127.0.0.2", "[::2]:8000", "localhost.", "0.0.0.0"],
)
async def test_foreign_hosts_get_403(host: str) -> None:
    error = await refusal(http_scope(host=host))
    assert (error.status, error.type) == (403, "permission_error")
    assert host not in error.message


@pytest.mark.parametrize(
    "host",
    [
        "", " ", "a b", "localhost/", "localhost?x", "user@localhost", "localhost:port", "[::1",
        "::1", "localhost:80:80", "http://localhost", "localhost\t", "localhost,localhost", "\xe9",
    ],
)  # fmt: skip
async def test_malformed_hosts_get_400(host: str) -> None:
    error = await refusal(http_scope(host=host))
    assert (error.status, error.type) == (400, "invalid_request_error")


@pytest.mark.parametrize("hosts", [[], [b"localhost", b"localhost"], [b"localhost", b"evil.com"]])
def test_a_missing_or_doubled_host_gets_400(hosts: list[bytes]) -> None:
    with pytest.raises(ApiError) as caught:
        read_host(Headers(raw=[(b"host", host) for host in hosts]))
    assert caught.value.status == 400


async def test_only_the_configured_names_are_answered() -> None:
    scope = http_scope(host="box.example:8000")
    assert await visit(scope, frozenset({"box.example"}))
    assert (await refusal(scope)).status == 403


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8000", "localhost:8000"),
        ("https://LOCALHOST:8000", "localhost:8000"),
        ("http://localhost", "localhost"),
        ("http://localhost", "localhost:80"),
        ("https://localhost", "localhost:443"),
        ("http://[::1]:9", "[::1]:9"),
    ],
)
async def test_the_own_origin_passes(origin: str, host: str) -> None:
    assert await visit(http_scope(host=host, origin=origin))


@pytest.mark.parametrize(
    "origin",
    [
        "null", "", "http://evil.com", "http://127.0.0.1:8001", "http://127.0.0.1",
        "http://localhost:8000", "file://", "127.0.0.1:8000", "http://[", "http://x@127.0.0.1:8000",
    ],
)  # fmt: skip
async def test_other_origins_get_403(origin: str) -> None:
    error = await refusal(http_scope(origin=origin))
    assert (error.status, error.type) == (403, "permission_error")


@pytest.mark.parametrize("second", ["http://evil.com", "null"])
async def test_every_origin_has_to_be_the_own_one(second: str) -> None:
    scope = http_scope(origin="http://127.0.0.1:8000")
    scope["headers"].append((b"origin", second.encode()))
    assert (await refusal(scope)).status == 403


@pytest.mark.parametrize(
    ("site", "passes"),
    [("same-origin", True), ("none", True), ("cross-site", False), ("same-site", False)],
)
async def test_sec_fetch_site_decides(site: str, passes: bool) -> None:
    scope = http_scope(path="/v1/models", sec_fetch_site=site)
    if passes:
        assert await visit(scope)
    else:
        assert (await refusal(scope)).status == 403


async def test_a_link_to_the_page_may_come_from_anywhere_but_only_to_the_page() -> None:
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert await visit(http_scope(path="/", **link))
    assert (await refusal(http_scope(path="/v1/models", **link))).status == 403
    assert (await refusal(http_scope(sec_fetch_site="cross-site"))).status == 403
    assert (await refusal(http_scope(origin="http://evil.com", **link))).status == 403
    assert (await refusal(http_scope("POST", **link))).status == 403


async def test_no_second_sec_fetch_site_hides_the_first() -> None:
    scope = http_scope(sec_fetch_site="none")
    scope["headers"].append((b"sec-fetch-site", b"cross-site"))
    assert (await refusal(scope)).status == 403


@pytest.mark.parametrize("path", ["/", "/v1/models", "/nowhere", CHAT, "/a\nb"])
async def test_head_on_every_path_becomes_the_readiness_check(path: str) -> None:
    scope = await visit(http_scope("HEAD", path))
    assert (scope["path"], scope["raw_path"]) == ("/v1/health", b"/v1/health")


async def test_head_from_another_origin_gets_403() -> None:
    assert (await refusal(http_scope("HEAD", origin="null"))).status == 403


@pytest.mark.parametrize("path", ["/nope", "/v1", "/v1/", "/v1/health/", CHAT + "/x", "//", ""])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_unknown_paths_get_404_whatever_the_method(path: str, method: str) -> None:
    error = await refusal(http_scope(method, path))
    assert (error.status, error.type, error.code) == (404, "not_found_error", None)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/v1/health", "GET, HEAD"),
        ("OPTIONS", "/", "GET, HEAD"),
        ("GET", CHAT, "HEAD, POST"),
        ("DELETE", "/v1/models/some/model", "GET, HEAD"),
        ("BREW", "/openapi.json", "GET, HEAD"),
    ],
)
async def test_other_methods_get_405_and_what_is_allowed(
    method: str, path: str, allow: str
) -> None:
    error = await refusal(http_scope(method, path, **JSON))
    assert (error.status, error.type) == (405, "invalid_request_error")
    assert error.headers == {"Allow": allow}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o.operation_id)
async def test_every_operation_of_the_contract_is_let_through(operation: object) -> None:
    assert isinstance(operation, type(OPERATIONS[0]))
    path = re.sub(r"\{\w+\}", "an/id", operation.path)
    assert await visit(http_scope(operation.method, path, **JSON))


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON ; charset=utf-8", "application/json;x=y"]
)
async def test_json_types_pass_and_are_made_one(content_type: str) -> None:
    scope = await visit(http_scope("POST", CHAT, content_type=content_type))
    assert Headers(scope=scope).getlist("content-type") == ["application/json"]


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/jsonp", "application/x-www-form-urlencoded"]
)
async def test_other_types_get_415(content_type: str) -> None:
    error = await refusal(http_scope("POST", CHAT, content_type=content_type))
    assert (error.status, error.type) == (415, "invalid_request_error")


async def test_a_missing_type_gets_415() -> None:
    assert (await refusal(http_scope("POST", CHAT))).status == 415


@pytest.mark.parametrize("length", [32 * 2**20 + 1, 10**30])
async def test_a_content_length_above_the_limit_gets_413(length: int) -> None:
    error = await refusal(http_scope("POST", CHAT, **JSON, content_length=str(length)))
    assert (error.status, error.code) == (413, "request_too_large")


@pytest.mark.parametrize("length", [str(32 * 2**20), "\xb2", "many"])
async def test_a_content_length_that_is_not_above_the_limit_passes(length: str) -> None:
    assert await visit(http_scope("POST", CHAT, **JSON, content_length=length))


TOO_LONG = {"content_length": str(10**9)}
FOREIGN, OTHER_ORIGIN, FORM = (
    {"host": "evil.com"},
    {"origin": "http://evil.com"},
    {"content_type": "text/plain"},
)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("PUT", "/nope", {"host": "a b", **OTHER_ORIGIN, **FORM, **TOO_LONG}, 400),
        ("PUT", "/nope", {**FOREIGN, **FORM, **TOO_LONG}, 403),
        ("PUT", "/nope", {**OTHER_ORIGIN, **FORM, **TOO_LONG}, 403),
        ("PUT", "/nope", {**FORM, **TOO_LONG}, 404),
        ("PUT", CHAT, {**FORM, **TOO_LONG}, 405),
        ("POST", "/v1/models", {**FORM, **TOO_LONG}, 405),
        ("POST", CHAT, {**FORM, **TOO_LONG}, 415),
        ("POST", CHAT, {**JSON, **TOO_LONG}, 413),
    ],
)
async def test_checks_come_in_the_contract_s_order(
    method: str, path: str, headers: dict[str, str], status: int
) -> None:
    assert (await refusal(http_scope(method, path, **headers))).status == status


KEY = "red-key-0123456789"
TENANTS = {key_digest(KEY): "red"}
MATRIX = [
    ("GET", "/", False),
    ("GET", "/health", False),
    ("GET", "/v1/health", True),
    ("GET", "/v1/models", True),
    ("GET", "/v1/models/some/model", True),
    ("GET", "/openapi.json", True),
    ("GET", "/metrics", True),
    ("POST", CHAT, True),
    ("POST", "/v1/completions", True),
    ("POST", "/v1/messages", True),
    ("POST", "/v1/messages/count_tokens", True),
    ("POST", "/v1/responses", True),
]


def test_the_matrix_has_every_path_of_the_contract() -> None:
    paths = {re.sub(r"\{\w+\}", "some/model", operation.path) for operation in OPERATIONS}
    assert {path for _, path, _ in MATRIX} == paths


@pytest.mark.parametrize(("method", "path", "locked"), MATRIX)
async def test_a_server_with_keys_tells_those_without_one_its_health_alone(
    method: str, path: str, locked: bool
) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": "wrong"}):
        scope = http_scope(method, path, **JSON, **headers)
        if locked:
            assert (await refusal(scope, TENANTS)).status == 401
        else:
            assert (await visit(scope, tenants=TENANTS))["tenant"] == ""


@pytest.mark.parametrize("headers", [{"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}])
@pytest.mark.parametrize(("method", "path", "locked"), MATRIX)
async def test_a_key_opens_every_path_and_names_the_tenant(
    method: str, path: str, locked: bool, headers: dict[str, str]
) -> None:
    scope = await visit(http_scope(method, path, **JSON, **headers), tenants=TENANTS)
    assert scope["tenant"] == ("red" if locked else "")


@pytest.mark.parametrize(("method", "path", "_"), MATRIX)
async def test_a_server_without_keys_passes_over_any(method: str, path: str, _: bool) -> None:
    scope = await visit(http_scope(method, path, **JSON, authorization=f"Bearer {KEY}"))
    assert scope["tenant"] == ""


@pytest.mark.parametrize(
    "path",
    ["/v1/nope", "/v1/", "/v1/health/", "/v1/health/../models", "/v1/%6dodels", "/v1/models\n"],
)
async def test_unknown_paths_below_v1_cannot_be_explored_without_a_key(path: str) -> None:
    assert (await refusal(http_scope("GET", path), TENANTS)).status == 401


@pytest.mark.parametrize(
    "path",
    [
        "/V1/models", "//v1/models", "/v1", "/./v1/models", "/health/../v1/models", "/x/v1/models",
        "/METRICS", "/metrics/", "/openapi.json/", "//openapi.json", "/openapi%2ejson", "v1/models",
    ],
)  # fmt: skip
async def test_no_spelling_of_a_path_leads_around_the_keys(path: str) -> None:
    assert (await refusal(http_scope("GET", path), TENANTS)).status == 404


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "BREW", "head"])
async def test_keys_come_before_methods(method: str) -> None:
    assert (await refusal(http_scope(method, CHAT), TENANTS)).status == 401


@pytest.mark.parametrize(("_", "path", "locked"), MATRIX)
async def test_head_tells_readiness_alone_so_it_needs_no_key(
    _: str, path: str, locked: bool
) -> None:
    scope = await visit(http_scope("HEAD", path), tenants=TENANTS)
    assert (scope["path"], scope["tenant"]) == ("/v1/health", "")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (CHAT, {**FOREIGN, **FORM}, 403),
        (CHAT, {**OTHER_ORIGIN, **FORM}, 403),
        (CHAT, {**FORM, **TOO_LONG}, 401),
        (CHAT, {**JSON, **TOO_LONG}, 401),
        ("/v1/models", FORM, 401),
        ("/v1/responses", {"upgrade": "websocket"}, 401),
    ],
)
async def test_the_key_is_asked_for_after_host_and_origin_and_before_the_rest(
    path: str, headers: dict[str, str], status: int
) -> None:
    assert (await refusal(http_scope("POST", path, **headers), TENANTS)).status == status


async def test_a_web_socket_is_sent_back_to_plain_http() -> None:
    error = await refusal(http_scope(path="/v1/responses", upgrade="WebSocket"))
    assert error.status == 426
    assert "plain HTTP" in error.message
