"""The chat page: static files that `--ui` adds to the server, and headers that fence them in."""

from __future__ import annotations

from collections.abc import Container
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from handlers.access import check_host, check_origin, read_host, wrong_method

_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".txt": "text/plain",
}
# The page shows what a model wrote: should a script get into it, it can neither run nor report.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class ChatPage:
    """Answers GET on `/` and on the files below `/ui/`; all else goes on to `app`.

    It needs no key and no model: the page itself waits for the one and asks for the other.
    `hosts` are the names that the server answers to.
    """

    def __init__(self, app: ASGIApp, hosts: Container[str]) -> None:
        self._app = app
        self._hosts = hosts
        folder = files("mashbox").joinpath("ui")
        self._files = {f"/ui/{name}": file for name, file in _walk(folder).items()}
        self._files["/"] = self._files.pop("/ui/index.html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; raises ApiError."""
        file = self._files.get(scope["path"])
        # HEAD tells readiness on every path, and the contract says what `/` takes.
        is_ours = scope["method"] == "GET" or (scope["method"] != "HEAD" and scope["path"] != "/")
        if file is None or not is_ours:
            await self._app(scope, receive, send)
            return
        self._check(scope)
        media_type = _TYPES[PurePath(file.name).suffix]
        # Read anew each time: who edits the page only reloads it.
        response = Response(file.read_bytes(), headers=HEADERS, media_type=media_type)
        await response(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = read_host(headers)
        check_host(host, self._hosts)
        check_origin(headers, host, scope)
        if scope["method"] != "GET":
            raise wrong_method(scope["path"], scope["method"], ("GET", "HEAD"))


def _walk(folder: Traversable) -> dict[str, Traversable]:
    """Find all files below a folder, by their paths inside it."""
    found: dict[str, Traversable] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            inner = _walk(entry)
            found |= {f"{entry.name}/{name}": file for name, file in inner.items()}
        else:
            found[entry.name] = entry
    return found
