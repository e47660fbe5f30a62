from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from codegen.generate import HEADER, differences, render, write

NAMES = ["__init__.py", "_base.py", "models.py", "openapi.json", "routes.py", "routing.json"]


@pytest.fixture
def folder(rendered: dict[str, str], tmp_path: Path) -> Path:
    write(rendered, tmp_path / "generated")
    return tmp_path / "generated"


def test_committed_files_are_fresh(rendered: dict[str, str], root: Path) -> None:
    assert differences(rendered, root / "generated") == []


def test_every_file_but_the_contract_names_the_command(rendered: dict[str, str]) -> None:
    assert list(rendered) == NAMES
    heads = {name: text.split("\n\n")[0] for name, text in rendered.items()}
    assert [name for name, head in heads.items() if HEADER not in head] == ["openapi.json"]


def test_the_contract_is_copied_as_it_is(rendered: dict[str, str], contract: str) -> None:
    assert rendered["openapi.json"] == contract


@pytest.mark.parametrize("name", NAMES)
def test_a_touched_file_is_stale(rendered: dict[str, str], folder: Path, name: str) -> None:
    path = folder / name
    path.write_text(path.read_text() + "# touched\n")
    assert differences(rendered, folder) == [f"{name}: 0 lines to add, 1 lines to remove"]


def test_a_missing_file_is_stale(rendered: dict[str, str], folder: Path) -> None:
    (folder / "models.py").unlink()
    assert differences(rendered, folder) == ["models.py: missing"]


def test_a_file_that_is_not_generated_is_found_and_removed(
    rendered: dict[str, str], folder: Path
) -> None:
    (folder / "old.py").touch()
    assert differences(rendered, folder) == ["old.py: not generated any more"]
    write(rendered, folder)
    assert differences(rendered, folder) == []


def test_output_does_not_depend_on_the_folder_or_its_settings(
    contract: str, rendered: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = """
        tool.datamodel-codegen.use-one-literal-as-default = true
        tool.ruff.format.quote-style = "single"
    """
    (tmp_path / "pyproject.toml").write_text(settings)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert render(contract) == rendered
