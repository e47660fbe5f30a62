from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from codegen.__main__ import main
from codegen.document import Json


@pytest.fixture
def project(root: Path, tmp_path: Path) -> Path:
    shutil.copy(root / "openapi.json", tmp_path)
    shutil.copytree(root / "generated", tmp_path / "generated")
    return tmp_path


def test_check_passes_on_fresh_files(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"], project) == 0
    assert capsys.readouterr().out == ""


def test_check_fails_after_a_change_of_the_contract_until_generated_again(
    project: Path, document: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = json.loads(json.dumps(document))
    changed["components"]["schemas"]["TextFormat"]["properties"]["extra"] = {"type": "integer"}
    (project / "openapi.json").write_text(json.dumps(changed))
    assert main(["--check"], project) == 1
    assert "models.py: 1 lines to add, 0 lines to remove" in capsys.readouterr().out
    assert main([], project) == 0
    assert main(["--check"], project) == 0
