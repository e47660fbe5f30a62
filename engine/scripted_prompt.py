"""Reads prompts of the scripted model back: who spoke last, which tools are offered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tokenizers

from engine.scripted_tokenizer import END_OF_TURN, START_OF_TURN, TOOL_RESPONSE, TOOLS


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the prompt lists it."""

    name: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """What the scripted model understands of a prompt.

    `user` is the last user message, or a prompt that is no chat. `after_tool_result` tells whether
    a result came after the last assistant message, `turn` how often the assistant has spoken since
    the last user message. `may_think` is false where the prompt closes the
    thinking, continues a message, or is no chat.
    """

    user: str
    after_tool_result: bool
    tools: tuple[OfferedTool, ...]
    may_think: bool
    turn: int = 0


class PromptReader:
    """Understands what the model's chat template writes.

    Client text cannot spell control tokens, so it is never taken for the template's.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        vocabulary = tokenizer.get_vocab()
        self._start, self._end = vocabulary[START_OF_TURN], vocabulary[END_OF_TURN]
        self._result = vocabulary[TOOL_RESPONSE]
        self._tools = [vocabulary[marker] for marker in TOOLS]

    def read(self, ids: Sequence[int]) -> ReadPrompt:
        """Read a prompt's ids."""
        bare, *turns = (self._until(turn, self._end) for turn in _split(ids, self._start))
        read = [self._text(turn).partition("\n") for turn in turns]
        results = [self._result in turn for turn in turns]
        speakers = zip(read, results, strict=True)
        asked = [
            (n, text)
            for n, ((role, _, text), result) in enumerate(speakers)
            if role == "user" and not result
        ]
        # The last turn is the answer's own, which has not been spoken yet.
        spoken = [n for n, (role, _, _) in enumerate(read[:-1]) if role == "assistant"]
        return ReadPrompt(
            user=asked[-1][1] if asked else self._text(bare),
            after_tool_result=any(results[spoken[-1] if spoken else 0 :]),
            tools=self._read_tools(turns),
            may_think=bool(read) and read[-1] == ("assistant", "\n", ""),
            turn=sum(n > (asked[-1][0] if asked else -1) for n in spoken),
        )

    def _read_tools(self, turns: list[list[int]]) -> tuple[OfferedTool, ...]:
        # The template lists them in the first turn, the system's, and nowhere else.
        opening, closing = self._tools
        if not turns or opening not in turns[0]:
            return ()
        section = turns[0][turns[0].index(opening) + 1 :]
        lines = self._text(self._until(section, closing)).split("\n")
        functions = [json.loads(line)["function"] for line in lines if line]
        return tuple(OfferedTool(f["name"], f.get("parameters") or {}) for f in functions)

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids))
        return text

    @staticmethod
    def _until(ids: list[int], end: int) -> list[int]:
        return ids[: ids.index(end)] if end in ids else ids


def _split(ids: Sequence[int], separator: int) -> list[list[int]]:
    pieces: list[list[int]] = [[]]
    for token_id in ids:
        if token_id == separator:
            pieces.append([])
        else:
            pieces[-1].append(token_id)
    return pieces
