"""A worker that dies or fails in the middle of answers: what each protocol's client sees."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.protocols import WIRES
from bench.wire import Answer, Wire
from engine.config import EngineConfig
from engine.engine import Engine
from engine.script_reader import scripted_source
from tests.e2e.scripts import (
    PARTS,
    TEXT,
    THOUGHT,
    Json,
    Pending,
    ask,
    is_right,
    scripted,
    thinks,
    write_script,
)
from tests.e2e.server import Server
from tests.handlers.asgi import client

pytestmark = pytest.mark.e2e

# Holds back "Hello from the": tokens are out, but their client has received nothing.
HOLDS_BACK = "Hello from the moon"
STOPS = {"/v1/messages": "stop_sequences"}


@dataclass(frozen=True, slots=True)
class Case:
    """A request, and the token before which its first attempt is to fail."""

    wire: Wire
    streamed: bool
    at: int

    @property
    def fields(self) -> Json:
        """What goes into its body besides the text."""
        if not self.streamed:
            return {}
        stop = {STOPS.get(self.wire.path, "stop"): [HOLDS_BACK]}
        return {"stream": True, **(stop if self.at else {})}


def without_output() -> list[Case]:
    """Every protocol, streamed and not, failing while its client has received nothing."""
    cases = []
    for wire in WIRES:
        # A bare prompt is answered without thoughts, whose marker is the first token otherwise.
        held = 1 if thinks(wire) else 3
        cases += [Case(wire, streamed=True, at=at) for at in (0, held)]
        cases += [Case(wire, streamed=False, at=at) for at in (0, 4)]
    return cases


CASES = without_output()


def first_lives(fault: str) -> list[Json]:
    """Answers that let the first attempt of each case fail, asked one after the other.

    Every crash is one restart; failures of a step leave the worker its count of requests.
    """
    return [
        {
            "match": {"user": f"case {n}.", "restarts" if fault == "crash_at" else "request": when},
            "parts": PARTS,
            fault: case.at,
        }
        for n, case in enumerate(CASES)
        for when in [n if fault == "crash_at" else 2 * n + 1]
    ]


@pytest.mark.parametrize("fault", ["crash_at", "raise_at"])
def test_a_fault_before_any_output_is_not_seen_by_the_client(tmp_path: Path, fault: str) -> None:
    with scripted(tmp_path, *first_lives(fault)) as server:
        for n, case in enumerate(CASES):
            answer = ask(server, case.wire, f"case {n}.", **case.fields)
            assert is_right(case.wire, answer), (case, answer)
            restarts = n + 1 if fault == "crash_at" else 0
            assert server.wait_for_health(status="ok")["worker_restarts"] == restarts
        idle(server)


@pytest.mark.parametrize("fault", ["crash_at", "raise_at"])
def test_a_stream_with_output_ends_in_its_error_event_and_is_not_retried(
    tmp_path: Path, fault: str
) -> None:
    call = {"tool_call": {"name": "look", "arguments": {"at": "the sea and the sky"}}}
    answers = [
        {"match": {"user": "thinking"}, "parts": PARTS, fault: 4},
        {"match": {"user": "saying"}, "parts": [{"text": TEXT}], fault: 3},
        {"match": {"user": "calling"}, "parts": [{"text": "Well. "}, call], fault: 20},
    ]
    with scripted(tmp_path, *answers) as server:
        texts = ["thinking", "saying", "calling"]
        cases = (
            [*zip(WIRES, itertools.cycle(texts))]
            if fault == "crash_at"
            else [*itertools.product(WIRES, texts)]
        )
        for restarts, (wire, text) in enumerate(cases, start=1):
            answer = ask(server, wire, text, stream=True)
            assert answer.status == 200 and answer.faulted, answer
            assert answer.thinking or answer.text or answer.calls
            assert THOUGHT.startswith(answer.thinking) and answer.text != TEXT
            health = server.wait_for_health(status="ok")
            assert health["worker_restarts"] == (restarts if fault == "crash_at" else 0)
        idle(server)


def poison(user: str, fault: str) -> Json:
    """An answer that fails in every life before its client receives anything."""
    return {"match": {"user": user}, "parts": PARTS, fault: 0, "first_delay_ms": 100}


def test_a_request_that_kills_the_worker_twice_is_not_tried_again(tmp_path: Path) -> None:
    with scripted(tmp_path, poison("poison", "crash_at")) as server:
        for n, (wire, streamed) in enumerate(zip(WIRES, [False, True] * 2, strict=True), start=1):
            answer = ask(server, wire, "poison", stream=streamed)
            assert lost(answer), answer
            assert server.wait_for_health(status="ok")["worker_restarts"] == 2 * n
        idle(server)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_whose_steps_fail_twice_is_not_tried_again(
    tmp_path: Path, streamed: bool
) -> None:
    # The third attempt would be answered.
    answers = [
        {"match": {"user": "poison", "request": request}, "parts": PARTS, "raise_at": 0}
        for wire in range(4)
        for request in (2 * wire + 1, 2 * wire + 2)
    ]
    with scripted(tmp_path, *answers) as server:
        for wire in WIRES:
            answer = ask(server, wire, "poison", stream=streamed)
            assert lost(answer), answer
        assert server.health()["worker_restarts"] == 0
        idle(server)


@pytest.mark.parametrize("fault", ["crash_at", "raise_at"])
def test_those_that_run_beside_a_poisoned_request_are_answered(tmp_path: Path, fault: str) -> None:
    slow = {"match": {"user": "innocent"}, "parts": PARTS, "token_delay_ms": 60}
    with scripted(tmp_path, poison("poison", fault), slow, options=("--slots", "8")) as server:
        innocent = [Pending(server, wire, "innocent") for wire in WIRES]
        server.wait_for_health(live_rows=4, seconds=10)
        poisoned = [Pending(server, wire, "poison") for wire in WIRES[:2]]
        assert all(lost(request.answer()) for request in poisoned)
        assert_right(innocent)
        restarts = server.wait_for_health(status="ok")["worker_restarts"]
        # One death in company, then at most two alone for each of the poisoned.
        assert restarts in ((3, 4) if fault == "crash_at" else (0,))
        idle(server)


def test_those_that_wait_through_restarts_are_answered_and_keep_their_retry(
    tmp_path: Path,
) -> None:
    late = {"match": {"user": "late", "restarts": 2}, "parts": PARTS, "crash_at": 0}
    with scripted(tmp_path, poison("poison", "crash_at"), late, options=("--slots", "1")) as server:
        poisoned = Pending(server, WIRES[0], "poison")
        server.wait_for_health(live_rows=1, seconds=10)
        waiting = [
            Pending(server, wire, "late", stream=streamed)
            for wire, streamed in itertools.product(WIRES, [False, True])
        ]
        assert lost(poisoned.answer())
        assert_right(waiting)
        assert server.health()["worker_restarts"] == 3
        idle(server)


async def test_a_worker_that_hangs_is_killed_and_its_requests_are_treated_alike(
    tmp_path: Path,
) -> None:
    hangs: list[Json] = [
        {"match": {"user": "once", "restarts": 0}, "parts": PARTS, "hang_at": 2},
        {"match": {"user": "midway"}, "parts": PARTS, "hang_at": 4},
        {"match": {"user": "always"}, "parts": PARTS, "hang_at": 0},
    ]
    source = scripted_source(write_script(tmp_path, hangs))
    engine = Engine(EngineConfig(source, ctx=4096, step_seconds=2.0))
    await engine.start()
    try:
        async with client(engine) as http:

            async def post(wire: Wire, text: str, stream: bool = False) -> Answer:
                return wire.read(await http.post(wire.path, json=wire.body(text, stream=stream)))

            survived = await asyncio.gather(*(post(wire, "once") for wire in WIRES))
            assert all(map(is_right, WIRES, survived))
            midway = await post(WIRES[2], "midway", stream=True)
            assert midway.faulted and THOUGHT.startswith(midway.thinking) and midway.thinking
            await until_ready(engine)
            assert lost(await post(WIRES[3], "always"))
            await until_ready(engine)
            assert is_right(WIRES[1], await post(WIRES[1], "Hi"))
        assert engine.health().worker_restarts == 1 + 1 + 2
    finally:
        await engine.close()


async def until_ready(engine: Engine) -> None:
    async with asyncio.timeout(20):
        while not engine.health().ready:
            await asyncio.sleep(0.02)


def lost(answer: Answer) -> bool:
    """Whether it failed without output: as a 500, or in a stream that had begun."""
    return answer.faulted and not (answer.thinking or answer.text or answer.calls)


def assert_right(requests: list[Pending]) -> None:
    for request in requests:
        answer = request.answer()
        assert is_right(request.wire, answer), answer


def idle(server: Server) -> None:
    """All slots are free again, and usable."""
    server.wait_for_health(live_rows=0, waiting=0, status="ok", seconds=10)
    assert is_right(WIRES[1], ask(server, WIRES[1], "Hi"))
