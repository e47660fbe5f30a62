"""Runs one server: bind first, then load, serve, and on a signal drain and stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import socket
from collections.abc import Generator

import psutil
import uvicorn
from starlette.types import ASGIApp

from engine.engine import Engine
from mashbox.console import Console
from mashbox.http_protocol import READ_SECONDS, LimitedHttp

# What a connection may still need once its answer is out.
_CLOSE_SECONDS = 2
# Longer than clients and proxies keep idle connections, so that none closes under a request.
_IDLE_SECONDS = 75
_OPEN_FILES = 65_536


class AddressInUse(Exception):
    """The address to bind is taken; the message says by whom, if that can be told."""


def bind(host: str, port: int) -> socket.socket:
    """Bind the listening socket; raises AddressInUse, and OSError for an address not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _end_dead_connections(sock)
    try:
        sock.bind((host, port))
        # Another process may be bound without listening; only this tells.
        sock.listen(2048)
    except OSError as error:
        sock.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise AddressInUse(_in_use(host, port)) from None
    return sock


def _end_dead_connections(sock: socket.socket) -> None:
    """Have the kernel end connections whose peer is gone or reads nothing; accepted ones inherit.

    The kernel's buffers hide a client that reads nothing from everybody else.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    seconds = int(READ_SECONDS)
    options = {"TCP_USER_TIMEOUT": seconds * 1000, "TCP_KEEPIDLE": seconds, "TCP_KEEPINTVL": 10}
    for name, value in options.items():
        # Not every system has each of them.
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def allow_many_connections() -> None:
    """Raise the soft limit on open files, which is 1,024 on many systems, to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _in_use(host: str, port: int) -> str:
    pid = _listener_pid(port)
    other = f"the other server (pid {pid})" if pid else "the other server"
    return f"{host}:{port} is in use. Stop {other} or pass --port {port + 1}."


def _listener_pid(port: int) -> int | None:
    """Find the process that listens on `port`, where the system tells."""
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            local = connection.laddr
            if connection.status == psutil.CONN_LISTEN and local and local.port == port:
                return connection.pid
    return None


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own signal handling: it would close sockets before the drain."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class _Signals:
    """The first SIGINT or SIGTERM asks to stop, the second one stops at once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._received)

    def _received(self) -> None:
        if self.stop.is_set():
            # The worker ends by itself when its pipe closes.
            self._console.line("stopped at once")
            os._exit(130)
        self.stop.set()


async def serve(
    app: ASGIApp,
    engine: Engine,
    sock: socket.socket,
    console: Console,
    drain_seconds: float,
    keyed: bool = False,
) -> None:
    """Serve until a signal, then let running answers end for `drain_seconds`.

    `keyed` tells the console to say that callers need a key.

    Raises ModelError when the model cannot be loaded.
    """
    allow_many_connections()
    signals = _Signals(console)
    server = _Uvicorn(_uvicorn_config(app))
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        if await _load(engine, console, signals.stop):
            console.ready(sock.getsockname(), engine, keyed)
            await signals.stop.wait()
        console.stopping(engine.health().running, drain_seconds)
        await engine.drain(drain_seconds)
    finally:
        await engine.close()
        server.should_exit = True
        await serving
    console.stopped()


async def _load(engine: Engine, console: Console, stop: asyncio.Event) -> bool:
    """Load the model; False when asked to stop meanwhile."""
    loading = asyncio.ensure_future(engine.start(console.worker_progress))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
        return loading.done()
    finally:
        loading.cancel()
        stopping.cancel()
        await asyncio.gather(loading, stopping, return_exceptions=True)


def _uvicorn_config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=LimitedHttp,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
    )
