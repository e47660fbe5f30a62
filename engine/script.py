"""The script of a scripted model: what it answers, how fast, and where it breaks.

docs/mock.md describes the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, cast, get_args

from engine.config import ModelSource
from engine.errors import ModelError

MOCK = "mock"
MOCK_NAMES = (MOCK, "scripted")  # the second is what it is in the engine
MAX_CONTEXT = 131_072

TextKind = Literal["reasoning", "text", "raw"]


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests an answer is for; None means any.

    `user` is found in the last user message, or in a prompt that is no chat. `after_tool_result`
    tells whether a tool result came after the last assistant message, `tools` whether tools are
    offered. `request` counts from 1 since the worker's start, `restarts` how often the worker was
    started again before.
    """

    user: str | None = None
    after_tool_result: bool | None = None
    tools: bool | None = None
    request: int | None = None
    restarts: int | None = None

    def fits(self, situation: Situation) -> bool:
        """Whether the answer is for a request in this situation."""
        return (
            (self.user is None or self.user in situation.user)
            and self.after_tool_result in (None, situation.after_tool_result)
            and self.tools in (None, situation.tools)
            and self.request in (None, situation.request)
            and self.restarts in (None, situation.restarts)
        )


@dataclass(frozen=True, slots=True)
class Situation:
    """What `Match` looks at in one request; its fields say the same."""

    user: str
    after_tool_result: bool
    tools: bool
    request: int
    restarts: int


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text of the answer; `raw` is written as it stands, markers of thinking and calls included.

    With `tokens` it is cut to, or repeated up to, so many tokens.
    """

    kind: TextKind
    text: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class CallPart:
    """A call of `name`, offered or not; None: of the first of `names` offered, else of any tool.

    A call of `name` has `arguments` as they stand, others what of them fits the tool's schema.
    Missing ones are made from the schema.
    """

    name: str | None = None
    names: tuple[str, ...] = ()
    arguments: dict[str, Any] | None = None


Part = TextPart | CallPart


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """One answer. Faults come when as many tokens are out: 0 is before the first one."""

    parts: tuple[Part, ...]
    match: Match | None = None
    finish: Literal["stop", "length"] = "stop"
    first_delay_ms: float = 0
    token_delay_ms: float = 0
    crash_at: int | None = None
    raise_at: int | None = None
    hang_at: int | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """The answers of a scripted model."""

    answers: tuple[ScriptedAnswer, ...]

    def choose(self, situation: Situation) -> ScriptedAnswer:
        """Return the first answer whose match fits, else those without a match in turn."""
        for answer in self.answers:
            if answer.match and answer.match.fits(situation):
                return answer
        in_turn = [answer for answer in self.answers if not answer.match]
        return in_turn[(situation.request - 1) % len(in_turn)]


def scripted_source(script: Path | None, name: str = MOCK) -> ModelSource:
    """Return the mock as a source called `name`; `script` None means the one that comes with it.

    Raises ModelError when the script is wrong.
    """
    path = script or Path(str(files("engine").joinpath("scripted.json")))
    read_script(path)
    return ModelSource(name, path, scripted=True)


def read_script(path: Path) -> Script:
    """Read a script file; raises ModelError, naming the place, when it is not a script."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"The script {path} cannot be read: {error}.") from error
    try:
        return _script(data)
    except _Wrong as error:
        raise ModelError(f"The script {path} is wrong: {error}.") from None


class _Wrong(Exception):
    """What is wrong with a script, and where."""


def _script(data: Any) -> Script:
    fields = _fields(data, "the script", answers=list)
    answers = tuple(
        _answer(item, f"answers[{index}]") for index, item in enumerate(fields.get("answers", []))
    )
    if all(answer.match for answer in answers):
        raise _Wrong('answers needs one without "match", for requests that no other fits')
    return Script(answers)


def _answer(data: Any, where: str) -> ScriptedAnswer:
    fields = _fields(
        data,
        where,
        **{"parts": list, "match": dict, "finish": str},
        **dict.fromkeys(("first_delay_ms", "token_delay_ms"), float),
        **dict.fromkeys(("crash_at", "raise_at", "hang_at"), int),
    )
    if fields.get("finish", "stop") not in ("stop", "length"):
        raise _Wrong(f"{where}.finish is neither stop nor length")
    parts = enumerate(fields.pop("parts", []))
    fields["parts"] = tuple(_part(part, f"{where}.parts[{index}]") for index, part in parts)
    if "match" in fields:
        types = {"user": str, "after_tool_result": bool, "tools": bool}
        numbers = {"request": int, "restarts": int}
        match = _fields(fields["match"], f"{where}.match", **types, **numbers)
        fields["match"] = Match(**match)
    return ScriptedAnswer(**fields)


def _part(data: Any, where: str) -> Part:
    types = {"tool_call": dict, "tokens": int, **dict.fromkeys(get_args(TextKind), str)}
    fields = _fields(data, where, **types)
    tokens = fields.pop("tokens", None)
    if len(fields) != 1:
        raise _Wrong(f"{where} needs exactly one of {', '.join(get_args(TextKind))}, tool_call")
    ((kind, value),) = fields.items()
    if kind == "tool_call":
        return _call(value, f"{where}.tool_call")
    if not value:
        raise _Wrong(f"{where}.{kind} is empty")
    return TextPart(cast(TextKind, kind), value, tokens)


def _call(data: Any, where: str) -> CallPart:
    fields = _fields(data, where, name=str, names=list, arguments=dict)
    names = tuple(map(str, fields.get("names", [])))
    return CallPart(fields.get("name"), names, fields.get("arguments"))


def _fields(data: Any, where: str, **types: type) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _Wrong(f"{where} is not an object")
    for name, value in data.items():
        if name not in types:
            raise _Wrong(f'{where} has no field "{name}"')
        if not _is(value, types[name]):
            raise _Wrong(f"{where}.{name} is not of type {_TYPE_NAMES[types[name]]}")
    return data.copy()


def _is(value: Any, wanted: type) -> bool:
    if wanted in (int, float):
        number = (int, float) if wanted is float else int
        return isinstance(value, number) and not isinstance(value, bool) and value >= 0
    return isinstance(value, wanted)


_TYPE_NAMES = {
    str: "string",
    list: "array",
    dict: "object",
    bool: "boolean",
    int: "integer (0 or more)",
    float: "number (0 or more)",
}
