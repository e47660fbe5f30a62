"""`mashbox models` and `mashbox pull`: what the catalogue has, and getting it."""

from __future__ import annotations

import json
from typing import Any

from engine.catalog import default_model, entries, here, resolve
from engine.catalog_file import Entry
from engine.errors import ModelError
from engine.model_files import read_header
from engine.script import MOCK
from mashbox.columns import columns
from mashbox.console import Console
from mashbox.wording import size

# All of an entry but `weights`, for which `source` stands, and `sampling`, which is for clients.
_FIELDS = (
    *("id", "name", "family", "parameters", "size_bytes", "context", "source"),
    *("thinking", "tool_format", "licence"),
)
_HEADING = ("MODEL", "PARAMETERS", "SIZE", "CONTEXT", "SOURCE", "HERE")


def model_table() -> list[str]:
    """Give the catalogue's lines; raises ModelError when the user's own file is broken."""
    return columns([_HEADING, *map(_row, entries())])


def model_json() -> str:
    """Give the catalogue as a JSON array, an object a model; raises ModelError like the table."""
    default = default_model()
    return json.dumps([_object(entry, entry.id == default) for entry in entries()], indent=2)


def pull(name: str, console: Console) -> str:
    """Fetch a model unless it is here, and say where it is; raises ModelError."""
    refuse_mock(name)
    source = resolve(name, lambda done, total: console.progress("download", done, total))
    console.clear()
    # A hub id may name what is no model that writes; better told now than at the next run.
    read_header(source.path)
    return f"{source.id} is in {source.path}"


def refuse_mock(name: str) -> None:
    """Raise ModelError for the mock, which is no model of the catalogue."""
    if name == MOCK:
        raise ModelError(f"{MOCK} has no weights. It always runs: mashbox run {MOCK}")


def _row(entry: Entry) -> tuple[str, ...]:
    is_here = "yes" if here(entry) else "no"
    context = "-" if entry.context is None else f"{entry.context}"
    parameters = entry.parameters or "-"
    return entry.id, parameters, size(entry.size_bytes), context, entry.source, is_here


def _object(entry: Entry, is_default: bool) -> dict[str, Any]:
    known = {name: getattr(entry, name) for name in _FIELDS}
    return known | {"here": here(entry), "default": is_default}
