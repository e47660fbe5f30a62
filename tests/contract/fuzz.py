"""Runs schemathesis: the contract on one side, the real application, served, on the other."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import schemathesis
import uvicorn
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder
from starlette.types import ASGIApp

from bench.protocols import WIRES
from tests.contract.judge import judge

CHAT = "POST /v1/chat/completions"
STREAMED = tuple(f"POST {wire.path}" for wire in WIRES)
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


@dataclass
class Findings:
    """What a run found, by check, and what it tried."""

    failures: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    cases: Counter[str] = field(default_factory=Counter)
    linked: int = 0
    streams: Counter[str] = field(default_factory=Counter)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)


@schemathesis.deserializer("text/event-stream")
def events_of(context: schemathesis.DeserializationContext, response: schemathesis.Response) -> Any:
    """Give a stream's events as a list: each is checked against the media type's schema."""
    found = re.findall("^data: (.*)$", response.content.decode(), re.MULTILINE)
    return [json.loads(data) for data in found if data != "[DONE]"]


@schemathesis.check
def every_answer_keeps_the_contract(
    context: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    """Judge the answer: of a stream each event by its type's schema, their order and its end."""
    path = unquote(urlsplit(response.request.url).path)
    headers = {name: ", ".join(values) for name, values in response.headers.items()}
    judge(f"{response.request.method} {path}", response.status_code, headers, response.content)


@schemathesis.hook
def before_call(
    context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]
) -> None:
    """Make true what no schema can say: the model runs here, and a chosen tool is on offer.

    Left to chance, nearly every body would be refused for one of them, and hide what else is
    wrong with it. A body that breaks its schema goes on breaking it.
    """
    body = case.body
    if not isinstance(body, dict):
        return
    if isinstance(body.get("model"), str):
        body["model"] = case.operation.schema.raw_schema["info"]["x-mashbox-model"]
    if name := _chosen(body.get("tool_choice")):
        tools = body.get("tools") or []
        if isinstance(tools, list):
            body["tools"] = [*tools, _tool(name, case.path)]


def _chosen(choice: Any) -> str | None:
    """Find the tool that a request chooses, and give it a name where there is none."""
    match choice:
        case "required" | {"type": "any"}:
            return "ring"
        case {"function": {"name": str()} as named}:
            pass
        case {"type": "auto" | "none" | "required"} if not choice.get("name"):
            return "ring"
        case dict():
            named = choice
        case _:
            return None
    name = named.get("name") or "ring"
    if isinstance(name, str):
        named["name"] = name
        return name
    return None


def _tool(name: str, path: str) -> dict[str, Any]:
    if path.startswith("/v1/messages"):
        return {"name": name, "input_schema": {}}
    # Chat reads the nested form, Responses the flat one.
    return {"type": "function", "name": name, "function": {"name": name}}


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


def fuzz(
    url: str,
    max_examples: int,
    key: str = "",
    only: str = "",
    seed: int = 0,
    tokens: int = 0,
    coverage: bool = True,
) -> Findings:
    """Try every operation, or `only` one, with examples, boundary values, random cases and links.

    All of schemathesis's checks are on but `max_response_time`: how fast a machine is, the contract
    does not say.

    `key` is one of the server's, if it has some. Another `seed` tries other random cases. `tokens`
    keeps answers that short; without `coverage` the boundary values are left out.
    """
    findings = Findings()
    document = httpx.get(f"{url}/openapi.json", headers={"x-api-key": key}).json()
    # Links lead from one operation to another.
    phases = {"coverage": coverage, "stateful": not only}
    config = _config(url, max_examples, key, seed, phases)
    schema = schemathesis.openapi.from_dict(document, config=config)
    schema.hook("map_body")(_asking(tokens))
    schema.hook(flatmap_path_parameters)
    chosen = schema.include(name=only) if only else schema
    for event in from_schema(chosen).execute():
        match event:
            case events.NonFatalError():
                findings.errors.append(f"{event.label}: {event.value}")
            case events.FatalError():
                findings.errors.append(str(event.exception))
            case events.ScenarioFinished():
                _note(findings, event.recorder)
    return findings


def flatmap_path_parameters(
    context: schemathesis.HookContext, known: Any
) -> st.SearchStrategy[Any]:
    """Ask for other models too: left to itself, it asks for the one of the examples alone."""
    if known is None:
        return st.none()  # a path without parameters
    others = st.text("abc-./", min_size=1).filter(lambda text: text.strip("./"))
    return st.just(known) | st.builds(lambda other: {**known, "model": other}, others)


def _asking(tokens: int) -> Callable[[schemathesis.HookContext, Any], Any]:
    def map_body(context: schemathesis.HookContext, body: Any) -> Any:
        """Ask for streams in the random cases: left to chance, they are rare."""
        if not isinstance(body, dict):
            return body
        body = {"stream": True} | body
        if tokens:
            body |= {name: tokens for name in _LIMITS if _is_limit(body.get(name, tokens))}
        return body

    return map_body


def _is_limit(value: Any) -> bool:
    # True is an int too, and has to stay a mistake.
    return value is None or (type(value) is int and value >= 1)


def _config(
    url: str, max_examples: int, key: str, seed: int, phases: dict[str, bool]
) -> SchemathesisConfig:
    generation = {"database": "none", "max-examples": max_examples, "no-shrink": True}
    return SchemathesisConfig.from_dict(
        {
            # Without a seed of their own the random cases are the same in every run.
            "seed": seed or 1,
            "base-url": url,
            "continue-on-failure": True,
            # A stream that is cut short has no end to judge.
            "max-stream-events": 100_000,
            "request-timeout": 60,
            "generation": {"deterministic": not seed, **generation},
            "phases": {name: {"enabled": enabled} for name, enabled in phases.items()},
            "auth": {"openapi": {"bearer": {"bearer": key}}} if key else {},
        }
    )


def _note(findings: Findings, recorder: ScenarioRecorder) -> None:
    findings.cases[recorder.label] += len(recorder.cases)
    findings.linked += sum(node.is_transition_applied for node in recorder.cases.values())
    for check in chain.from_iterable(recorder.checks.values()):
        if info := check.failure_info:
            failure = info.failure
            findings.failures[check.name] = (
                f"{recorder.label}: {failure.title}: {failure.message}\n{info.code_sample}"
            )
    for interaction in recorder.interactions.values():
        if response := interaction.response:
            findings.statuses[recorder.label, response.status_code] += 1
            streamed = "text/event-stream" in str(response.headers.get("content-type"))
            findings.streams[recorder.label] += streamed
