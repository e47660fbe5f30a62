"""uvicorn as mashbox runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import uvicorn
from starlette.types import ASGIApp

from mashbox.http_protocol import LimitedHttp

# What a connection may still need once its answer is out.
_CLOSE_SECONDS = 2
# Longer than clients and proxies keep idle connections, so that none closes under a request.
_IDLE_SECONDS = 75


def http_server(app: ASGIApp) -> uvicorn.Server:
    """Build the server of `app`; its `serve` takes sockets that are bound already."""
    config = uvicorn.Config(
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
    return _Uvicorn(config)


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own signal handling: it would close sockets before the drain."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
