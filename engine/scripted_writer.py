"""Writes the parts of a scripted answer as token ids, in the spelling of a family of models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, groupby, islice
from typing import Any

import tokenizers

from engine.example_json import example_arguments
from engine.model_format import ModelFormat
from engine.script import CallPart, Part, TextPart
from engine.scripted_prompt import OfferedTool, ReadPrompt


@dataclass(frozen=True, slots=True)
class Writing:
    """An answer's ids, and what follows them over and over; nothing for an answer that ends."""

    ids: tuple[int, ...]
    refrain: tuple[int, ...] = ()

    def at(self, position: int) -> int | None:
        """Return the id at `position`, None where the answer has ended."""
        if position < len(self.ids):
            return self.ids[position]
        if self.refrain:
            return self.refrain[(position - len(self.ids)) % len(self.refrain)]
        return None


@dataclass(frozen=True, slots=True)
class _Piece:
    before: str
    body: tuple[int, ...]
    after: str


class Writer:
    """Writes answers in one format; thinking only where the prompt leaves room for it."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, format: ModelFormat) -> None:
        self._tokenizer = tokenizer
        self._format = format

    def write(self, parts: Iterable[Part], prompt: ReadPrompt, endless: bool) -> Writing:
        """Write `parts` in answer to `prompt`.

        An `endless` answer's last part stays open and is repeated. A call of any tool is left out
        where none is offered.
        """
        pieces = list(self._pieces(parts, prompt))
        ids: list[int] = []
        for piece in pieces:
            ids += [*self._encode(piece.before), *piece.body, *self._encode(piece.after)]
        if not endless or not pieces:
            return Writing(tuple(ids))
        closing = len(self._encode(pieces[-1].after))
        return Writing(tuple(ids[: len(ids) - closing]), pieces[-1].body)

    def _pieces(self, parts: Iterable[Part], prompt: ReadPrompt) -> Iterator[_Piece]:
        for are_calls, group in groupby(parts, key=lambda part: isinstance(part, CallPart)):
            if are_calls:
                calls = [call for part in group if (call := _resolve(part, prompt.tools))]
                yield _Piece("", self._encode(self._spell(calls)), "")
            else:
                yield from (piece for part in group if (piece := self._text(part, prompt)))

    def _text(self, part: Part, prompt: ReadPrompt) -> _Piece | None:
        assert isinstance(part, TextPart)
        body = self._encode(part.text)
        if part.tokens is not None:
            body = tuple(islice(cycle(body), part.tokens))
        if part.kind != "reasoning":
            return _Piece("", body, "")
        reasoning = self._format.reasoning
        if not reasoning or not prompt.may_think:
            return None
        return _Piece(f"{reasoning.open}\n", body, f"\n{reasoning.close}{reasoning.after}")

    def _spell(self, calls: list[tuple[str, dict[str, Any]]]) -> str:
        if not calls:
            return ""
        format = self._format.calls
        spelled = [
            f"{format.before_name}{name}{format.before_arguments}"
            f"{self._spell_arguments(arguments)}{format.after_arguments}"
            for name, arguments in calls
        ]
        return format.before_calls + format.between_calls.join(spelled) + format.after_calls

    def _spell_arguments(self, arguments: dict[str, Any]) -> str:
        if self._format.calls.syntax != "xml":
            return json.dumps(arguments, ensure_ascii=False)
        values = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in arguments.items()
        }
        return "".join(f"<parameter={n}>\n{v}\n</parameter>\n" for n, v in values.items())

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _resolve(part: Part, tools: tuple[OfferedTool, ...]) -> tuple[str, dict[str, Any]] | None:
    """Return the name and the arguments of a call, None where there is nothing to call."""
    assert isinstance(part, CallPart)
    offered = {tool.name: tool.parameters for tool in reversed(tools)}
    if part.name is not None:
        arguments = part.arguments
        if arguments is None:
            arguments = example_arguments(offered.get(part.name, {}), {})
        return part.name, arguments
    if not tools:
        return None
    name = next((name for name in part.names if name in offered), tools[0].name)
    return name, example_arguments(offered[name], part.arguments or {})
