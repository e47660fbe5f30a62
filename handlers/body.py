"""Request bodies: read once, parsed once, into the generated model that the route names."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json
from starlette.types import Receive, Scope

import generated.models
from handlers.disconnect import ClientLeft
from handlers.errors import ApiError, bad_request

MAX_BODY_BYTES = 32 * 2**20
# Parsing holds the interpreter lock, for up to a microsecond a part: while it lasts no stream goes
# on. A message has ten parts, a tool some twenty.
MAX_PARTS = 200_000
# Where the scope's extensions have the body's model.
PARSED_BODY = "mashbox_body"
_WORDS = {
    "missing": "is missing",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}
# Fields that the contract has only to refuse what they ask for.
_UNSUPPORTED = {("logprobs",), ("top_logprobs",), ("n",)}
_PARTS = (b'"', b",", b":", b"[", b"{")
# For JSON without escaped quotes.
_PART = re.compile(rb'"[^"]*+"?|[,:\[{]')
# One body at a time, so that between two of them the event loop gets its turn.
_parser = ThreadPoolExecutor(1, thread_name_prefix="parse")
_BOM = b"\xef\xbb\xbf"


class PydanticBody:
    """connexion's body validator: leaves the parsed model in the scope's extensions."""

    def __init__(self, *, schema: dict[str, Any], **_: object) -> None:
        self._model: type[BaseModel] = getattr(generated.models, schema["x-model"])

    async def wrap_receive(self, receive: Receive, *, scope: Scope) -> tuple[Receive, Scope]:
        """Read and parse the body; raises ApiError 400 or 413, and ClientLeft."""
        model = await _parse(self._model, await _read(receive))
        scope.setdefault("extensions", {})[PARSED_BODY] = model
        if record := scope.get("record"):
            record.read_body(model)
        return receive, scope


def too_large() -> ApiError:
    """Give the 413."""
    message = f"The body is larger than {MAX_BODY_BYTES // 2**20} MiB; send less."
    return ApiError(413, message, code="request_too_large")


async def _read(receive: Receive) -> list[bytes]:
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > MAX_BODY_BYTES:
            raise too_large()
        if not message.get("more_body", False):
            return pieces


async def _parse(model: type[BaseModel], pieces: list[bytes]) -> BaseModel:
    def parse() -> BaseModel:
        return parse_body(model, b"".join(pieces))

    if sum(map(len, pieces)) <= MAX_PARTS:
        return parse()
    # To join them too: 30 MB take 60 ms, and many such bodies may come to their end at once.
    return await asyncio.get_running_loop().run_in_executor(_parser, parse)


def parse_body(model: type[BaseModel], raw: bytes) -> BaseModel:
    """Parse JSON bytes into `model`; raises ApiError 400 that names the field."""
    raw = raw.removeprefix(_BOM)
    if has_too_many_parts(raw):
        raise bad_request(
            f"The body has more than {MAX_PARTS} JSON parts (strings, commas, colons, brackets); "
            "send fewer messages, tools or list items.",
            None,
        )
    _refuse_not_numbers(raw)
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise _refusal(error, raw) from None


def has_too_many_parts(raw: bytes) -> bool:
    """Whether JSON has more than `MAX_PARTS` strings, commas, colons and opening brackets.

    What stands inside strings is no part, so long texts pass.
    """
    if len(raw) <= MAX_PARTS or sum(map(raw.count, _PARTS)) <= MAX_PARTS:
        return False
    unescaped = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    return any(islice(_PART.finditer(unescaped), MAX_PARTS, None))


def _refuse_not_numbers(raw: bytes) -> None:
    """Refuse NaN and Infinity, which pydantic would take where no number type stands."""
    if b"NaN" in raw or b"Infinity" in raw:
        try:
            from_json(raw, allow_inf_nan=False)
        except ValueError as error:
            raise _not_json(str(error)) from None


def _refusal(error: ValidationError, raw: bytes) -> ApiError:
    found = error.errors(include_url=False, include_context=False)
    if found[0]["type"] == "json_invalid":
        return _not_json(found[0]["msg"].removeprefix("Invalid JSON: "))
    body = _loads(raw)
    paths = [(json_path(body, item["loc"]), _sentence(item)) for item in found]
    # Of a union's branches the one that got furthest says what the client meant.
    deepest = max((path for path, _ in paths), key=len)
    sentences = dict.fromkeys(text for path, text in paths if path == deepest)
    name = render_path(deepest)
    if not name:
        return bad_request("The body must be a JSON object.", None)
    return bad_request(f"{name} {' or '.join(sentences)}.", name)


def _not_json(reason: str) -> ApiError:
    return bad_request(f"The body is not valid JSON: {reason}.", None, "invalid_json")


def _loads(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        # pydantic stops at the first lone surrogate or deep nesting where json might not.
        return None


def _sentence(item: ErrorDetails) -> str:
    """Say what is wrong as the end of a sentence that begins with the field's name."""
    if item["loc"][-1:] in _UNSUPPORTED:
        return "asks for something that this server does not do; leave it out"
    if item["type"] in _WORDS:
        return _WORDS[item["type"]]
    verb, _, rest = item["msg"].partition(" should ")
    return f"should {rest}" if rest else f"is refused: {verb}"


def json_path(body: Any, location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Strip what is not a key or index of `body` (pydantic puts union tags) from a location.

    The last name of a location may be a missing field, so it stays where an object was reached.
    """
    path: list[int | str] = []
    for position, step in enumerate(location):
        missing = isinstance(body, dict) and position == len(location) - 1
        if _holds(body, step):
            body = body[step]
        elif not missing:
            continue
        path.append(step)
    return tuple(path)


def _holds(body: Any, step: int | str) -> bool:
    if isinstance(body, dict):
        return step in body
    return isinstance(body, list) and isinstance(step, int) and step < len(body)


def render_path(path: tuple[int | str, ...]) -> str:
    """Write a path the way people do: `messages[1].content`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")
