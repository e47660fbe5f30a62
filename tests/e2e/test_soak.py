"""A short soak, with everything that the long one does."""

from __future__ import annotations

import pytest

from bench.soak import soak

pytestmark = pytest.mark.e2e


def test_every_request_ends_once_and_nothing_is_left_behind() -> None:
    report = soak(requests=600, seed=2)
    print(report)
    assert not report.problems
    assert report.restarts
    statuses = {ending.split()[2] for ending in report.endings}
    assert {"200", "429", "500", "left"} <= statuses
