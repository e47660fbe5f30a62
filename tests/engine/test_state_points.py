from __future__ import annotations

import pytest

from engine.state_points import state_points

OPENING = 7


def prompt(*starts: int, length: int) -> tuple[int, ...]:
    return tuple(OPENING if n in starts else 0 for n in range(length))


@pytest.mark.parametrize(
    ("starts", "known", "points"),
    [
        ((0, 100, 200), 0, [100, 200]),
        ((0, 40, 100, 200), 0, [100, 200]),
        ((0, 100, 200), 150, [200]),
        ((0, 100, 110), 0, [100]),
        ((0, 20), 0, []),
        ((0, 100, 200), 190, []),
        ((), 0, [299]),
        ((), 290, []),
    ],
)
def test_the_last_two_messages_that_are_far_enough_from_what_is_known_begin_at_points(
    starts: tuple[int, ...], known: int, points: list[int]
) -> None:
    assert state_points(prompt(*starts, length=300), OPENING, known) == points


def test_a_prompt_without_messages_has_its_point_before_the_last_token() -> None:
    assert state_points((OPENING,) * 50, None, 0) == [49]
