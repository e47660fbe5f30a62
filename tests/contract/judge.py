"""Judges answers by openapi.json: status, headers, content type, body, and each event of a stream.

The validator is not the one of `mashbox check-traffic`, so that neither hides the other's faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema_rs

from bench.protocols import WIRES
from bench.wire import Broken, read_events
from mashbox.app import contract

Json = dict[str, Any]

_CONTRACT = contract()
_PATHS: Json = _CONTRACT["paths"]
_PATTERNS = {path: re.compile(re.sub(r"\{\w+\}", ".+", path)) for path in _PATHS}
_WIRES = {wire.path: wire for wire in WIRES}
_STREAM = "text/event-stream"


class BreaksContract(AssertionError):
    """An answer that openapi.json does not allow."""


def judge(
    request: str, status: int, headers: Mapping[str, str], body: bytes, whole: bool = True
) -> None:
    """Raise BreaksContract unless the answer to `request`, as in "GET /health", is allowed.

    An answer that is not `whole`, because its client left, is judged by what has come.
    """
    try:
        _judge(request, status, {name.lower(): headers[name] for name in headers}, body, whole)
    except (Broken, ValueError) as error:
        raise BreaksContract(f"{request} -> {status}: {error}") from error


def _judge(request: str, status: int, headers: Json, body: bytes, whole: bool) -> None:
    responses = _responses(*request.split(" ", 1))
    _expect(str(status) in responses, "the status is not declared")
    response = _resolve(responses[str(status)])
    _judge_headers(response, headers)
    content = response.get("content", {})
    if not content:
        _expect(not body, "there is a body where none is declared")
        return
    media_type = headers.get("content-type", "").partition(";")[0]
    _expect(media_type in content, f"the content type {media_type!r} is not declared")
    schema = content[media_type]["schema"]
    if media_type == _STREAM:
        _judge_stream(request.partition(" ")[2], schema, body, whole)
    elif whole:
        text = body.decode()
        value = _loads(text) if media_type == "application/json" else text
        validator(json.dumps(schema)).validate(value)


def _expect(truth: bool, otherwise: str) -> None:
    if not truth:
        raise ValueError(otherwise)


def _responses(method: str, path: str) -> Json:
    """Find what the contract declares, for paths and methods too that it has not."""
    if method == "HEAD":
        return _declared("/v1/health", "head")
    found = next((known for known in _PATHS if _PATTERNS[known].fullmatch(path)), None)
    if found and method.lower() in _PATHS[found]:
        return _declared(found, method.lower())
    if found:
        return _without(_declared(found, next(iter(_PATHS[found]))), "200", "404")
    on_messages = path.startswith("/v1/messages/")
    refusals = _declared("/v1/messages", "post") if on_messages else _declared("/v1/models", "get")
    # No operation declares what an unknown path gets; it has the shape of the other refusals.
    return _without(refusals, "200", "405") | {"404": refusals["400"]}


def _without(responses: Json, *statuses: str) -> Json:
    return {status: responses[status] for status in responses if status not in statuses}


def _declared(path: str, method: str) -> Json:
    responses: Json = _PATHS[path][method]["responses"]
    return responses


def _resolve(node: Json) -> Json:
    if "$ref" not in node:
        return node
    target: Any = _CONTRACT
    for key in node["$ref"].removeprefix("#/").split("/"):
        target = target[key]
    return _resolve(target)


def _judge_headers(response: Json, headers: Json) -> None:
    for name, node in response.get("headers", {}).items():
        declared, value = _resolve(node), headers.get(name.lower())
        _expect(value is not None or not declared.get("required"), f"{name} is missing")
        if value is not None:
            schema = declared["schema"]
            is_number = schema.get("type") == "integer" and value.isdecimal()
            validator(json.dumps(schema)).validate(int(value) if is_number else value)


def _judge_stream(path: str, schema: Json, body: bytes, whole: bool) -> None:
    text = (body if whole else body[: body.rfind(b"\n\n") + 2]).decode()
    for event in read_events(text) if text else []:
        if event != "done":
            _schema_of(_resolve(schema), event).validate(event)
    if whole:
        _WIRES[path].read_stream(text)


def _schema_of(schema: Json, event: Json) -> jsonschema_rs.Draft202012Validator:
    """Give the schema of the event's type: the errors of one branch say enough."""
    if "discriminator" not in schema:
        return validator(json.dumps(schema))
    branch = schema["discriminator"]["mapping"].get(event.get("type"))
    _expect(branch is not None, f"no event has the type {event.get('type')!r}")
    return validator(json.dumps({"$ref": branch}))


@cache
def validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    """The validator of a schema, as JSON, that may refer to the contract's components."""
    return jsonschema_rs.Draft202012Validator(
        {**json.loads(schema), "components": _CONTRACT["components"]}
    )


def _loads(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)
