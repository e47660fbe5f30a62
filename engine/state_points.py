"""Where the state of recurrent layers is saved within a prompt."""

from __future__ import annotations

# Points of one prompt.
MOST_POINTS = 2
# Fewer tokens are computed again in no time, and a state may have the size of thousands.
_APART = 32


def state_points(prompt_ids: tuple[int, ...], opening: int | None, known: int) -> list[int]:
    """Choose positions of a prompt whose state is worth keeping, beyond its `known` tokens.

    `opening` is the id that begins every message. The last two messages begin with the user's
    newest one, which may be edited, and with the answer: the next turn renders it anew, often
    without its thinking. Without messages it is the last token, whose logits are needed anyway.
    """
    points = []
    for position in _last(prompt_ids, opening) or [len(prompt_ids) - 1]:
        if position - known >= _APART:
            points.append(position)
            known = position
    return points


def _last(ids: tuple[int, ...], wanted: int | None) -> list[int]:
    return [position for position, each in enumerate(ids) if each == wanted][-MOST_POINTS:]
