from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.config import EngineConfig
from mashbox.console import Console
from mashbox.start import ModelOptions, configure
from tests.engine.model_folders import write_folder


@pytest.fixture(autouse=True)
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue with a model of some kilobytes, and a tool format that its template lacks."""
    write_folder(tmp_path / "folder")
    entry = {"weights": {"file": "folder"}, "tool_format": "llama3"}
    (tmp_path / "models.json").write_text(json.dumps({"models": {"tiny": entry}}))
    monkeypatch.setenv("MASHBOX_MODELS", str(tmp_path / "models.json"))


def configured(name: str, tool_format: str | None = None) -> EngineConfig:
    options = ModelOptions(16, 1, 0, "cpu", "auto", "auto", None, tool_format, None)
    return configure(Console(quiet=True), name, options)


def test_the_catalogue_s_tool_format_is_taken_unless_another_is_asked_for() -> None:
    assert configured("tiny").tool_format == "llama3"
    assert configured("tiny", "mistral").tool_format == "mistral"


def test_a_path_s_tool_format_is_left_to_its_template(tmp_path: Path) -> None:
    assert configured(str(tmp_path / "folder")).tool_format is None
