from __future__ import annotations

import logging
import re
from importlib.resources import files
from pathlib import Path

import httpx
import pytest

from handlers.api_keys import key_digest
from mashbox.app import create_app
from mashbox.page import HEADERS
from tests.contract.judged import Judged
from tests.handlers.asgi import error_of
from tests.handlers.scripted_engine import LOADING, ScriptedEngine

UI = Path(str(files("mashbox"))) / "ui"
IMPORT = re.compile(r'from "(\.[^"]+)"')


async def ask(
    path: str, method: str = "GET", engine: ScriptedEngine | None = None, **headers: str
) -> httpx.Response:
    tenants = {key_digest("k" * 16): "red"}
    app = create_app(engine or ScriptedEngine(), tenants=tenants, ui=True)
    # The contract has no word of the page's own files.
    transport = httpx.ASGITransport(app if path.startswith("/ui/") else Judged(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
        return await http.request(method, path, headers=headers)


def loading() -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.state = LOADING
    return engine


@pytest.mark.parametrize(
    ("path", "file", "media_type"),
    [
        ("/", "index.html", "text/html"),
        ("/ui/app.js", "app.js", "text/javascript"),
        ("/ui/components/message.js", "components/message.js", "text/javascript"),
        ("/ui/theme.css", "theme.css", "text/css"),
        ("/ui/LICENSES.txt", "LICENSES.txt", "text/plain"),
    ],
)
@pytest.mark.parametrize("engine", [ScriptedEngine, loading])
async def test_the_page_needs_neither_a_key_nor_a_loaded_model(
    path: str, file: str, media_type: str, engine: type[ScriptedEngine]
) -> None:
    response = await ask(path, engine=engine())
    assert response.status_code == 200
    assert response.content == (UI / file).read_bytes()
    assert response.headers["content-type"] == f"{media_type}; charset=utf-8"
    assert {name: response.headers[name] for name in HEADERS} == HEADERS


async def test_scripts_and_styles_come_from_the_server_alone() -> None:
    policy = (await ask("/")).headers["content-security-policy"]
    assert policy == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@pytest.mark.parametrize(
    "path",
    [
        "/ui/",
        "/ui",
        "/ui/nope.js",
        "/ui/index.html",
        "/ui/../page.py",
        "/ui//app.js",
        "/ui/app.js/",
    ],
)
async def test_what_is_no_file_of_the_page_is_not_found(path: str) -> None:
    response = await ask(path)
    assert response.status_code == 404
    assert error_of(response)["type"] == "not_found_error"


@pytest.mark.parametrize(("path", "allow"), [("/", "GET, HEAD"), ("/ui/app.js", "GET, HEAD")])
async def test_the_page_is_only_read(path: str, allow: str) -> None:
    response = await ask(path, "POST")
    assert response.status_code == 405
    assert response.headers["allow"] == allow


@pytest.mark.parametrize("path", ["/", "/ui/app.js"])
async def test_head_tells_readiness_here_too(path: str) -> None:
    assert (await ask(path, "HEAD")).status_code == 200
    assert (await ask(path, "HEAD", loading())).status_code == 503


@pytest.mark.parametrize("path", ["/", "/ui/app.js"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.com"}, 403),
        ({"host": "a b"}, 400),
        ({"origin": "https://evil.com"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
    ],
)
async def test_a_foreign_name_or_page_gets_nothing(
    path: str, headers: dict[str, str], status: int
) -> None:
    assert (await ask(path, **headers)).status_code == status


async def test_a_link_may_lead_to_the_page() -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert (await ask("/", **link)).status_code == 200


async def test_the_page_s_files_leave_the_log_to_the_api(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mashbox.requests")
    for path in ("/ui/app.js", "/ui/nope.js"):
        await ask(path)
    assert [record.levelname for record in caplog.records] == ["DEBUG", "INFO"]


async def test_the_api_still_asks_for_its_key() -> None:
    assert (await ask("/v1/models")).status_code == 401


def test_every_module_and_style_that_the_page_names_is_there() -> None:
    for script in UI.rglob("*.js"):
        if script.name != "vendor.js":
            for target in IMPORT.findall(script.read_text("utf-8")):
                assert (script.parent / target).is_file(), (script, target)
    named = re.findall(r'(?:src|href)="(ui/[^"]+)"', (UI / "index.html").read_text("utf-8"))
    styles = {f"ui/{style.name}" for style in UI.glob("*.css")}
    assert set(named) == styles | {"ui/app.js"}


def test_no_file_names_another_origin_to_fetch_from() -> None:
    for file in [*UI.rglob("*.css"), UI / "index.html"]:
        assert not re.search(r"(src|href|url\(|@import)\W+https?:", file.read_text("utf-8"))
