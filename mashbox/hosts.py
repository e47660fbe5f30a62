"""Which addresses others can reach, and the host names that the server answers to."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Container, Iterable

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
# DNS has no underscores, but container networks do.
_LABEL = r"[a-z0-9_-]{1,63}"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(text: str) -> str:
    """Give a name or IP address the way a Host header has it; raises ValueError."""
    name = text.lower().strip("[]")
    if _is_address(name):
        return f"[{name}]" if ":" in name else name
    if not _NAME.fullmatch(name):
        raise ValueError(f"{text!r} is no host name or IP address")
    return name


def host_names(host: str, allowed: Iterable[str]) -> Container[str]:
    """Give the names that a server listening on `host` answers to, `allowed` ones among them.

    Where others reach the server, any IP address is one: it may have many, or stand behind one.
    A page that has its own name point here cannot use an address.
    """
    # Loopback names stay: a tunnel ends on the machine itself.
    names = LOOPBACK_NAMES | {host_name(name) for name in (host, *allowed)}
    if is_loopback(host):
        return names
    return _NamesAndAddresses(names | {socket.gethostname().lower()})


class _NamesAndAddresses:
    """Names, and every IP address."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name in self._names or _is_address(str(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
