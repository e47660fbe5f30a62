"""Runs one server: bind first, then load, serve, and on a signal drain and stop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Container
from dataclasses import dataclass

from engine.engine import Engine
from handlers.tenants import Tenants
from mashbox.console import Console, Welcome
from mashbox.failures import stop_signals
from mashbox.listener import allow_many_connections
from mashbox.pulse import pulse


class _Signals:
    """The first of `stop_signals` asks to stop, the second one stops at once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.stop = asyncio.Event()
        for number in stop_signals():
            asyncio.get_running_loop().add_signal_handler(number, self._received)

    def _received(self) -> None:
        if self.stop.is_set():
            # The worker ends by itself when its pipe closes.
            self._console.line("stopped at once")
            os._exit(130)
        self.stop.set()


@dataclass(frozen=True, slots=True)
class Front:
    """What the HTTP side is made with; see `mashbox.app.create_app`."""

    hosts: Container[str]
    tenants: Tenants
    ui: bool


async def serve(
    engine: Engine, sock: socket.socket, console: Console, front: Front, drain_seconds: float
) -> None:
    """Serve until a signal, then let running answers end for `drain_seconds`.

    Raises ModelError when the model cannot be loaded.
    """
    allow_many_connections()
    signals = _Signals(console)
    console.wait("starting")
    loading = asyncio.create_task(engine.start(console.worker_progress))
    await asyncio.sleep(0)
    # Imported here, while the worker starts: it takes half of the time until a mock is ready.
    from mashbox.app import create_app
    from mashbox.http_server import http_server

    server = http_server(create_app(engine, front.hosts, front.tenants, front.ui))
    engine.import_renderer()
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        if await _is_loaded(loading, signals.stop):
            welcome = Welcome(keyed=bool(front.tenants), page=front.ui)
            console.ready(sock.getsockname(), engine, welcome)
            beating = asyncio.create_task(pulse(engine))
            await signals.stop.wait()
            beating.cancel()
        console.stopping(engine.health().running, drain_seconds)
        await engine.drain(drain_seconds)
    finally:
        await engine.close()
        server.should_exit = True
        await serving
    console.stopped(engine.stats)


async def _is_loaded(loading: asyncio.Task[None], stop: asyncio.Event) -> bool:
    """Wait until the model is loaded; False when asked to stop meanwhile."""
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
