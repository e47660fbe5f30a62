"""Reads scripts, from a file and from the directives in a prompt, and says what is wrong in one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields as fields_of
from importlib.resources import files
from pathlib import Path
from typing import Any, cast, get_args

from engine.config import ModelSource
from engine.errors import ModelError
from engine.script import (
    MOCK,
    CallPart,
    Counts,
    Match,
    Part,
    Refusal,
    RefusalKind,
    Script,
    ScriptedAnswer,
    TextKind,
    TextPart,
)

DIRECTIVE = "#!mock"
# A longer word, such as #!mockery, is the user's own.
_DIRECTIVE = re.compile(rf"^{DIRECTIVE}(?=[\s{{]|$)[ \t]*", re.MULTILINE)
# More is no count of tokens and no time that anybody waits for; it would only overflow somewhere.
_HIGHEST = 10**9
_COUNTS = tuple(field.name for field in fields_of(Counts))


class DirectiveError(ValueError):
    """What is wrong with a directive in a prompt, in words for who wrote it."""


def scripted_source(script: Path | None) -> ModelSource:
    """Return the mock as a source; `script` None means the one that comes with it.

    Raises ModelError when the script is wrong.
    """
    path = script or Path(str(files("engine").joinpath("scripted.json")))
    read_script(path)
    return ModelSource(MOCK, path, scripted=True)


def read_script(path: Path) -> Script:
    """Read a script file; raises ModelError, naming the place, when it is not a script."""
    try:
        data = _sendable(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"The script {path} cannot be read: {error}.") from error
    try:
        return _script(data)
    except _Wrong as error:
        raise ModelError(f"The script {path} is wrong: {error}.") from None


class _Wrong(Exception):
    """What is wrong with a script, and where."""


def read_directives(text: str) -> tuple[ScriptedAnswer, ...]:
    """Read the answers that a prompt's text asks for; raises DirectiveError.

    Each is a line that begins with DIRECTIVE, followed by the JSON of an answer.
    """
    return tuple(_directive(text, found.end()) for found in _DIRECTIVE.finditer(text))


def _directive(text: str, start: int) -> ScriptedAnswer:
    try:
        # What comes behind the JSON is the user's again.
        data = _sendable(json.JSONDecoder().raw_decode(text, start)[0])
        return _answer(data, DIRECTIVE, match=False)
    except (ValueError, RecursionError) as error:
        wrong = f"{DIRECTIVE} is not followed by JSON: {error}"
    except _Wrong as error:
        wrong = str(error)
    raise DirectiveError(f"{wrong}; correct it, docs/mock.md tells its fields.")


def _sendable(data: Any) -> Any:
    """Return parsed JSON; raises ValueError for what Python reads of it and no answer can carry."""
    # NaN, 1e999, and halves of surrogate pairs.
    json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    return data


def _script(data: Any) -> Script:
    fields = _fields(data, "the script", answers=list)
    answers = tuple(
        _answer(item, f"answers[{index}]") for index, item in enumerate(fields.get("answers", []))
    )
    if all(answer.match for answer in answers):
        raise _Wrong('answers needs one without "match", for requests that no other fits')
    in_turn = sum(answer.match is None for answer in answers)
    for index, answer in enumerate(answers):
        if answer.served and not _known_to_server(answer, in_turn):
            raise _Wrong(
                f"answers[{index}].{answer.served[0]} is for an answer with a match, without "
                "request and restarts in it, or for the only answer without one"
            )
    return Script(answers)


def _known_to_server(answer: ScriptedAnswer, in_turn: int) -> bool:
    """Whether it can be chosen without what only the worker knows."""
    if answer.match is None:
        # Turns are counted in the worker; a single answer needs no count.
        return in_turn == 1
    return answer.match.request is None and answer.match.restarts is None


def _answer(data: Any, where: str, match: bool = True) -> ScriptedAnswer:
    fields = _fields(
        data,
        where,
        **{"parts": list, "finish": str, "refuse": dict, "usage": dict},
        **({"match": dict} if match else {}),
        **dict.fromkeys(("first_delay_ms", "token_delay_ms"), float),
        **dict.fromkeys(("crash_at", "raise_at", "hang_at", "error_at", "cut_at"), int),
    )
    if fields.get("finish", "stop") not in ("stop", "length"):
        raise _Wrong(f"{where}.finish is neither stop nor length")
    parts = enumerate(fields.pop("parts", []))
    fields["parts"] = tuple(_part(part, f"{where}.parts[{index}]") for index, part in parts)
    readers: dict[str, Callable[[Any, str], Any]] = {
        "match": _match,
        "refuse": _refusal,
        "usage": _counts,
    }
    for name in readers.keys() & fields.keys():
        fields[name] = readers[name](fields[name], f"{where}.{name}")
    return ScriptedAnswer(**fields)


def _match(data: Any, where: str) -> Match:
    types = {"user": str, "after_tool_result": bool, "tools": bool}
    return Match(**_fields(data, where, **types, request=int, restarts=int))


def _refusal(data: Any, where: str) -> Refusal:
    fields = _fields(data, where, kind=str, times=int, retry_after=int)
    if fields.get("kind") not in get_args(RefusalKind):
        raise _Wrong(f"{where}.kind is none of {', '.join(get_args(RefusalKind))}")
    if fields.get("retry_after") == 0:
        raise _Wrong(f"{where}.retry_after is 0, where a server says 1 or more")
    return Refusal(**fields)


def _counts(data: Any, where: str) -> Counts:
    return Counts(**_fields(data, where, **dict.fromkeys(_COUNTS, int)))


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
    names = fields.get("names", [])
    if not all(isinstance(name, str) and name for name in names):
        raise _Wrong(f"{where}.names has something else than names in it")
    if fields.get("name") == "":
        raise _Wrong(f"{where}.name is empty")
    if "name" in fields and "names" in fields:
        raise _Wrong(f"{where} has both name and names")
    return CallPart(fields.get("name"), tuple(names), fields.get("arguments"))


def _fields(data: Any, where: str, **types: type) -> dict[str, Any]:
    """Return the fields of an object, none of which has to be there; the engine has no pydantic."""
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
        # All numbers are counts or times; to Python true is one too.
        number = (int, float) if wanted is float else int
        return isinstance(value, number) and not isinstance(value, bool) and 0 <= value <= _HIGHEST
    return isinstance(value, wanted)


_TYPE_NAMES = {
    str: "string",
    list: "array",
    dict: "object",
    bool: "boolean",
    int: f"integer (0 to {_HIGHEST})",
    float: f"number (0 to {_HIGHEST})",
}
