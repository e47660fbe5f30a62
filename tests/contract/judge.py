"""Judges answers by openapi.json: status, headers, content type, body, and each event of a stream.

Schemas and the order of events are checked as `mashbox check-traffic` checks them, which the
verifiers of `bench` do not rely on: they put the answer together from its stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from bench.protocols import WIRES
from bench.wire import Broken, read_events
from mashbox.app import contract
from mashbox.schema_check import SchemaCheck, resolve
from mashbox.stream_order import order_faults
from mashbox.stream_rules import END

Json = dict[str, Any]

_CONTRACT = contract()
_SCHEMAS = SchemaCheck(_CONTRACT)
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
    response = resolve(_CONTRACT, responses[str(status)])
    _judge_headers(response, headers)
    content = response.get("content", {})
    if not content:
        _expect(not body, "there is a body where none is declared")
        return
    media_type = headers.get("content-type", "").partition(";")[0]
    _expect(media_type in content, f"the content type {media_type!r} is not declared")
    schema = content[media_type]["schema"]
    if media_type == _STREAM:
        # Not required of a whole answer, which has the same list.
        missing = [name for name in response["headers"] if name.lower() not in headers]
        _expect(not missing, f"a stream has to have {missing}")
        _judge_stream(request.partition(" ")[2], schema, body, whole)
    elif whole:
        text = body.decode()
        value = _loads(text) if media_type == "application/json" else text
        _validate(schema, value)
        _judge_usage(value)


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


def _judge_headers(response: Json, headers: Json) -> None:
    for name, node in response.get("headers", {}).items():
        declared, value = resolve(_CONTRACT, node), headers.get(name.lower())
        _expect(value is not None or not declared.get("required"), f"{name} is missing")
        if value is not None:
            schema = declared["schema"]
            is_number = schema.get("type") == "integer" and value.isdecimal()
            _validate(schema, int(value) if is_number else value)


def _judge_stream(path: str, schema: Json, body: bytes, whole: bool) -> None:
    text = (body if whole else body[: body.rfind(b"\n\n") + 2]).decode()
    events = [END if event == "done" else event for event in read_events(text)] if text else []
    for event in events:
        if event is not END:
            _validate(schema, event)
            _judge_usage(event)
    for number, fault in order_faults(schema["$ref"].rpartition("/")[2], events):
        raise ValueError(f"event {number}: {fault}")
    if whole:
        _WIRES[path].read_stream(text)


def _validate(schema: Json, value: Any) -> None:
    for fault in _SCHEMAS.faults(schema, value):
        raise ValueError(fault)


def _judge_usage(answer: Any) -> None:
    """Add the token counts up, which no schema can."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    if usage and "total_tokens" in usage:
        parts = [n for name, n in usage.items() if isinstance(n, int) and name != "total_tokens"]
        _expect(sum(parts) == usage["total_tokens"], f"total_tokens is not the sum: {usage}")


def _loads(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)
