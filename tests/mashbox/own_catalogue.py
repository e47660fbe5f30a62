"""A catalogue of the user's own for tests, with weights that are here and weights that are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.model_folders import write_folder

_OWN = {
    "models": {
        "tiny": {"weights": {"file": "tiny"}, "parameters": "1M", "context": 64},
        "middle": {"weights": {"hub": "org/middle"}, "parameters": "8B", "size_bytes": 16 * 10**9},
        "huge": {"weights": {"hub": "org/huge"}, "parameters": "900B-A3B"},
        "vague": {"weights": {"hub": "org/vague"}},
    }
}


def write_catalogue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put it over the shipped one; `tiny` is a real model, the hub's are nowhere."""
    write_folder(folder / "tiny")
    path = folder / "models.json"
    path.write_text(json.dumps(_OWN))
    monkeypatch.setenv("MASHBOX_MODELS", str(path))
    monkeypatch.setenv("MASHBOX_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("HF_HOME", str(folder / "hub"))
    monkeypatch.setattr("engine.catalog.hub_folder", lambda name: None)
