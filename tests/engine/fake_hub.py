"""A Hugging Face hub on this machine: as much of its HTTP as a download needs."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" + "0" * 34


@dataclass
class FakeHub:
    """What the hub says of every model, and what was asked of it.

    `refusals` are statuses with the hub's error code by part of the request line. `cuts` are how
    often the body of a file ends in its middle.
    """

    files: dict[str, bytes]
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    cuts: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def sent(self) -> list[str]:
        """The names of the files whose bodies were asked for."""
        return [line.split("/")[-1] for line in self.asked if re.match("GET .*/resolve/.*/", line)]


@contextmanager
def fake_hub(hub: FakeHub) -> Iterator[FakeHub]:
    """Serve `hub` on a free port of this machine."""

    class Handler(_Handler):
        pass

    Handler.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub, path = self.hub, self.path.split("?")[0]
        line = f"{self.command} {path}"
        hub.asked.append(f"{line} {self.headers.get('Range', '')}".rstrip())
        refusal = next((r for part, r in hub.refusals.items() if part in line), None)
        if refusal:
            self._send(refusal[0], b"{}", {"X-Error-Code": refusal[1]})
        elif "/tree/" in path:
            self._json([_entry(name, data) for name, data in hub.files.items()])
        elif path.startswith("/api/models/"):
            self._json({"id": "org/model", "sha": COMMIT, "siblings": []})
        else:
            self._file(path.rsplit("/", 1)[1])

    def _file(self, name: str) -> None:
        data = self.hub.files.get(name)
        if data is None:
            return self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        start = int(self.headers.get("Range", "bytes=0-")[6:].split("-")[0])
        headers = {"ETag": f'"{sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        cut = self.command == "GET" and self.hub.cuts.get(name, 0) > 0
        if cut:
            self.hub.cuts[name] -= 1
            self.close_connection = True
        self._send(206 if start else 200, data[start:], headers, len(data) // 2 if cut else None)

    def _json(self, data: object) -> None:
        self._send(200, json.dumps(data).encode(), {"Content-Type": "application/json"})

    def _send(
        self, status: int, body: bytes, headers: dict[str, str], length: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:length])


def _entry(name: str, data: bytes) -> dict[str, object]:
    return {"type": "file", "path": name, "size": len(data), "oid": sha256(data).hexdigest()[:40]}
