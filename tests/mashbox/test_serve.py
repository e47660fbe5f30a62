"""Binding the listening socket."""

from __future__ import annotations

import os
import socket

import pytest

from mashbox.serve import AddressInUse, bind


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
