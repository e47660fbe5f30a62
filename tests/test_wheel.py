"""The wheel is whole, and README's commands work in a fresh environment that has nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
PACKAGES = ("mashbox", "handlers", "engine", "generated")
# What README has one do, in its order: start, ask with curl, get OpenAI's client, ask with it.
INSTALL_AND_RUN, CURL, GET_CLIENT, PYTHON = re.findall(
    r"^```(?:sh|python)\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.M
)


def package_files(package: str) -> set[Path]:
    """The files of a package that are not Python's."""
    files = (path for path in (ROOT / package).rglob("*") if path.is_file())
    return {path for path in files if path.suffix not in (".py", ".pyc")}


def test_every_file_of_a_package_is_in_the_wheel() -> None:
    for package in PACKAGES:
        globs = SETTINGS["package-data"].get(package, ())
        taken = {path for glob in globs for path in (ROOT / package).glob(glob)}
        assert package_files(package) == taken


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder that stands for the checkout, but for the wheel."""
    folder, context = tmp_path_factory.mktemp("fresh"), tmp_path_factory.mktemp("context")
    # From what an image is built from. In the checkout an old build/ would be taken for new.
    for name in re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, context / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(context)], check=True)
    return folder


def shell(command: str, folder: Path) -> str:
    """What a command prints."""
    return subprocess.run(
        command, shell=True, cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def wait_ready(process: subprocess.Popen[str]) -> None:
    """Read what the server prints until it is ready."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "ready in" in line:
            return
    pytest.fail("".join(lines))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """README's first command, with the wheel in the checkout's place; gives the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (wheel,) = folder.glob("mashbox-*.whl")
    command = INSTALL_AND_RUN.replace("install .", f"install --quiet {wheel.name}")
    command = f"{command.strip()} --port {port}"
    assert wheel.name in command
    environment = {**os.environ, "PYTHONPATH": ""}
    with subprocess.Popen(
        command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            wait_ready(process)
            yield f"http://127.0.0.1:{port}"
        finally:
            for child in psutil.Process(process.pid).children():
                child.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "stopped" in output


@pytest.mark.wheel
def test_the_wheel_holds_the_contract_the_catalogue_and_the_page(folder: Path) -> None:
    (wheel,) = folder.glob("mashbox-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    files = [path for package in PACKAGES for path in package_files(package)]
    assert {path.relative_to(ROOT).as_posix() for path in files} <= names
    assert {"generated/openapi.json", "engine/models.json", "mashbox/ui/index.html"} <= names
    assert not [name for name in names if name.startswith(("tests/", "codegen/", "bench/"))]


@pytest.mark.wheel
def test_the_readme_s_curl_gets_an_answer(folder: Path, server: str) -> None:
    answer = json.loads(shell(CURL.replace("http://127.0.0.1:8000", server), folder))
    assert answer["choices"][0]["message"]["content"]


@pytest.mark.wheel
def test_the_readme_s_python_prints_an_answer(folder: Path, server: str) -> None:
    shell(GET_CLIENT, folder)
    program = PYTHON.replace("http://127.0.0.1:8000", server)
    (folder / "ask.py").write_text(program, "utf-8")
    assert shell(".venv/bin/python ask.py", folder).strip()


@pytest.mark.wheel
def test_the_command_in_the_fresh_environment_is_the_wheel_s(folder: Path, server: str) -> None:
    where = shell(".venv/bin/python -c 'import mashbox; print(mashbox.__file__)'", folder)
    assert Path(where.strip()).is_relative_to(folder / ".venv")
