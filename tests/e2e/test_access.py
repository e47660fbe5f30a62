"""Keys, hosts and origins on a real server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import anthropic
import httpx
import openai
import pytest

from tests.e2e.server import Server

pytestmark = pytest.mark.e2e

RED, BLUE = "red-key-0123456789", "blue-key-0123456789"
PROTECTED = ("/v1/models", "/v1/nope", "/metrics", "/openapi.json")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path: Path = tmp_path_factory.mktemp("keys") / "keys.txt"
    path.write_text(f"{RED} red\n{BLUE}\n")
    path.chmod(0o644)
    with Server("mock", "--api-key-file", str(path), "--allowed-host", "box.example") as server:
        yield server.wait_ready()
        assert f"{path} can be read by others (mode 0644)." in server.output
        assert not any(key in server.output for key in (RED, BLUE))


def raw_status(server: Server, *lines: bytes) -> int:
    """The status of a request written byte by byte."""
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port or 80), timeout=30) as connection:
        connection.sendall(
            b"\r\n".join([*lines, b"Host: localhost", b"Connection: close", b"", b""])
        )
        answer = connection.makefile("rb").readline()
    return int(answer.split()[1])


def test_without_a_key_health_alone_is_told(keyed: Server) -> None:
    for path in PROTECTED:
        response = httpx.get(keyed.url + path)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
        assert httpx.head(keyed.url + path).status_code == 200
    for path in ("/", "/health"):
        assert httpx.get(keyed.url + path).json()["status"] == "ok"


def test_the_clients_own_ways_to_send_a_key_work(keyed: Server) -> None:
    for key in (RED, BLUE):
        chat = openai.OpenAI(base_url=keyed.url + "/v1", api_key=key)
        assert chat.models.list().data[0].id == "mock"
        messages = anthropic.Anthropic(base_url=keyed.url, api_key=key)
        assert messages.models.list().data[0].id == "mock"
    with pytest.raises(openai.AuthenticationError, match="not one of this server's"):
        openai.OpenAI(base_url=keyed.url + "/v1", api_key="none").models.list()
    with pytest.raises(anthropic.AuthenticationError, match="not one of this server's"):
        anthropic.Anthropic(base_url=keyed.url, api_key="none").messages.create(
            model="mock", max_tokens=8, messages=[{"role": "user", "content": "Hi"}]
        )


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/v1/%6dodels", 401),
        (b"/%76%31/models", 401),
        (b"/v1/models?api_key=" + RED.encode(), 401),
        (b"http://localhost/v1/models", 401),
        (b"//v1/models", 404),
        (b"/V1/models", 404),
        (b"/health/../v1/models", 404),
        (b"/health/%2e%2e/v1/models", 404),
        (b"/health;/v1/models", 404),
        (b"/health%00", 404),
        (b"/health%3f/v1/models", 404),
    ],
)
def test_no_spelling_of_a_path_leads_around_the_keys(
    keyed: Server, target: bytes, status: int
) -> None:
    assert raw_status(keyed, b"GET " + target + b" HTTP/1.1") == status


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"Authorization: Bearer " + RED.encode(), 200),
        (b"AUTHORIZATION:   bearer " + RED.encode() + b"  ", 200),
        (b"X-Api-Key:" + RED.encode(), 200),
        (b"Authorization: Bearer", 401),
        (b"Authorization: Bearer \xff\xfe\x80", 401),
        (b"Authorization: Bearer " + b"k" * 10_000, 401),
        (b"X-Api-Key: none\r\nX-Api-Key: " + RED.encode(), 401),
        (b"X_Api_Key: " + RED.encode(), 401),
    ],
)
def test_headers_are_read_as_sent(keyed: Server, header: bytes, status: int) -> None:
    assert raw_status(keyed, b"GET /v1/models HTTP/1.1", header) == status


def test_a_name_behind_a_proxy_has_to_be_allowed(keyed: Server) -> None:
    for host, status in (("box.example", 200), ("box.example:8443", 200), ("evil.example", 403)):
        headers = {"host": host, "origin": f"https://{host}"}
        assert httpx.get(keyed.url + "/health", headers=headers).status_code == status
