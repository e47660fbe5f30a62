"""The programs of docs/sdks.md, and what they run with: a server, generators, a folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import Server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sdks.md").read_text("utf-8")
DEFAULT_ADDRESS = "http://127.0.0.1:8000"


class Workshop:
    """A folder like a client team's, where the page's commands run against a real server.

    `SDK_TOOLS` names the folder with the programs of an environment without mashbox.
    """

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        node = ROOT / "tests" / "node" / "node_modules"
        # Compiled programs need nothing from here, but type checks find their libraries by it.
        (folder / "node_modules").symlink_to(node, target_is_directory=True)
        path = os.pathsep.join([os.environ["SDK_TOOLS"], str(node / ".bin"), os.environ["PATH"]])
        self._environment = {"PATH": path, "HOME": str(folder)}

    def blocks(self, language: str) -> list[str]:
        """The page's blocks of one language, with the server's address."""
        found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
        return [block.replace(DEFAULT_ADDRESS, self.address) for block in found]

    def commands(self, program: str) -> list[str]:
        """Those of the page's shell lines that start with the program."""
        lines = [line for block in self.blocks("sh") for line in block.splitlines()]
        return [line for line in lines if line.startswith(program)]

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        (self.folder / name).write_text(text, "utf-8")

    def copy(self, name: str) -> None:
        """Take one of the programs beside this file."""
        shutil.copy(Path(__file__).parent / name, self.folder)

    def run(self, command: str) -> str:
        """Run a command line; returns its output, and fails with it unless it succeeds."""
        words = shlex.split(command)
        program = shutil.which(words[0], path=self._environment["PATH"])
        assert program, f"{words[0]} is not installed"
        done = subprocess.run(
            [program, *words[1:]],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with Server("mock") as server:
        yield server.wait_ready().url


@pytest.fixture
def workshop(tmp_path: Path, address: str) -> Workshop:
    return Workshop(tmp_path, address)
