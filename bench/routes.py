"""What the server process costs: plain routes, requests and streamed tokens, without a model.

    python -m bench.routes

Plain routes are compared with a bare Starlette app that answers the same bytes on the same uvicorn.
Requests and tokens go to the scripted model; the processor seconds are the server process's alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import httpx

from bench.compare import machine
from bench.figures import Figures, report
from bench.load import Client
from bench.peers import Peer, Running, free_port, started

ROUTES = ("/health", "/v1/models", "/metrics")
CONNECTIONS = 8
SHORT, LONG = 16, 512
CHATS = 24
SLOTS = 8
SCRIPT = {
    "answers": [
        {"match": {"user": "long"}, "parts": [{"text": "on and on ", "tokens": LONG}]},
        {"parts": [{"text": "on and on ", "tokens": SHORT}]},
    ]
}
BARE = """
import sys, uvicorn
from pathlib import Path
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
port, folder = int(sys.argv[1]), Path(sys.argv[2])
def route(file):
    body = file.read_bytes()
    async def answer(request):
        return Response(body, media_type="application/json")
    return Route("/" + file.name.replace("~", "/"), answer)
app = Starlette(routes=[route(file) for file in folder.iterdir()])
uvicorn.run(app, port=port, log_level="warning", access_log=False)
"""


async def _get_many(port: int, path: str, count: int) -> None:
    """`count` requests on one connection; written by hand so that the client costs little."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(count):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
        await reader.readexactly(int(length))
    writer.close()
    await writer.wait_closed()


async def _get_at_once(port: int, path: str, count: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(_get_many(port, path, count // CONNECTIONS))


def plain(running: Running, path: str, count: int) -> Figures:
    """Requests per second and CPU of one, for a route without a body."""
    asyncio.run(_get_at_once(running.peer.port, path, CONNECTIONS * 8))
    cpu, began = running.own_cpu_seconds(), time.perf_counter()
    asyncio.run(_get_at_once(running.peer.port, path, count))
    seconds, used = time.perf_counter() - began, running.own_cpu_seconds() - cpu
    return {f"GET {path} /s": count / seconds, f"GET {path} CPU us": 1e6 * used / count}


def chats(running: Running, concurrency: int) -> Figures:
    """CPU of a request and of one more streamed token, from short and long answers."""
    _ask(running, "short", concurrency)
    short, long = _ask(running, "short", concurrency), _ask(running, "long", concurrency)
    token = (long - short) / CHATS / (LONG - SHORT)
    return {
        f"chat at {concurrency}: request CPU ms": 1e3 * (short / CHATS - SHORT * token),
        f"chat at {concurrency}: token CPU us": 1e6 * token,
    }


def _ask(running: Running, text: str, concurrency: int) -> float:
    """Processor seconds of the server process for CHATS answers."""

    async def ask() -> None:
        client = Client(running.peer.url, running.peer.model)
        await client.chats([text] * CHATS, 2 * LONG, concurrency)
        await client.close()

    before = running.own_cpu_seconds()
    asyncio.run(ask())
    return running.own_cpu_seconds() - before


def _ours(folder: Path) -> Peer:
    script, port = folder / "script.json", free_port()
    script.write_text(json.dumps(SCRIPT))
    options = ("--mock-script", str(script), "--port", str(port), "--slots", str(SLOTS))
    command = (sys.executable, "-m", "mashbox", "run", "mock", *options)
    return Peer("mashbox", command, port, "mock")


def _bare(bodies: dict[str, bytes], folder: Path) -> Peer:
    routes, port = folder / "routes", free_port()
    routes.mkdir(exist_ok=True)
    for path, body in bodies.items():
        (routes / path[1:].replace("/", "~")).write_bytes(body)
    return Peer("Starlette", (sys.executable, "-c", BARE, str(port), str(routes)), port, "")


def compare(pairs: int, requests: int) -> str:
    """Run both in turn; gives the report."""
    runs: dict[str, list[Figures]] = {"mashbox": [], "Starlette": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(pairs):
            with started(_ours(folder), folder / "log") as running:
                bodies = {path: httpx.get(running.peer.url + path).content for path in ROUTES}
                figures = [plain(running, path, requests) for path in ROUTES]
                figures += [chats(running, concurrency) for concurrency in (1, SLOTS)]
            runs["mashbox"].append({k: v for each in figures for k, v in each.items()})
            with started(_bare(bodies, folder), folder / "log") as running:
                figures = [plain(running, path, requests) for path in ROUTES]
            runs["Starlette"].append({k: v for each in figures for k, v in each.items()})
    return report("server process", runs, ["mashbox"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000, help="of every plain route")
    arguments = parser.parse_args()
    print(f"{machine()}, {arguments.pairs} pairs\n")
    print(compare(arguments.pairs, arguments.requests))


if __name__ == "__main__":
    main()
