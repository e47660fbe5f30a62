"""Guesses how an answer goes on from what the prompt and the answer have said before.

Prompt lookup decoding (Saxena 2023): where the newest tokens have occurred before, what followed
them there is likely to follow here, as when a text is edited or quoted. The model checks all
guesses in one step; what it would not have said itself is dropped, so the text stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

# Tokens that one step checks, over all rows: up to here a step costs little more than one token.
CHECKED_TOKENS = 16
_MOST_GUESSES = 7
_LENGTHS = (3, 2)
_FEWEST_GUESSES = 2
_WEIGHT = 0.5
# When fewer tokens are right on average, a guess is tried in one of so many steps only.
_WORTHWHILE = 0.5
_PAUSE = 8


def guesses_per_row(rows: int) -> int:
    """How many tokens a step may guess for each of its rows; none pay when there are many."""
    return min(_MOST_GUESSES, CHECKED_TOKENS // rows - 1) if 0 < rows <= 4 else 0


class PromptLookup:
    """What one sequence has said so far, and how good the guesses from it have been."""

    def __init__(self, prompt_ids: Sequence[int]) -> None:
        self._ids: list[int] = []
        # Where a run of tokens was last seen: the place of the token that followed.
        self._after: dict[tuple[int, ...], int] = {}
        self._prompt_tokens = len(prompt_ids)
        self._expected = float(_FEWEST_GUESSES)
        self._pause = 0
        self._extend(prompt_ids)

    def guess(self, answer_ids: Sequence[int], most: int) -> tuple[int, ...]:
        """Return up to `most` tokens that may follow the answer; none when that does not pay."""
        self._extend(answer_ids[len(self._ids) - self._prompt_tokens :])
        if self._pause:
            self._pause -= 1
            return ()
        place = self._find()
        if place is None:
            return ()
        length = min(most, max(_FEWEST_GUESSES, ceil(2 * self._expected)))
        # A text that repeats itself has not said yet all that follows: it goes round.
        period = len(self._ids) - place
        return tuple(self._ids[place + i % period] for i in range(length))

    def learn(self, accepted: int) -> None:
        """Take note of how many tokens of a guess were right."""
        self._expected += _WEIGHT * (accepted - self._expected)
        if self._expected < _WORTHWHILE:
            self._pause = _PAUSE

    def _extend(self, token_ids: Sequence[int]) -> None:
        for token_id in token_ids:
            end = len(self._ids)
            for length in _LENGTHS:
                if length <= end:
                    self._after[tuple(self._ids[end - length :])] = end
            self._ids.append(token_id)

    def _find(self) -> int | None:
        """Give the place of what followed the newest tokens when they were last seen."""
        newest = (tuple(self._ids[-length:]) for length in _LENGTHS if length <= len(self._ids))
        places = (self._after[run] for run in newest if run in self._after)
        return next(places, None)
