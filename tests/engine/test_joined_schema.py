from __future__ import annotations

from typing import Any

import pytest

from engine.joined_schema import joined


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (True, {"type": "null"}, {"type": "null"}),
        ({"type": "null"}, True, {"type": "null"}),
        ({"type": "null"}, False, False),
        ({"minimum": 1, "maximum": 9}, {"minimum": 3, "maximum": 5}, {"minimum": 3, "maximum": 5}),
        ({"maxLength": 4, "minLength": 2}, {"maxLength": 9}, {"maxLength": 4, "minLength": 2}),
        ({"type": ["string", "null"]}, {"type": "null"}, {"type": "null"}),
        ({"type": "number"}, {"type": "integer"}, {"type": "integer"}),
        ({"enum": [1, 2, 3]}, {"enum": [3, 2, 4]}, {"enum": [2, 3]}),
        ({"required": ["a"]}, {"required": ["b", "a"]}, {"required": ["a", "b"]}),
        (
            {"properties": {"a": {"minimum": 1}}},
            {"properties": {"a": {"minimum": 2}, "b": True}},
            {"properties": {"a": {"minimum": 2}, "b": True}},
        ),
        ({"format": "date"}, {"format": "time"}, {"format": "time"}),
    ],
)
def test_the_joined_schema_asks_for_what_both_ask(one: Any, other: Any, both: Any) -> None:
    assert joined(one, other) == both
