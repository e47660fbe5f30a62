"""What the documents say must be what the code does."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from cogapp import Cog

from engine.catalog import default_model
from engine.catalog_file import Entry, HubModel, read_catalogue
from mashbox.cli import app

ROOT = Path(__file__).parents[1]
PACKAGES = ("mashbox", "handlers", "engine", "codegen", "generated")
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], key=lambda path: path.as_posix()
)
README = (ROOT / "README.md").read_text("utf-8")
CLI = (ROOT / "docs" / "cli.md").read_text("utf-8")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
PARSERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "python": ast.parse,
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
}


def table(path: str, heading: str) -> list[str]:
    """The rows of the table under a document's heading."""
    text = (ROOT / path).read_text("utf-8")
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
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


def blocks(*languages: str) -> Iterator[Any]:
    """The fenced blocks of some languages, each with its document and line as its name."""
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        for block in BLOCK.finditer(text):
            if block[1] in languages:
                name = f"{document.name}:{text.count(chr(10), 0, block.start()) + 1}"
                yield pytest.param(*block.groups(), id=name)


def mashbox_commands(shell: str) -> Iterator[list[str]]:
    """The arguments of each `mashbox ...` in a shell block."""
    for line in shell.replace("\\\n", " ").splitlines():
        for command in re.findall(r"(?:^|[;&|] ?)(?:\S*/)?mashbox ([^;&|]+)", line.strip()):
            yield shlex.split(command, comments=True)


def test_the_command_line_s_page_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    page = str(ROOT / "docs" / "cli.md")
    assert Cog().main(["cog", "--check", "--diff", "-I", str(ROOT / "docs"), page]) == 0


def test_every_command_and_option_is_documented() -> None:
    for name, command in COMMANDS.items():
        section = CLI.split(f"\n## mashbox {name}\n", 1)[1].split("\n## ", 1)[0]
        rows = [line for line in section.splitlines() if line.startswith("| `")]
        assert len(rows) == len(command.params)
        for row, parameter in zip(rows, command.params, strict=True):
            assert parameter.opts[0] in row and parameter.help and parameter.help in row


@pytest.mark.parametrize(("language", "text"), list(blocks("sh")))
def test_commands_in_documents_have_options_that_exist(language: str, text: str) -> None:
    for name, *arguments in mashbox_commands(text):
        if not name.startswith("-"):
            command = COMMANDS[name]
            # The parser alone: files in an example need not exist.
            context = command.make_context(name, [], resilient_parsing=True)
            context.resilient_parsing = False
            command.make_parser(context).parse_args(arguments)


def test_commands_are_found_in_shell_blocks() -> None:
    shell = "(umask 077) && .venv/bin/mashbox run m --port 1  # c\nmashbox pull \\\n  x; ls"
    assert list(mashbox_commands(shell)) == [["run", "m", "--port", "1"], ["pull", "x"]]


@pytest.mark.parametrize(("language", "text"), list(blocks(*PARSERS)))
def test_blocks_are_valid_in_their_language(language: str, text: str) -> None:
    PARSERS[language](text)


def test_the_default_model_is_the_one_in_the_examples() -> None:
    assert f'model="{default_model()}"' in README
    (model,) = (each for each in COMMANDS["run"].params if each.name == "model")
    assert model.help.endswith(f"Default: {default_model()}.")


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
    named = set(re.findall(r"`([A-Z]+ /[^`]*)`", "\n".join(table("docs/api.md", "Routes"))))
    assert named == routes


def test_every_environment_variable_is_documented() -> None:
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    found = {n for p in sources for n in re.findall(r"MASHBOX_[A-Z_]+", p.read_text("utf-8"))}
    rows = "\n".join(table("docs/cli.md", "Environment variables"))
    assert found
    assert found == set(re.findall(r"`(MASHBOX_[A-Z_]+)`", rows))


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


def test_the_readme_is_the_index_of_the_documents() -> None:
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in LINK.findall(README)}
    assert set(ROOT.glob("docs/*.md")) <= linked


def test_the_ci_script_runs_the_documented_test_command() -> None:
    text = (ROOT / "docs" / "develop.md").read_text("utf-8").split("\n## Test", 1)[1]
    command = re.findall(r"```sh\n(.+?)\n```", text, re.DOTALL)[0]
    assert command in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
