"""Admission: limits, and what counts as waiting."""

from __future__ import annotations

import pytest

from engine.admission import MAX_WAITING, MAX_WAITING_PER_TENANT, Admission
from engine.errors import QueueFull


def fill(admission: Admission, count: int, tenant: str = "a", prefix: str = "r") -> None:
    for number in range(count):
        admission.enter(f"{prefix}{number}", tenant)


def test_requests_that_find_a_free_slot_do_not_count_against_the_limit() -> None:
    admission = Admission(slots=4)
    fill(admission, 4 + MAX_WAITING_PER_TENANT)
    with pytest.raises(QueueFull):
        admission.enter("one too many", "a")


def test_a_started_request_makes_room_for_a_waiting_one_only_when_a_slot_is_left() -> None:
    admission = Admission(slots=2)
    fill(admission, 2 + MAX_WAITING_PER_TENANT)
    admission.started("r0")
    with pytest.raises(QueueFull):
        admission.enter("still too many", "a")
    admission.leave("r0", seconds=1.0)
    admission.enter("now it fits", "a")


def test_another_tenant_is_not_refused_for_the_first_ones_flood() -> None:
    admission = Admission(slots=1)
    fill(admission, 1 + MAX_WAITING_PER_TENANT)
    admission.enter("other", "b")
    with pytest.raises(QueueFull) as refusal:
        admission.enter("same", "a")
    assert refusal.value.tenant_limit


def test_the_whole_queue_has_its_own_limit() -> None:
    admission = Admission(slots=1)
    admission.enter("running", "z")
    for tenant in range(MAX_WAITING // MAX_WAITING_PER_TENANT):
        fill(admission, MAX_WAITING_PER_TENANT, tenant=str(tenant), prefix=f"{tenant}-")
    with pytest.raises(QueueFull) as refusal:
        admission.enter("new", "new tenant")
    assert not refusal.value.tenant_limit


def test_counts_follow_a_request_through_its_life() -> None:
    admission = Admission(slots=1)
    admission.enter("x", "a")
    assert (admission.running, admission.waiting) == (0, 1)
    admission.started("x")
    assert (admission.running, admission.waiting) == (1, 0)
    admission.leave("x", seconds=2.0)
    admission.leave("x", seconds=2.0)
    assert (admission.running, admission.waiting) == (0, 0)


def test_a_request_that_leaves_while_waiting_is_not_counted() -> None:
    admission = Admission(slots=1)
    admission.enter("x", "a")
    admission.leave("x", seconds=0.0)
    assert (admission.running, admission.waiting) == (0, 0)


def test_retry_after_grows_with_the_time_that_requests_take() -> None:
    def retry_after(seconds: float) -> int:
        admission = Admission(slots=1)
        for number in range(50):
            admission.enter(f"old{number}", "a")
            admission.started(f"old{number}")
            admission.leave(f"old{number}", seconds)
        fill(admission, 1 + MAX_WAITING_PER_TENANT)
        with pytest.raises(QueueFull) as refusal:
            admission.enter("new", "a")
        return refusal.value.retry_after

    assert retry_after(0.1) == 1
    assert 15 <= retry_after(20.0) <= 20
