"""What a wheel must hold besides Python's modules."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("mashbox", "handlers", "engine", "generated")


def test_every_file_of_a_package_is_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    for package in PACKAGES:
        folder = ROOT / package
        taken = {
            path for glob in settings["package-data"].get(package, ()) for path in folder.glob(glob)
        }
        files = {
            path
            for path in folder.rglob("*")
            if path.is_file() and path.suffix not in (".py", ".pyc")
        }
        assert files == taken
