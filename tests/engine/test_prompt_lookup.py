from __future__ import annotations

import pytest

from engine.prompt_lookup import PromptLookup, guesses_per_row


@pytest.mark.parametrize(
    ("prompt", "answer", "expected"),
    [
        ([1, 2, 3, 4, 5, 6], [2, 3], (4, 5, 6)),  # two tokens seen before
        ([1, 2, 3, 9, 7, 2, 3, 8, 6], [1, 2, 3], (9, 7, 2)),  # three go before the newer two
        ([1, 2, 3, 4, 0, 1, 2, 3, 5, 0], [1, 2, 3], (5, 0, 1)),  # the latest of two
        ([1, 2, 3, 4], [3, 4], (3, 4, 3)),  # it goes round
        ([7, 8], [7, 7, 7], (7, 7, 7)),
        ([1, 2, 3], [4, 5], ()),
        ([1], [2], ()),
    ],
)
def test_guess_is_what_followed_the_newest_tokens_before(
    prompt: list[int], answer: list[int], expected: tuple[int, ...]
) -> None:
    assert PromptLookup(prompt).guess(answer, 3) == expected


def test_answer_may_grow_by_any_number_of_tokens_between_guesses() -> None:
    text = [5, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9]
    lookup, whole = PromptLookup(text), text[4:12]
    for end in (1, 2, 5, 8):
        lookup.guess(whole[:end], 2)
    assert lookup.guess(whole, 2) == PromptLookup([*text, *whole[:-3]]).guess(whole[-3:], 2)
    assert lookup.guess(whole, 2) == (9, 7)


def test_guesses_get_longer_while_they_are_right_and_shorter_when_not() -> None:
    lookup, answer = PromptLookup(list(range(100))), [4, 5, 6]
    lengths = [len(lookup.guess(answer, 7))]
    for accepted in (4, 6, 7, 0, 0, 0):
        lookup.learn(accepted)
        lengths.append(len(lookup.guess(answer, 7)))
    assert lengths == [4, 6, 7, 7, 6, 3, 2]


def test_wrong_guesses_are_made_seldom_and_right_ones_bring_them_back() -> None:
    lookup, answer = PromptLookup(list(range(100))), [4, 5, 6]
    guessed = 0
    for _ in range(100):
        if lookup.guess(answer, 7):
            guessed += 1
            lookup.learn(0)
    assert guessed <= 13
    while not (guess := lookup.guess(answer, 7)):
        pass
    lookup.learn(len(guess))
    assert lookup.guess(answer, 7)


def test_few_tokens_are_checked_and_none_beside_many_rows() -> None:
    assert [guesses_per_row(rows) for rows in range(7)] == [0, 7, 7, 4, 3, 0, 0]
