"""The listening socket: bound before anything is loaded, and never left to dead connections."""

from __future__ import annotations

import contextlib
import errno
import resource
import socket

import psutil

# How long a client may leave an answer unread.
READ_SECONDS = 30.0
_OPEN_FILES = 65_536
_LAST_PORT = 65_535


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
    free = port + 1 if port < _LAST_PORT else port - 1
    return f"{host}:{port} is in use. Stop {other} or pass --port {free}."


def _listener_pid(port: int) -> int | None:
    """Find the process that listens on `port`, where the system tells."""
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            local = connection.laddr
            if connection.status == psutil.CONN_LISTEN and local and local.port == port:
                return connection.pid
    return None
