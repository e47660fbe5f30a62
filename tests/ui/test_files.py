"""How the page's files are served, beside the API."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.server import HTTP, Server

pytestmark = pytest.mark.ui

FOLDER = Path(__file__).parents[2] / "mashbox" / "ui"
PATHS = [path.relative_to(FOLDER).as_posix() for path in sorted(FOLDER.rglob("*.*"))]
FILES = ["/", *(f"/ui/{path}" for path in PATHS if path != "index.html")]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
OUTSIDE = [
    "/ui/../page.py",
    "/ui/../../pyproject.toml",
    "/ui/%2e%2e/page.py",
    "/ui/%2e%2e%2fpage.py",
    "/ui/..%2f..%2fpyproject.toml",
    "/ui/..%5cpage.py",
    "/ui//etc/passwd",
    "/ui/%2fetc%2fpasswd",
    "/ui/components/../../page.py",
    "/ui/app.js%00.html",
]


@pytest.fixture(scope="module")
def plain_server() -> Iterator[Server]:
    """A server without the page."""
    with Server("mock") as running:
        yield running.wait_ready()


def request(server: Server, method: str, path: str) -> tuple[int, bytes]:
    """Ask for a path as it stands: clients take the dots out."""
    address = httpx.URL(server.url)
    connection = http.client.HTTPConnection(address.host, address.port, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


@pytest.mark.parametrize("path", FILES)
def test_every_file_has_the_headers_that_keep_it_to_itself(server: Server, path: str) -> None:
    got = HTTP.get(server.url + path)
    assert got.status_code == 200
    assert got.headers["Content-Security-Policy"] == POLICY
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["Referrer-Policy"] == "no-referrer"
    assert got.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("path", ["/", "/ui/app.js"])
def test_head_tells_that_the_server_is_ready_as_on_every_path(server: Server, path: str) -> None:
    head = HTTP.head(server.url + path)
    assert (head.status_code, head.content) == (200, b"")


def test_types_are_what_browsers_want_with_nosniff(server: Server) -> None:
    wanted = {"/": "text/html", "/ui/layout.css": "text/css", "/ui/vendor.js": "text/javascript"}
    types = {path: HTTP.get(server.url + path).headers["Content-Type"] for path in wanted}
    assert {path: kind.partition(";")[0] for path, kind in types.items()} == wanted


@pytest.mark.parametrize("path", ["/ui/nothing.js", "/ui/", "/ui", "/favicon.ico"])
def test_what_is_not_there_is_a_404(server: Server, path: str) -> None:
    assert HTTP.get(server.url + path).status_code == 404


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_folder(server: Server, path: str) -> None:
    status, body = request(server, "GET", path)
    assert status in (400, 404)
    assert b"import" not in body and b"[project]" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_files_are_only_read(server: Server, method: str) -> None:
    status, _ = request(server, method, "/ui/app.js")
    assert status == 405


def test_another_host_name_is_refused(server: Server) -> None:
    got = HTTP.get(server.url + "/", headers={"Host": "evil.example"})
    assert got.status_code in (400, 403, 421)


def test_without_the_option_there_is_no_page(plain_server: Server) -> None:
    got = HTTP.get(plain_server.url + "/")
    assert "text/html" not in got.headers.get("Content-Type", "")
    assert HTTP.get(plain_server.url + "/ui/app.js").status_code == 404
