"""Where each family's tool calls begin and end in an answer, and who reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.call_parsers import CallReader, DeepSeekCall, NamedCall, ObjectCall
from engine.model_format import ModelFormat
from engine.request import Tool
from engine.tagged_call import TaggedCall


@dataclass(frozen=True, slots=True)
class CallRules:
    """Where calls begin and end in an answer.

    `openers` begin a call; `closers` end one, also a broken one; `skipped` may stand behind or
    between calls; `ignored` mean nothing by themselves. A `{` begins a call at the start of the
    answer if `bare_first`, and behind a call if `bare_next`.
    """

    reader: Callable[[str], CallReader]
    openers: tuple[str, ...] = ()
    closers: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    bare_first: bool = False
    bare_next: bool = False


def call_rules(format: ModelFormat, tools: tuple[Tool, ...]) -> CallRules:
    """The rules of a family's calls; for harmony, whose headers tell the calls, only the ends."""
    syntax = format.calls.syntax
    if syntax == "harmony":
        return CallRules(CallReader, closers=("<|call|>", "<|end|>", "<|return|>"))
    if format.name == "llama3":
        names = frozenset(tool.name for tool in tools)
        return CallRules(
            lambda opener: ObjectCall(None if opener else names),
            openers=("<|python_tag|>",),
            skipped=(";", ","),
            bare_first=True,
            bare_next=True,
        )
    if format.calls.trigger == "[TOOL_CALLS]":
        return CallRules(
            lambda opener: NamedCall(),
            openers=("[TOOL_CALLS]",),
            skipped=(",", "]"),
            bare_next=True,
        )
    if syntax == "name_first":
        around = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
        return CallRules(
            lambda opener: DeepSeekCall(),
            openers=("<｜tool▁call▁begin｜>",),
            closers=("<｜tool▁call▁end｜>",),
            skipped=("```", *around),
            ignored=around,
        )
    return CallRules(
        lambda opener: TaggedCall(tools, opener),
        openers=("<tool_call>", "<function=") if syntax == "xml" else ("<tool_call>",),
        closers=("</tool_call>",),
        skipped=("}", "</function>") if syntax == "xml" else ("}",),
    )
