from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from starlette.types import Message

from handlers.tenants import key_digest
from mashbox.app import contract
from mashbox.hosts import host_names
from tests.handlers.asgi import CHAT, QUESTION, Connection, client, error_of, http_scope, judged_app
from tests.handlers.scripted_engine import Hold, ScriptedEngine, text_events


async def request(method: str, path: str, **kwargs: object) -> httpx.Response:
    async with client(ScriptedEngine()) as http:
        return await http.request(method, path, **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "path", "kwargs", "status"),
    [
        ("GET", "/", {}, 200),
        ("HEAD", "/nowhere", {}, 200),
        ("GET", "/", {"headers": {"host": "a b"}}, 400),
        ("GET", "/", {"headers": {"host": "evil.com"}}, 403),
        ("GET", "/v1/models", {"headers": {"origin": "null"}}, 403),
        ("GET", "/nowhere", {}, 404),
        ("GET", "/v1/models/x", {}, 404),
        ("GET", CHAT, {}, 405),
        ("TRACE", "/", {}, 405),
        ("POST", CHAT, {"json": {}}, 400),
        ("POST", CHAT, {"content": b"{}"}, 415),
        ("POST", CHAT, {"data": {"messages": "x"}}, 415),
        ("POST", CHAT, {"json": QUESTION, "headers": {"content-length": str(10**9)}}, 413),
        ("POST", CHAT, {"json": QUESTION}, 200),
        ("POST", CHAT, {"json": QUESTION | {"stream": True}}, 200),
    ],
)
async def test_every_response_has_a_request_id_and_every_error_the_contract_s_shape(
    method: str, path: str, kwargs: dict[str, object], status: int
) -> None:
    response = await request(method, path, **kwargs)
    assert response.status_code == status
    (request_id,) = response.headers.get_list("x-request-id")
    assert request_id.startswith("req_")
    assert not any(name.startswith("access-control-") for name in response.headers)
    if status >= 400:
        assert response.headers["content-type"] == "application/json"
        assert error_of(response)["message"]


async def test_a_chunked_body_is_measured_too() -> None:
    piece = b" " * 2**20
    connection = Connection(*[piece] * 32, b"{}")
    scope = http_scope("POST", CHAT, content_type="application/json")
    await connection.serve(judged_app(ScriptedEngine()), scope)
    assert connection.status == 413
    assert json.loads(connection.body)["error"]["code"] == "request_too_large"


@pytest.mark.parametrize("content_type", ["APPLICATION/JSON", "application/json; charset=latin-1"])
async def test_any_spelling_of_the_json_type_is_read_by_our_own_parser(content_type: str) -> None:
    response = await request(
        "POST", CHAT, content=b"\xef\xbb\xbf{}", headers={"content-type": content_type}
    )
    assert error_of(response)["message"] == "messages is missing."


async def test_an_empty_body_is_not_json() -> None:
    response = await request("POST", CHAT, headers={"content-type": "application/json"})
    assert error_of(response)["code"] == "invalid_json"


async def test_a_fault_in_our_own_code_is_a_500_that_tells_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with client(ScriptedEngine(KeyError("inside"))) as http:
        response = await http.post(CHAT, json=QUESTION)
    assert response.status_code == 500
    assert error_of(response)["type"] == "server_error"
    assert "inside" not in response.text
    assert response.headers["x-request-id"] in response.text
    assert response.headers["x-request-id"] in caplog.text


async def test_the_own_host_names_can_be_chosen() -> None:
    app = judged_app(ScriptedEngine(), ["box.example"])
    for host, status in (("box.example", 200), ("localhost", 403)):
        connection = Connection()
        await connection.serve(app, http_scope(host=host))
        assert connection.status == status


async def test_where_others_reach_the_server_any_address_is_its_name() -> None:
    app = judged_app(ScriptedEngine(), host_names("0.0.0.0", ["box.example"]))
    for host, status in (("192.0.2.1:8000", 200), ("box.example", 200), ("evil.example", 403)):
        connection = Connection()
        await connection.serve(app, http_scope(host=host, origin=f"https://{host}"))
        assert connection.status == status


TENANTS = {key_digest("k" * 16): "red"}


async def keyed(method: str, path: str, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(judged_app(ScriptedEngine(), tenants=TENANTS))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        return await http.request(method, path, headers=headers)


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/messages/count_tokens", "/v1/nope"])
async def test_a_request_without_a_key_is_refused_in_its_route_s_shape(path: str) -> None:
    response = await keyed("POST", path, authorization="Bearer not-a-key")
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert "not-a-key" not in response.text
    error = response.json()["error"]
    assert error["type"] == "authentication_error"
    assert (response.json().get("type") == "error") == path.startswith("/v1/messages")


@pytest.mark.parametrize("path", ["/v1/%6dodels", "/%76%31/models", "/v1/models/%2e%2e/x"])
async def test_an_encoded_path_needs_the_key_too(path: str) -> None:
    assert (await keyed("GET", path)).status_code == 401
    assert (await keyed("GET", path, authorization="Bearer " + "k" * 16)).status_code in (200, 404)


async def test_a_head_without_a_key_tells_readiness_alone() -> None:
    response = await keyed("HEAD", "/v1/models")
    assert (response.status_code, response.content) == (200, b"")


async def test_the_log_names_the_tenant_and_not_the_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mashbox")
    await keyed("GET", "/v1/models", authorization="Bearer " + "k" * 16)
    await keyed("GET", "/v1/models", authorization="Bearer " + "x" * 16)
    fields = [vars(record)["fields"] for record in caplog.records]
    assert [line.get("tenant") for line in fields] == ["red", None]
    assert "kkk" not in str(fields) and "xxx" not in str(fields)


async def test_the_served_contract_says_whether_keys_are_optional() -> None:
    key = {"authorization": "Bearer " + "k" * 16}
    for response, alternatives in (
        (await keyed("GET", "/openapi.json", **key), [{"bearer": []}, {"apiKey": []}]),
        (await request("GET", "/openapi.json"), [{"bearer": []}, {"apiKey": []}, {}]),
    ):
        paths = response.json()["paths"]
        assert paths["/v1/models"]["get"]["security"] == alternatives
        assert paths["/health"]["get"]["security"] == []


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_cancels_its_request_through_the_whole_stack(
    stream: bool,
) -> None:
    hold = Hold()
    engine = ScriptedEngine([hold, *text_events("Hello")])
    connection = Connection(json.dumps(QUESTION | {"stream": stream}).encode())
    scope = http_scope("POST", CHAT, content_type="application/json")
    serving = asyncio.ensure_future(connection.serve(judged_app(engine), scope))
    await hold.reached.wait()
    connection.left.set()
    await serving
    assert engine.answers[0].closed.is_set()


async def test_a_client_that_leaves_while_sending_its_body_asks_nothing() -> None:
    engine, connection = ScriptedEngine(), Connection()
    scope = http_scope("POST", CHAT, content_type="application/json")
    serving = asyncio.ensure_future(connection.serve(judged_app(engine), scope))
    connection.left.set()
    await serving
    assert (engine.requests, connection.messages) == ([], [])


async def test_a_stream_s_text_passes_the_whole_stack_at_once() -> None:
    hold = Hold()
    events = text_events("Hel", "lo")
    engine = ScriptedEngine([*events[:3], hold, *events[3:]])
    connection = Connection(json.dumps(QUESTION | {"stream": True}).encode())
    scope = http_scope("POST", CHAT, content_type="application/json")
    serving = asyncio.ensure_future(connection.serve(judged_app(engine), scope))
    await hold.reached.wait()
    assert b'"Hel"' in connection.body
    hold.released.set()
    await serving
    assert connection.body.endswith(b"data: [DONE]\n\n")
    assert connection.complete


async def test_the_lifespan_protocol_is_served() -> None:
    asked = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    said: list[str] = []

    async def receive() -> Message:
        return next(asked)

    async def send(message: Message) -> None:
        said.append(message["type"])

    await judged_app(ScriptedEngine())({"type": "lifespan", "state": {}}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_each_load_of_the_contract_is_a_fresh_copy() -> None:
    assert contract() == contract()
    assert contract() is not contract()
