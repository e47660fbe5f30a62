"""How families of models write thinking and tool calls: data, chosen from the chat template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CallSyntax = Literal["json", "xml", "json_list", "name_json"]


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """The markers around the thinking."""

    open: str
    close: str


@dataclass(frozen=True, slots=True)
class CallFormat:
    """How a call is written: `open`, then the call in its `syntax`, then `close`."""

    open: str
    close: str
    syntax: CallSyntax


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """One family's conventions; `name` is what `--tool-format` takes."""

    name: str
    calls: CallFormat
    reasoning: ReasoningFormat | None
