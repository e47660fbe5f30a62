from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.config import EngineConfig
from mashbox import start
from mashbox.console import Console
from mashbox.memory import Room
from mashbox.start import ModelOptions, configure
from tests.engine.model_folders import write_folder


@pytest.fixture(autouse=True)
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue with a model of some kilobytes, and a tool format that its template lacks."""
    write_folder(tmp_path / "folder")
    entry = {"weights": {"file": "folder"}, "tool_format": "llama3"}
    (tmp_path / "models.json").write_text(json.dumps({"models": {"tiny": entry}}))
    monkeypatch.setenv("MASHBOX_MODELS", str(tmp_path / "models.json"))


def configured(
    name: str, tool_format: str | None = None, ctx: int | None = 16, quiet: bool = True
) -> EngineConfig:
    options = ModelOptions(ctx, 1, 0, "cpu", "auto", "auto", None, tool_format, None)
    return configure(Console(quiet), name, options)


def test_the_catalogue_s_tool_format_is_taken_unless_another_is_asked_for() -> None:
    assert configured("tiny").tool_format == "llama3"
    assert configured("tiny", "mistral").tool_format == "mistral"


def test_a_path_s_tool_format_is_left_to_its_template(tmp_path: Path) -> None:
    assert configured(str(tmp_path / "folder")).tool_format is None


def test_a_context_that_is_cut_to_what_fits_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "find_room", lambda device: Room(10**9, on_gpu=False))
    monkeypatch.setattr(start, "choose_ctx", lambda demand, wanted, slots, free: wanted or 64)
    configured("tiny", ctx=None, quiet=False)
    said = [line[20:] for line in capsys.readouterr().err.splitlines()]
    assert said[0].endswith("   tiny")
    assert "cache 1 slot × 64 tokens" in said[1] and said[1].endswith("of 1.0 GB free")
    assert said[2:] == ["context   64 tokens; the model's 128 do not fit"]
    # Who names a length knows it.
    configured("tiny", ctx=64, quiet=False)
    assert "do not fit" not in capsys.readouterr().err
