from __future__ import annotations

import socket

import pytest

from mashbox.hosts import host_name, host_names, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.5.5.5", "::1", "localhost"])
def test_addresses_of_this_machine_alone_are_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.2", "fe80::1", "box", "127.1", ""])
def test_all_others_are_not(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Box.Example", "box.example"),
        ("my_box-1", "my_box-1"),
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "[::1]"),
        ("[FE80::1]", "[fe80::1]"),
    ],
)
def test_a_name_is_spelled_as_in_a_host_header(text: str, name: str) -> None:
    assert host_name(text) == name


@pytest.mark.parametrize(
    "text",
    ["", " ", "a b", "*", "*.example.com", "box:80", "http://box", "box/", "...", "é", "a" * 64],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no host name"):
        host_name(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_on_loopback_the_loopback_names_and_the_allowed_ones_are_answered(host: str) -> None:
    names = host_names(host, ["Box.Example"])
    for name in ("localhost", "127.0.0.1", "[::1]", "box.example", host):
        assert name in names
    for name in ("192.0.2.1", "[fe80::1]", socket.gethostname().lower(), "example", ""):
        assert name not in names


def test_off_loopback_any_address_and_the_machine_s_name_are_answered_too() -> None:
    names = host_names("box.lan", ["box.example"])
    for name in ("localhost", "box.lan", "box.example", "192.0.2.1", "[fe80::1]"):
        assert name in names
    assert socket.gethostname().lower() in names
    for name in ("evil.example", "192.0.2.1.evil.example", "0x7f.1", "box", ""):
        assert name not in names
