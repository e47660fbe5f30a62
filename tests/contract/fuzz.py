"""Runs schemathesis: the contract on one side, the real application, served, on the other."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import httpx
import schemathesis
import uvicorn
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder
from starlette.types import ASGIApp

CHAT = "POST /v1/chat/completions"
_LAST_EVENTS = {"message_stop", "response.completed", "response.incomplete"}


@dataclass
class Findings:
    """What a run found, by check, and what it tried."""

    failures: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    cases: Counter[str] = field(default_factory=Counter)
    streams: int = 0
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)


@schemathesis.deserializer("text/event-stream")
def chunks(context: schemathesis.DeserializationContext, response: schemathesis.Response) -> Any:
    """Give a stream's events as a list: each is checked against the media type's schema."""
    *blocks, rest = response.content.decode().split("\n\n")
    data = [_data(block) for block in blocks if not block.startswith(":")]
    if data and data[-1] == "[DONE]":
        return [json.loads(text) for text in data[:-1]]
    found = [json.loads(text) for text in data]
    if rest or not found or found[-1].get("type") not in _LAST_EVENTS:
        raise ValueError("the stream does not end with its marker")
    return found


def _data(block: str) -> str:
    (data,) = [line for line in block.split("\n") if line.startswith("data: ")]
    return data.removeprefix("data: ")


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serve `app` on loopback from a thread; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # The socket listens already: early connections wait until the server accepts.
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def fuzz(app: ASGIApp, max_examples: int, key: str = "") -> Findings:
    """Try every operation with examples, boundary values and `max_examples` random cases.

    `key` is one of the server's, if it has some.
    """
    findings = Findings()
    with served(app) as url:
        config = _config(url, max_examples, key)
        schema = schemathesis.openapi.from_dict(_document(url, key), config=config)
        schema.hook(map_body)
        for event in from_schema(schema).execute():
            match event:
                case events.NonFatalError():
                    findings.errors.append(f"{event.label}: {event.value}")
                case events.FatalError():
                    findings.errors.append(str(event.exception))
                case events.ScenarioFinished():
                    _note(findings, event.recorder)
    return findings


def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    """Ask for streams in the random cases: left to chance, they are rare."""
    return {"stream": True} | body if isinstance(body, dict) else body


def _document(url: str, key: str) -> dict[str, Any]:
    document: dict[str, Any] = httpx.get(f"{url}/openapi.json", headers={"x-api-key": key}).json()
    schemas = document["components"]["schemas"]
    for name in ("ChatCompletionRequest", "CompletionRequest", "ResponsesRequest"):
        # Any other model is 404, whatever else is wrong, and would hide it.
        served = [document["info"]["x-mashbox-model"], None]
        schemas[name]["properties"]["model"] = {"enum": served}
    for name in filter(re.compile("Request$").search, schemas):
        # Whether a tool is among those offered is more than a schema can say.
        schemas[name]["properties"].pop("tool_choice", None)
    return document


def _config(url: str, max_examples: int, key: str) -> SchemathesisConfig:
    # Examples and boundary values are exhaustive; one seed makes the random cases repeatable too.
    return SchemathesisConfig.from_dict(
        {
            "seed": 1,
            "base-url": url,
            "continue-on-failure": True,
            "generation": {
                "deterministic": True,
                "database": "none",
                "max-examples": max_examples,
                "no-shrink": True,
            },
            "phases": {"stateful": {"enabled": False}},
            "auth": {"openapi": {"bearer": {"bearer": key}}} if key else {},
        }
    )


def _note(findings: Findings, recorder: ScenarioRecorder) -> None:
    findings.cases[recorder.label] += len(recorder.cases)
    for check in chain.from_iterable(recorder.checks.values()):
        if info := check.failure_info:
            failure = info.failure
            findings.failures[check.name] = (
                f"{recorder.label}: {failure.title}: {failure.message}\n{info.code_sample}"
            )
    for interaction in recorder.interactions.values():
        if response := interaction.response:
            findings.statuses[recorder.label, response.status_code] += 1
            findings.streams += "text/event-stream" in str(response.headers.get("content-type"))
