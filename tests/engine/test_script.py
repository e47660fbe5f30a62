from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.script import CallPart, Match, Script, ScriptedAnswer, Situation, TextPart, read_script

SITUATION = Situation("What is up?", after_tool_result=False, tools=True, request=1, restarts=0)


def script(tmp_path: Path, data: Any) -> Script:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(data))
    return read_script(path)


def test_every_field_is_read(tmp_path: Path) -> None:
    call = {"tool_call": {"name": "f", "arguments": {"a": 1}}}
    parts = [{"reasoning": "r", "tokens": 9}, {"text": "t"}, {"raw": "<x>"}, call]
    faults = {"crash_at": 1, "raise_at": 2, "hang_at": 3}
    delays = {"first_delay_ms": 5, "token_delay_ms": 0.5}
    match = {"user": "u", "after_tool_result": True, "tools": False, "request": 2, "restarts": 1}
    first = {"match": match, "parts": parts, "finish": "length", **delays, **faults}
    answers = script(tmp_path, {"answers": [first, {"parts": []}]}).answers
    assert answers[0] == ScriptedAnswer(
        parts=(
            TextPart("reasoning", "r", 9),
            TextPart("text", "t"),
            TextPart("raw", "<x>"),
            CallPart("f", (), {"a": 1}),
        ),
        match=Match("u", True, False, 2, 1),
        finish="length",
        first_delay_ms=5,
        token_delay_ms=0.5,
        **faults,
    )
    assert answers[1] == ScriptedAnswer(())


def test_answers_without_a_match_are_taken_in_turn_again_and_again() -> None:
    one, two = ScriptedAnswer((TextPart("text", "1"),)), ScriptedAnswer((TextPart("text", "2"),))
    taken = [Script((one, two)).choose(replace(SITUATION, request=n)) for n in range(1, 5)]
    assert taken == [one, two, one, two]


@pytest.mark.parametrize(
    ("match", "other"),
    [
        (Match(user="is up"), {"user": "Hello"}),
        (Match(after_tool_result=False), {"after_tool_result": True}),
        (Match(tools=True), {"tools": False}),
        (Match(request=1), {"request": 2}),
        (Match(restarts=0), {"restarts": 1}),
        (Match(user="What", tools=True), {"tools": False}),
    ],
)
def test_an_answer_whose_match_fits_goes_first(match: Match, other: dict[str, Any]) -> None:
    plain, matched = ScriptedAnswer(()), ScriptedAnswer((), match)
    answers = Script((plain, matched))
    assert answers.choose(SITUATION) is matched
    assert answers.choose(replace(SITUATION, **other)) is plain


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ([], "the script is not an object"),
        ({"answer": []}, 'the script has no field "answer"'),
        ({"answers": {}}, "the script.answers is not of type array"),
        ({}, 'answers needs one without "match"'),
        ({"answers": [{"match": {}}]}, 'answers needs one without "match"'),
        ({"answers": [3]}, "answers[0] is not an object"),
        ({"answers": [{"finish": "now"}]}, "answers[0].finish is neither stop nor length"),
        ({"answers": [{"crash_at": True}]}, "answers[0].crash_at is not of type integer"),
        ({"answers": [{"crash_at": -1}]}, "answers[0].crash_at is not of type integer"),
        ({"answers": [{"parts": [{}]}]}, "answers[0].parts[0] needs exactly one of reasoning,"),
        ({"answers": [{"parts": [{"text": "a", "raw": "b"}]}]}, "needs exactly one of"),
        ({"answers": [{"parts": [{"text": ""}]}]}, "answers[0].parts[0].text is empty"),
        (
            {"answers": [{"parts": [{"tool_call": {"n": 1}}]}]},
            'parts[0].tool_call has no field "n"',
        ),
        ({"answers": [{"match": {"tools": 1}}]}, "answers[0].match.tools is not of type boolean"),
    ],
)
def test_a_wrong_script_is_refused_naming_the_place(
    tmp_path: Path, data: Any, complaint: str
) -> None:
    with pytest.raises(ModelError) as refused:
        script(tmp_path, data)
    assert complaint in str(refused.value)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text("{")
    for name in ("script.json", "missing.json"):
        with pytest.raises(ModelError, match="cannot be read"):
            read_script(tmp_path / name)
