from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from handlers.tenants import key_digest
from mashbox.keys import BadKeys, exposure, read_keys

ALICE, BOB, CAROL = "alice-key-0123456789", "bob-key-0123456789", "carol-key-0123456789"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.txt"


def tenants(path: Path, text: str | bytes, variable: str | None = None) -> dict[str, str]:
    """The tenants by the keys above."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    read = read_keys(path, variable)
    known = {key_digest(key): key for key in (ALICE, BOB, CAROL)}
    return {known[digest]: tenant for digest, tenant in read.items()}


def refusal(path: Path, text: str | bytes, variable: str | None = None) -> str:
    with pytest.raises(BadKeys) as caught:
        tenants(path, text, variable)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert ALICE not in shown
    return str(caught.value).removeprefix(str(path))


def test_a_key_stands_for_the_tenant_named_after_it_or_is_its_own(path: Path) -> None:
    text = f"# the team\n\n{ALICE}\tred  # laptop\n  {BOB} red\n{CAROL} # nobody's\n"
    assert tenants(path, text) == {ALICE: "red", BOB: "red", CAROL: "key:5"}


def test_line_ends_and_byte_order_mark_of_windows_are_fine(path: Path) -> None:
    text = b"\xef\xbb\xbf" + f"{ALICE} red\r\n{BOB}\r\n".encode()
    assert tenants(path, text) == {ALICE: "red", BOB: "key:2"}


def test_the_variable_is_a_key_beside_the_file_s(path: Path) -> None:
    assert tenants(path, ALICE, BOB) == {ALICE: "key:1", BOB: "key:env"}
    assert read_keys(None, BOB) == {key_digest(BOB): "key:env"}


@pytest.mark.parametrize("variable", [None, ""])
def test_without_file_and_variable_there_are_no_keys(variable: str | None) -> None:
    assert not read_keys(None, variable)


def test_neither_keys_nor_parts_of_them_are_kept(path: Path) -> None:
    path.write_text(f"{ALICE}\n{BOB} red\n")
    kept = repr(read_keys(path, CAROL))
    assert not any(key[:5] in kept for key in (ALICE, BOB, CAROL))


TEXT_WANTED = " --api-key-file takes a text file with one key a line."
NAME_WANTED = (
    "after the key a line may have a tenant's name: "
    "up to 64 letters, digits, dots, dashes and underscores."
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " has no keys." + TEXT_WANTED),
        ("# none\n \n", " has no keys." + TEXT_WANTED),
        (f"{ALICE}\n\n{'k' * 15}\n", ":3: a key must be at least 16 characters."),
        (f"schlüssel-{ALICE}", ":1: a key must be letters, digits and signs of ASCII only."),
        (f"{ALICE}\0", ":1: a key must be letters, digits and signs of ASCII only."),
        (f"{ALICE} red blue", ":1: " + NAME_WANTED),
        (f"{ALICE} red:1", ":1: " + NAME_WANTED),
        (f"{ALICE} {'r' * 65}", ":1: " + NAME_WANTED),
        (b"\xff\xfe" + ALICE.encode("utf-16-le"), " is not a text file in UTF-8." + TEXT_WANTED),
        (b"\x80\x02}q\x00" * 9, " is not a text file in UTF-8." + TEXT_WANTED),
    ],
)
def test_a_file_that_is_wrong_is_told_with_its_line(
    path: Path, text: str | bytes, message: str
) -> None:
    assert refusal(path, text) == message


def test_a_key_that_stands_twice_is_told(path: Path) -> None:
    message = refusal(path, f"{ALICE} red\n{BOB}\n{ALICE} red\n")
    assert message == f":3: this key is the one of {path}:1. Remove one."
    message = refusal(path, f"{BOB}\n{ALICE}\n", ALICE)
    assert message == f"MASHBOX_API_KEY: this key is the one of {path}:2. Remove one."


@pytest.mark.parametrize("variable", ["short", " ", "k" * 15])
def test_a_variable_that_is_no_key_is_told(variable: str) -> None:
    with pytest.raises(BadKeys, match=r"^MASHBOX_API_KEY: a key must be at least 16 characters\.$"):
        read_keys(None, variable)


def test_a_variable_that_no_header_can_carry_is_told() -> None:
    with pytest.raises(BadKeys, match=r"^MASHBOX_API_KEY: a key must be letters"):
        read_keys(None, ALICE + "\n")


def test_a_file_that_cannot_be_read_is_told(path: Path) -> None:
    for place, reason in ((path, "No such file or directory"), (path.parent, "Is a directory")):
        with pytest.raises(BadKeys) as caught:
            read_keys(place, None)
        assert str(caught.value) == f"{place} cannot be read ({reason}).{TEXT_WANTED}"


@pytest.mark.parametrize(("mode", "shown"), [(0o644, "0644"), (0o640, "0640"), (0o604, "0604")])
def test_a_file_that_others_can_read_is_told_with_the_remedy(
    tmp_path: Path, mode: int, shown: str
) -> None:
    path = tmp_path / "my keys.txt"
    path.touch(mode)
    path.chmod(mode)
    assert exposure(path) == f"{path} can be read by others (mode {shown}). Run: chmod 600 '{path}'"


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_of_the_owner_alone_is_fine(path: Path, mode: int) -> None:
    path.touch()
    path.chmod(mode)
    assert exposure(path) is None
