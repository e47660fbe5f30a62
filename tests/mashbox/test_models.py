"""`mashbox models` and `mashbox pull`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config import ModelSource
from engine.errors import ModelError
from mashbox import models
from mashbox.console import Console
from mashbox.models import model_json, model_table, pull
from tests.mashbox.own_catalogue import write_catalogue


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_catalogue(tmp_path, monkeypatch)


def test_the_table_has_every_model_and_says_which_are_here() -> None:
    heading, *rows = (line.split("   ") for line in model_table())
    cells = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    assert [cell.strip() for cell in heading if cell] == list(models._HEADING)
    assert cells["tiny"] == ["1M", "-", "64", "file", "yes"]
    assert cells["middle"] == ["8B", "16.0 GB", "-", "hub", "no"]
    assert cells["smollm2-135m"] == ["135M", "93 MB", "8192", "PyPI", "no"]


def test_json_has_the_same_with_all_fields() -> None:
    found = {model["id"]: model for model in json.loads(model_json())}
    assert found["tiny"]["here"] is True and found["middle"]["here"] is False
    assert found["middle"]["size_bytes"] == 16 * 10**9
    assert [name for name, model in found.items() if model["default"]] == ["smollm2-135m"]


def test_pull_shows_the_way_and_says_where_the_model_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def resolve(name: str, on_progress: Callable[[int, int], None]) -> ModelSource:
        on_progress(0, 2_000_000)
        on_progress(2_000_000, 2_000_000)
        return ModelSource(name, tmp_path / "tiny")

    monkeypatch.setattr(models, "resolve", resolve)
    assert pull("middle", Console()) == f"middle is in {tmp_path / 'tiny'}"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" download (2 MB)")


def test_what_was_pulled_must_be_a_model(tmp_path: Path) -> None:
    (tmp_path / "tiny" / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(ModelError, match="not a safetensors file"):
        pull("tiny", Console())


def test_the_mock_needs_no_pull() -> None:
    with pytest.raises(
        ModelError, match=r"^mock has no weights\. It always runs: mashbox run mock"
    ):
        pull("mock", Console())
