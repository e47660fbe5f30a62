"""Renders all files of `generated`, writes them, or tells how a folder differs from them."""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from codegen.document import Json, operations
from codegen.models import TEMPLATES, write_models
from codegen.routing import render_routing

HEADER = "Generated from openapi.json by `python -m codegen`; do not edit."


def render(contract: str) -> dict[str, str]:
    """Return the text of each generated file by name; it depends on the contract's text alone."""
    document = json.loads(contract)
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_models(document, HEADER, folder)
        _write_templates(document, folder)
        _format(folder)
        files = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    files["routing.json"] = render_routing(document, HEADER)
    # The package carries what the server gives out, and that has no header of ours.
    files["openapi.json"] = contract
    return dict(sorted(files.items()))


def write(files: Mapping[str, str], folder: Path) -> None:
    """Make a folder hold these files and no other Python or JSON files."""
    folder.mkdir(exist_ok=True)
    for path in _generated_paths(folder):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def differences(files: Mapping[str, str], folder: Path) -> list[str]:
    """Say in one line a file what a folder has missing, changed or too much."""
    found = {path.name: path.read_text(encoding="utf-8") for path in _generated_paths(folder)}
    lines = [f"{name}: not generated any more" for name in found if name not in files]
    for name, text in files.items():
        if name not in found:
            lines.append(f"{name}: missing")
        elif found[name] != text:
            lines.append(f"{name}: {_changed_lines(found[name], text)}")
    return sorted(lines)


def _generated_paths(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix in (".py", ".json"))


def _changed_lines(old: str, new: str) -> str:
    marks = [line[0] for line in difflib.ndiff(old.splitlines(), new.splitlines())]
    return f"{marks.count('+')} lines to add, {marks.count('-')} lines to remove"


def _write_templates(document: Json, folder: Path) -> None:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, autoescape=False
    )
    values = {"header": HEADER, "operations": list(operations(document))}
    for name in environment.list_templates(filter_func=lambda name: "/" not in name):
        text = environment.get_template(name).render(values)
        (folder / name.removesuffix(".jinja2")).write_text(text, encoding="utf-8")


def _format(folder: Path) -> None:
    """Format with settings of our own: those of a surrounding folder must not show."""
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--isolated", "--no-cache", "--quiet", "--target-version", "py311"]
    settings += ["--config", "line-length=100"]
    imports = ["--select", "F401,I", "--config", 'lint.isort.known-first-party=["generated"]']
    subprocess.run([*ruff, "check", *settings, *imports, "--fix", "."], cwd=folder, check=True)
    subprocess.run([*ruff, "format", *settings, "."], cwd=folder, check=True)
