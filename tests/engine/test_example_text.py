from __future__ import annotations

import re
from typing import Any

import pytest

from engine.example_text import texts


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[a-z]+-\d{2,4}$",
        r"^(?:foo|bar)\s?\w*$",
        r"^[^a-z]{3}$",
        r"^(\w)x\1$",
        r"^[^a]$",
        r"[\d]+(?:\.\d+)?",
        r"^(?!x)y.$",
        r"^[é-ü]$",
        r"^\D\W\S$",
    ],
)
def test_a_text_fits_its_pattern(pattern: str) -> None:
    assert any(re.search(pattern, text) for text in texts({"pattern": pattern}))


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": r"\p{L}"},
        {"pattern": "(a{9999}){9999}"},
        {"minLength": 10**9},
    ],
)
def test_what_cannot_be_followed_gives_a_text_all_the_same(schema: dict[str, Any]) -> None:
    assert 0 < len(next(texts(schema))) < 10**9
