"""What the documents say must be what the code does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer

from engine.catalog import default_model
from engine.catalog_file import Entry, HubModel, read_catalogue
from mashbox.cli import app

ROOT = Path(__file__).parents[1]
PACKAGES = ("mashbox", "handlers", "engine", "codegen", "generated")
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], key=lambda path: path.as_posix()
)
README = (ROOT / "README.md").read_text("utf-8")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def option_rows() -> list[str]:
    """README's table of options, as `mashbox run --help` has them."""
    command: Any = typer.main.get_command(app)
    rows = []
    for parameter in command.commands["run"].params:
        name = parameter.opts[0] if parameter.opts[0].startswith("--") else "[model]"
        default = parameter.default
        default = default.value if isinstance(default, Enum) else default
        shown = "" if default in (None, []) else f"`{default}`"
        rows.append(f"| `{name}` | {shown} | {parameter.help} |")
    return rows


def table(heading: str) -> list[str]:
    """The rows of the table under one of README's headings."""
    section = README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


def anchors(document: Path) -> set[str]:
    """The link targets of a document's headings, spelled GitHub's way."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links() -> Iterator[tuple[Path, str]]:
    for document in DOCUMENTS:
        for target in LINK.findall(document.read_text("utf-8")):
            if "://" not in target:
                yield document, target


def test_options_are_those_of_help() -> None:
    assert table("Options") == option_rows()


def test_the_default_model_is_the_one_in_the_examples() -> None:
    assert f'model="{default_model()}"' in README


def model_row(entry: Entry) -> str:
    """An entry's row in docs/models.md."""
    weights = entry.weights.id if isinstance(entry.weights, HubModel) else entry.source
    size = f"{entry.size_bytes / 1e9:.1f} GB" if entry.size_bytes else ""
    advice = ", ".join(f"{name} {value:g}" for name, value in entry.sampling.items())
    cells = [f"`{entry.id}`", weights, size, f"{entry.context:,}", entry.thinking]
    cells += [f"`{entry.tool_format}`", advice, entry.licence]
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def test_every_model_of_the_catalogue_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASHBOX_MODELS", raising=False)
    monkeypatch.setattr("engine.catalog_file.user_config_path", lambda name: ROOT / "nowhere")
    document = (ROOT / "docs" / "models.md").read_text("utf-8")
    section = document.split("\n## The catalogue\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert rows == [model_row(entry) for entry in read_catalogue().entries.values()]


def test_every_route_is_named() -> None:
    document = json.loads((ROOT / "openapi.json").read_text("utf-8"))
    routes = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
        if method != "head"  # answered on every path, and said so in one sentence
    }
    named = set(re.findall(r"`([A-Z]+ /[^`]*)`", "\n".join(table("Routes"))))
    assert named == routes


def test_every_environment_variable_is_documented() -> None:
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    found = {n for p in sources for n in re.findall(r"MASHBOX_[A-Z_]+", p.read_text("utf-8"))}
    documents = "\n".join(path.read_text("utf-8") for path in DOCUMENTS)
    assert found
    assert found <= set(re.findall(r"`(MASHBOX_[A-Z_]+)`", documents))


@pytest.mark.parametrize(
    ("document", "target"), list(links()), ids=lambda value: getattr(value, "name", value)
)
def test_links_lead_somewhere(document: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    file = (document.parent / path).resolve() if path else document
    assert file.exists()
    assert not anchor or anchor in anchors(file)


def test_every_document_is_reached_from_the_readme() -> None:
    linked = {
        (document.parent / target.partition("#")[0]).resolve() for document, target in links()
    }
    assert set(DOCUMENTS) - linked <= {ROOT / "README.md"}


def test_the_ci_script_runs_the_readmes_test_command() -> None:
    section = README.split("\n## Tests\n", 1)[1]
    command = re.findall(r"```sh\n(.+?)\n```", section, re.DOTALL)[0]
    assert command in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
