"""Binding the listening socket."""

from __future__ import annotations

import os
import resource
import socket

import pytest

from mashbox.listener import AddressInUse, allow_many_connections, bind


def test_port_0_takes_a_free_one() -> None:
    with bind("127.0.0.1", 0) as sock:
        assert sock.getsockname()[1] > 0


def test_a_taken_port_names_who_holds_it_and_the_next_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressInUse) as refusal:
            bind("127.0.0.1", port)
    assert str(refusal.value) == (
        f"127.0.0.1:{port} is in use. Stop the other server (pid {os.getpid()}) "
        f"or pass --port {port + 1}."
    )


def test_an_address_of_another_machine_is_an_os_error() -> None:
    with pytest.raises(OSError):
        bind("192.0.2.1", 0)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has it")
def test_the_kernel_ends_connections_whose_peer_is_gone_or_reads_nothing() -> None:
    with bind("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()):
        accepted, _ = sock.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def test_the_limit_on_open_files_is_raised_but_never_lowered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: limits.append(pair))
    unlimited = resource.RLIM_INFINITY
    for present in ((1024, 4096), (1024, unlimited), (100_000, unlimited), (4096, 4096)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, pair=present: pair)
        allow_many_connections()
    assert limits == [(4096, 4096), (65_536, unlimited)]
