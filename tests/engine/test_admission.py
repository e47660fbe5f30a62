"""Admission: limits, turns, and what counts as waiting."""

from __future__ import annotations

import pytest

from engine.admission import MAX_WAITING, MAX_WAITING_PER_TENANT, Admission
from engine.errors import QueueFull


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def fill(admission: Admission, count: int, tenant: str = "a", prefix: str = "r") -> None:
    for number in range(count):
        admission.enter(f"{prefix}{number}", tenant)


def start(admission: Admission) -> str:
    """Let the next request take a slot."""
    request_id = admission.next()
    assert request_id is not None
    admission.started(request_id)
    return request_id


def turns(admission: Admission) -> list[str]:
    taken = []
    while (request_id := admission.next()) is not None:
        taken.append(request_id)
    return taken


def refuse(admission: Admission, tenant: str = "a") -> QueueFull:
    with pytest.raises(QueueFull) as refusal:
        admission.enter("one too many", tenant)
    return refusal.value


def test_requests_that_find_a_free_slot_do_not_count_against_the_limit() -> None:
    admission = Admission(slots=4)
    fill(admission, 4 + MAX_WAITING_PER_TENANT)
    refuse(admission)


def test_a_started_request_makes_room_for_a_waiting_one_only_when_a_slot_is_left() -> None:
    admission = Admission(slots=2)
    fill(admission, 2 + MAX_WAITING_PER_TENANT)
    assert start(admission) == "r0"
    refuse(admission)
    admission.leave("r0")
    admission.enter("now it fits", "a")


def test_another_tenant_is_not_refused_for_the_first_ones_flood() -> None:
    admission = Admission(slots=1)
    fill(admission, 1 + MAX_WAITING_PER_TENANT)
    admission.enter("other", "b")
    assert refuse(admission).tenant_limit


def test_the_whole_queue_has_its_own_limit() -> None:
    admission = Admission(slots=1)
    admission.enter("running", "z")
    for tenant in range(MAX_WAITING // MAX_WAITING_PER_TENANT):
        fill(admission, MAX_WAITING_PER_TENANT, tenant=str(tenant), prefix=f"{tenant}-")
    assert not refuse(admission, "new tenant").tenant_limit


def test_counts_follow_a_request_through_its_life() -> None:
    admission = Admission(slots=1)
    admission.enter("x", "a")
    assert (len(admission.running), admission.waiting) == (0, 1)
    start(admission)
    assert (len(admission.running), admission.waiting) == (1, 0)
    admission.stopped("x")
    assert (len(admission.running), admission.waiting) == (0, 1)
    admission.leave("x")
    assert (len(admission.running), admission.waiting) == (0, 0)
    assert admission.next() is None


def test_within_a_tenant_first_come_is_first_served() -> None:
    admission = Admission(slots=1)
    fill(admission, 4)
    assert turns(admission) == ["r0", "r1", "r2", "r3"]


def test_tenants_take_turns_however_much_one_of_them_asks_for() -> None:
    admission = Admission(slots=1)
    fill(admission, 4, "a", "a")
    fill(admission, 2, "b", "b")
    fill(admission, 1, "c", "c")
    assert turns(admission) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_a_newcomer_is_next_behind_a_flood_but_does_not_jump_it_twice() -> None:
    admission = Admission(slots=1)
    fill(admission, 4, "a", "a")
    assert admission.next() == "a0"
    admission.enter("b0", "b")
    assert admission.next() == "b0"
    admission.enter("b1", "b")
    assert turns(admission) == ["a1", "b1", "a2", "a3"]


def test_a_waiting_request_can_leave_from_anywhere() -> None:
    admission = Admission(slots=1)
    fill(admission, 3)
    admission.leave("r1")
    admission.leave("r0")
    assert turns(admission) == ["r2"]
    admission.enter("b", "b")
    admission.leave("b")
    assert admission.next() is None


def test_retry_after_is_the_mean_time_over_the_slots() -> None:
    clock = Clock()
    admission = Admission(2, clock)
    for number in range(40):
        admission.enter(str(number), "a")
        start(admission)
        clock.now += 60.0
        admission.leave(str(number))
    fill(admission, 2 + MAX_WAITING_PER_TENANT)
    assert refuse(admission).retry_after == 30


def test_retry_after_of_one_tenant_counts_the_turns_of_the_others() -> None:
    clock = Clock()
    admission = Admission(1, clock)
    fill(admission, 1 + MAX_WAITING_PER_TENANT)
    fill(admission, 1, "b", "b")
    start(admission)
    clock.now += 10.0
    assert refuse(admission).retry_after == 20


def test_retry_after_heeds_how_long_the_first_requests_have_run() -> None:
    clock = Clock()
    admission = Admission(1, clock)
    fill(admission, 1 + MAX_WAITING_PER_TENANT)
    start(admission)
    assert refuse(admission).retry_after == 1
    clock.now += 45.0
    assert refuse(admission).retry_after == 45
