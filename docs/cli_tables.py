"""Writes the commands' part of cli.md from the command line itself; cog calls it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from itertools import groupby
from typing import Any

import typer

from mashbox.cli import app


def commands() -> str:
    """Give a section for each command, as `mashbox --help` lists them."""
    group: Any = typer.main.get_command(app)
    shown = [(name, one) for name, one in group.commands.items() if not one.hidden]
    return "\n".join(line for name, one in shown for line in _section(name, one))


def _section(name: str, command: Any) -> Iterator[str]:
    context = command.make_context(f"mashbox {name}", [], resilient_parsing=True)
    usage = " ".join([context.info_name, *command.collect_usage_pieces(context)])
    yield f"## mashbox {name}\n\n{inspect.cleandoc(command.help)}\n\n```text\n{usage}\n```\n"
    # groupby keeps the panels in the order of --help: there each stands in one piece, too.
    for panel, members in groupby(command.params, key=_panel):
        yield f"| {panel} | default | meaning |\n| --- | --- | --- |"
        yield from map(_row, members)
        yield ""
    if command.epilog:
        yield "\n".join(["```sh", *re.findall(r"Example: (.+)", command.epilog), "```\n"])


def _panel(parameter: Any) -> str:
    kind: str = parameter.param_type_name
    return parameter.rich_help_panel or f"{kind.title()}s"


def _row(parameter: Any) -> str:
    default = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    shown = "" if default in (None, [], False, ...) else f"`{default}`"
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    return f"| {names} | {shown} | {parameter.help or ''} |"
