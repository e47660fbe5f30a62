"""Past calls' arguments, which models may have written badly."""

from __future__ import annotations

import pytest

from handlers.tools import parse_arguments


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r'{"a": "\ud83d"}', {"a": "\ufffd"}),
        (r'{"\udc00": ["\ud83d\ude00"]}', {"\ufffd": ["\U0001f600"]}),
        (r'"\ud83d"', {"arguments": "\ufffd"}),
        ("9" * 40, {"arguments": int("9" * 40)}),
        ('{"b": 1.5, "a": "\\\\ud83d"}', {"b": 1.5, "a": r"\ud83d"}),
    ],
)
def test_halves_of_a_pair_become_the_replacement_character(
    written: str, read: dict[str, object]
) -> None:
    assert parse_arguments(written) == read


@pytest.mark.parametrize("depth", [300, 700, 5000])
def test_nesting_too_deep_for_a_template_stays_text(depth: int) -> None:
    written = '{"a":' * depth + "1" + "}" * depth

    assert parse_arguments(written) == {"arguments": written}
