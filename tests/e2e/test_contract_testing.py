"""docs/contract-testing.md: its files are run as a client team would run them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.mashbox.traffic import check

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contract-testing.md").read_text("utf-8")
# pip has no network here; what it would install is there.
INSTALL = "pip install "


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.+?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A client team's folder, with `mashbox` and `pytest` on the path."""
    folder = tmp_path_factory.mktemp("project")
    for code in blocks("python"):
        (folder / code.partition("\n")[0].removeprefix("# ")).write_text(code)
    (folder / "answers.json").write_text(blocks("json")[0])
    for name in ("mashbox", "pytest"):
        command = folder / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {name} "$@"\n')
        command.chmod(0o755)
    return folder


def shell(project: Path, script: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PATH": f"{project / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    command = ["bash", "-e", "-o", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=120
    )


def test_the_workflow_runs_and_its_last_check_finds_what_breaks(project: Path) -> None:
    workflow: dict[str, Any] = yaml.safe_load(blocks("yaml")[0])
    steps = [step["run"] for step in workflow["jobs"]["contract"]["steps"] if "run" in step]
    install, *others = steps
    assert install.startswith(INSTALL)
    for step in others:
        done = shell(project, step)
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "9 requests, 9 responses checked, 0 findings\n"
    traffic = (project / "traffic.jsonl").read_bytes()
    found = check(traffic.replace(b"chat.completion.chunk", b"chunk"))
    assert len([line for line in found if 'object should be "chat.completion.chunk".' in line]) == 2


def test_the_mock_beside_tests_in_a_shell(project: Path) -> None:
    (script,) = [block for block in blocks("sh") if "curl" in block]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    done = shell(project, script.replace("8000", port))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "ok"


def test_the_example_of_a_json_line_is_one() -> None:
    totals = "1 request, 1 response checked, 0 findings"
    assert check(blocks("json")[1].encode()) == [totals]
