"""Reads API keys: a file with one key a line, and the environment's one key."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from handlers.tenants import SHORTEST_KEY, Tenants, key_digest

VARIABLE = "MASHBOX_API_KEY"
# What a header carries unharmed.
_KEY = re.compile(r"[!-~]+")
_TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")
_WANTED = "--api-key-file takes a text file with one key a line."


class BadKeys(Exception):
    """The keys cannot be used; the message tells where and why, and never a key."""


class _Entry(NamedTuple):
    """A key, the tenant it stands for, and the place to name when it is wrong."""

    key: str
    tenant: str
    place: str


def read_keys(path: Path | None, variable: str | None) -> Tenants:
    """Read the keys of a file and of the environment variable's value; raises BadKeys."""
    entries = [*(_read_file(path) if path else ())]
    if variable:
        entries.append(_Entry(variable, "key:env", VARIABLE))
    tenants: dict[bytes, str] = {}
    # To tell where a key stands twice without repeating it.
    places: dict[bytes, str] = {}
    for entry in entries:
        _check(entry)
        digest = key_digest(entry.key)
        if digest in tenants:
            raise BadKeys(f"{entry.place}: this key is the one of {places[digest]}. Remove one.")
        tenants[digest] = entry.tenant
        places[digest] = entry.place
    return tenants


def exposure(path: Path) -> str | None:
    """Say it if other users of the machine can read the key file."""
    mode = path.stat().st_mode
    if not mode & 0o044:
        return None
    fix = f"chmod 600 {shlex.quote(str(path))}"
    return f"{path} can be read by others (mode {mode & 0o7777:04o}). Run: {fix}"


def _read_file(path: Path) -> Iterator[_Entry]:
    # Not splitlines, which counts lines that editors do not.
    lines = [_words(line) for line in _text(path).split("\n")]
    if not any(lines):
        raise BadKeys(f"{path} has no keys. {_WANTED}")
    for number, words in enumerate(lines, 1):
        if words:
            yield _entry(words, number, f"{path}:{number}")


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadKeys(f"{path} cannot be read ({error.strerror}). {_WANTED}") from None
    except UnicodeDecodeError:
        raise BadKeys(f"{path} is not a text file in UTF-8. {_WANTED}") from None


def _words(line: str) -> list[str]:
    """Split a line; a word that begins with # begins a comment."""
    words = line.split()
    ends = [position for position, word in enumerate(words) if word.startswith("#")]
    return words[: ends[0]] if ends else words


def _entry(words: list[str], number: int, place: str) -> _Entry:
    key, *names = words
    # A name of our own has a colon, so that no name in the file is the same.
    tenant = names[0] if names else f"key:{number}"
    if len(names) > 1 or (names and not _TENANT.fullmatch(tenant)):
        raise BadKeys(
            f"{place}: after the key a line may have a tenant's name: "
            "up to 64 letters, digits, dots, dashes and underscores."
        )
    return _Entry(key, tenant, place)


def _check(entry: _Entry) -> None:
    if len(entry.key) < SHORTEST_KEY:
        raise BadKeys(f"{entry.place}: a key must be at least {SHORTEST_KEY} characters.")
    if not _KEY.fullmatch(entry.key):
        raise BadKeys(f"{entry.place}: a key must be letters, digits and signs of ASCII only.")
