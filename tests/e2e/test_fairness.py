"""Tenants share the slots in turns, and a queue that is full tells when to come again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from bench.protocols import WIRES, Chat
from bench.wire import Wire
from tests.e2e.scripts import ENDLESS, PARTS, Json, Pending, scripted
from tests.e2e.server import HTTP, Server

pytestmark = pytest.mark.e2e

TENANTS = "abcdefghi"
CHAT = Chat()
# Each answer tells how many requests the worker had begun when it was.
TURNS: list[Json] = [
    {"match": {"request": turn}, "parts": [{"text": f"turn {turn}"}]} for turn in range(1, 80)
]


def key(tenant: str) -> str:
    return f"a-key-that-is-of-tenant-{tenant}"


@contextmanager
def with_tenants(folder: Path, *answers: Json) -> Iterator[Server]:
    """A server with one slot, and a key for each of TENANTS."""
    keys = folder / "keys"
    keys.write_text("".join(f"{key(tenant)} {tenant}\n" for tenant in TENANTS))
    keys.chmod(0o600)
    options = ("--slots", "1", "--api-key-file", str(keys))
    with scripted(folder, *answers, options=options) as server:
        yield server


def queue(server: Server, tenant: str, count: int, text: str = "Hi") -> list[Pending]:
    """Send requests of one tenant one after the other; all of them wait."""
    before = int(str(server.health()["waiting"]))
    requests = []
    for n in range(1, count + 1):
        requests.append(Pending(server, CHAT, text, key(tenant)))
        server.wait_for_health(waiting=before + n, seconds=10)
    return requests


def hold(server: Server) -> Pending:
    """Take the only slot."""
    request = Pending(server, CHAT, "endless", key("a"))
    server.wait_for_health(live_rows=1, seconds=10)
    return request


def turns(requests: list[Pending]) -> list[int]:
    return [int(request.answer().text.removeprefix("turn ")) for request in requests]


def refused(server: Server, wire: Wire, tenant: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key(tenant)}"}
    return HTTP.post(server.url + wire.path, json=wire.body("Hi"), headers=headers, timeout=10)


def test_a_flood_of_one_tenant_delays_another_by_one_turn(tmp_path: Path) -> None:
    with with_tenants(tmp_path, ENDLESS, *TURNS) as server:
        held = hold(server)
        flood = queue(server, "a", 30)
        late = queue(server, "b", 1)
        held.leave()
        # The one that held the slot was the first, and one more of the flood may have been sent.
        assert turns(late)[0] <= 3
        order = turns(flood)
        assert order == sorted(order)


def test_tenants_take_turns_whatever_each_has_sent(tmp_path: Path) -> None:
    with with_tenants(tmp_path, ENDLESS, *TURNS) as server:
        held = hold(server)
        waiting = {tenant: queue(server, tenant, count) for tenant, count in [("a", 9), ("b", 3)]}
        held.leave()
        ours, theirs = turns(waiting["a"]), turns(waiting["b"])
        assert theirs[-1] <= 8 and ours == sorted(ours) and theirs == sorted(theirs)


def test_a_tenant_at_its_limit_is_refused_and_others_are_not(tmp_path: Path) -> None:
    with with_tenants(tmp_path, ENDLESS, {"parts": PARTS}) as server:
        held = hold(server)
        waiting = queue(server, "a", 32)
        for wire in WIRES:
            answer = wire.read(refused(server, wire, "a"))
            assert (answer.status, answer.error_type) == (429, "rate_limit_error")
            assert answer.retry_after and 1 <= answer.retry_after <= 10
        assert_at_once(server)
        other = queue(server, "b", 1)
        held.leave()
        assert all(request.answer().complete for request in [*other, *waiting])


def test_a_full_queue_refuses_everyone(tmp_path: Path) -> None:
    with with_tenants(tmp_path, ENDLESS, {"parts": PARTS}) as server:
        held = hold(server)
        waiting = [request for tenant in TENANTS[:8] for request in queue_fast(server, tenant, 32)]
        server.wait_for_health(waiting=256, seconds=20)
        for wire in WIRES:
            response = refused(server, wire, TENANTS[8])
            answer = wire.read(response)
            if wire.path == "/v1/messages":
                assert (answer.status, answer.error_type) == (529, "overloaded_error")
                assert response.headers["x-should-retry"] == "true"
            else:
                assert (answer.status, answer.error_type) == (429, "rate_limit_error")
        assert_at_once(server)
        for request in [*waiting, held]:
            request.leave()
        server.wait_for_health(waiting=0, live_rows=0, seconds=20)
        assert queue_fast(server, "i", 1)[0].answer().complete


def test_who_comes_again_after_the_seconds_told_is_let_in(tmp_path: Path) -> None:
    first = {"match": {"request": 1}, "parts": PARTS, "first_delay_ms": 800}
    with with_tenants(tmp_path, first) as server:
        waiting = queue_fast(server, "a", 33)
        server.wait_for_health(live_rows=1, waiting=32, seconds=10)
        answer = Pending(server, CHAT, "Hi", key("a")).answer()
        assert answer.status == 429 and answer.retry_after
        time.sleep(answer.retry_after)
        assert Pending(server, CHAT, "Hi", key("a")).answer().complete
        assert all(request.answer().complete for request in waiting)


def queue_fast(server: Server, tenant: str, count: int) -> list[Pending]:
    """Send requests of one tenant in no certain order."""
    return [Pending(server, CHAT, "Hi", key(tenant)) for _ in range(count)]


def assert_at_once(server: Server) -> None:
    """What needs no slot does not wait for one."""
    headers = {"x-api-key": key("a")}
    counted = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    started = time.monotonic()
    for path in ("/health", "/v1/models", "/metrics"):
        assert HTTP.get(server.url + path, headers=headers).status_code == 200
    path = server.url + "/v1/messages/count_tokens"
    assert HTTP.post(path, json=counted, headers=headers).json()["input_tokens"] > 0
    assert time.monotonic() - started < 2
