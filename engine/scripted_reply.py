"""One request's scripted answer, token by token, also where a grammar or a budget holds it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.script import CallPart, Part, ScriptedAnswer, TextPart
from engine.scripted_prompt import ReadPrompt
from engine.scripted_writer import Writer, Writing


class Reply:
    """Gives the ids of `answer`, then `end`.

    A mask holds it as it would hold a model: where the script's next id is not allowed, the answer
    becomes a call of the first tool that is, or leaves out what is forbidden. Answers with raw
    text, or with a call that has a name and arguments of its own, take no heed of masks.
    """

    def __init__(
        self, answer: ScriptedAnswer, prompt: ReadPrompt, writer: Writer, end: int
    ) -> None:
        self.answer = answer
        self._prompt = prompt
        self._writer = writer
        self._end = end
        self._is_literal = any(map(_is_literal, answer.parts))
        self._writing = writer.write(answer.parts, prompt, endless=answer.finish == "length")

    def next_id(self, answer_ids: Sequence[int], mask: NDArray[np.uint32] | None) -> int:
        """Return the id that follows `answer_ids`; the bits of `mask` are the ids allowed."""
        wanted = self._writing.at(len(answer_ids))
        wanted = self._end if wanted is None else wanted
        if mask is None or self._is_literal or _allows(mask, wanted):
            return wanted
        self._writing = self._held(tuple(answer_ids), mask)
        forced = self._writing.at(len(answer_ids))
        return self._end if forced is None else forced

    def _held(self, begun: tuple[int, ...], mask: NDArray[np.uint32]) -> Writing:
        """Return what goes on from `begun` with an id that is allowed."""
        count = len(begun)
        for call in self._calls:
            if call.ids[:count] == begun and any(_allows(mask, i) for i in call.ids[count:][:1]):
                return call
        rest = self._writing.ids[count:]
        allowed = (n for n, token_id in enumerate(rest) if _allows(mask, token_id))
        if (skipped := next(allowed, None)) is not None:
            return Writing((*begun, *rest[skipped:]), self._writing.refrain)
        if _allows(mask, self._end):
            return Writing(begun)
        # Nothing of the script fits: any id that is allowed, and on with the script behind it.
        return Writing((*begun, _first_of(mask), *rest), self._writing.refrain)

    @cached_property
    def _calls(self) -> list[Writing]:
        """A call of each tool, with and without the answer's thinking before it."""
        # Kept: a mask may hold each of thousands of tokens.
        parts = self.answer.parts
        thinking = [p for p in parts if isinstance(p, TextPart) and p.kind == "reasoning"]
        given = [p.arguments for p in parts if isinstance(p, CallPart) and p.name is None]
        arguments = given[0] if given else None
        calls = [CallPart(names=(t.name,), arguments=arguments) for t in self._prompt.tools]
        return [
            self._writer.write([*lead, call], self._prompt, endless=False)
            for lead in (thinking, [])
            for call in calls
        ]


def _is_literal(part: Part) -> bool:
    if isinstance(part, TextPart):
        return part.kind == "raw"
    return part.name is not None and part.arguments is not None


def _allows(mask: NDArray[np.uint32], token_id: int) -> bool:
    return bool(mask[token_id // 32] >> np.uint32(token_id % 32) & 1)


def _first_of(mask: NDArray[np.uint32]) -> int:
    word = int(np.flatnonzero(mask)[0])
    bits = int(mask[word])
    return word * 32 + (bits & -bits).bit_length() - 1
