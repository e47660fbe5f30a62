"""Writes the parts of a scripted answer as token ids, in the spelling of a family of models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle, groupby, islice
from typing import Any

import tokenizers

from engine.example_json import example_arguments
from engine.model_format import ModelFormat
from engine.script import MAX_CONTEXT, CallPart, Part, TextPart
from engine.scripted_prompt import OfferedTool, ReadPrompt
from engine.tool_prompt import calls_text


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


# What begins the answer itself where the parts of a message are told apart by channels.
_FINAL = "<|channel|>final<|message|>"

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
_ECHOED_WORDS = 12
_ECHOED_CHARACTERS = 80

# Text, or ids where the script asks for a number of tokens.
_Body = str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    before: str
    body: _Body
    after: str = ""


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
        if not endless or not pieces:
            return Writing(self._encode(pieces))
        *before, last = pieces
        unclosed = self._encode([*before, replace(last, after="")])
        return Writing(unclosed, self._encode([_Piece("", last.body)]))

    def _pieces(self, parts: Iterable[Part], prompt: ReadPrompt) -> Iterator[_Piece]:
        for _, group in groupby(parts, key=type):
            calls = []
            for part in group:
                if isinstance(part, CallPart):
                    calls += _resolve(part, prompt.tools)
                elif piece := self._text(part, prompt):
                    yield piece
            # Calls in a row are written together: families have their own signs between them.
            if calls:
                yield _Piece("", calls_text(calls, self._format.calls))

    def _text(self, part: TextPart, prompt: ReadPrompt) -> _Piece | None:
        body: _Body = part.text
        if part.kind == "echo":
            body = f"{part.text} {_first_words(prompt.user)}"
        if part.tokens is not None:
            # No answer is longer than the longest context.
            count = min(part.tokens, MAX_CONTEXT)
            body = tuple(islice(cycle(self._encode([_Piece("", body)])), count))
        if part.kind == "raw":
            return _Piece("", body)
        if part.kind != "reasoning":
            return _Piece(_FINAL if self._format.calls.syntax == "harmony" else "", body)
        reasoning = self._format.reasoning
        if not reasoning or not prompt.may_think:
            return None
        return _Piece(f"{reasoning.open}\n", body, f"\n{reasoning.close}{reasoning.after}")

    def _encode(self, pieces: Iterable[_Piece]) -> tuple[int, ...]:
        """Encode as a whole: so the ids are those of the same text in a later prompt."""
        ids: list[int] = []
        text = ""
        for body in (*(body for p in pieces for body in (p.before, p.body, p.after)), ()):
            if isinstance(body, str):
                text += body
            else:
                ids += [*self._tokenizer.encode(text, add_special_tokens=False).ids, *body]
                text = ""
        return tuple(ids)


def _first_words(text: str) -> str:
    """Name what a user wrote in words alone: a marker would begin a call or a thought."""
    words = " ".join(islice((found[0] for found in _WORD.finditer(text)), _ECHOED_WORDS))
    return f"{words[:_ECHOED_CHARACTERS]}." if words else "nothing."


def _resolve(part: CallPart, tools: tuple[OfferedTool, ...]) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and the arguments of a call, nothing where there is nothing to call."""
    offered = {tool.name: tool.parameters for tool in tools}
    if part.name is not None:
        arguments = part.arguments
        if arguments is None:
            arguments = example_arguments(offered.get(part.name, {}), {})
        return [(part.name, arguments)]
    if not tools:
        return []
    name = next((name for name in part.names if name in offered), tools[0].name)
    return [(name, example_arguments(offered[name], part.arguments or {}))]
