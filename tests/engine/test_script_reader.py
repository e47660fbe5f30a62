from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.script import (
    CallPart,
    Counts,
    Match,
    Refusal,
    Script,
    ScriptedAnswer,
    Situation,
    TextPart,
)
from engine.script_reader import DirectiveError, read_directives, read_script

SITUATION = Situation("What is up?", False, tools=True, request=1, restarts=0)


IN_ARGUMENTS = '#!mock {"parts": [{"tool_call": {"name": "f", "arguments": {"a": %s}}}]}'


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
        ({"answers": [{"refuse": {"kind": "no"}}]}, "answers[0].refuse.kind is none of rate_limit"),
        ({"answers": [{"refuse": {"kind": "loading", "retry_after": 0}}]}, "retry_after is 0"),
        ({"answers": [{"first_delay_ms": 10**400}]}, "first_delay_ms is not of type number (0 to"),
        ({"answers": [{"parts": [{"tool_call": {"names": [5]}}]}]}, "names has something else"),
        ({"answers": [{"parts": [{"tool_call": {"names": [""]}}]}]}, "names has something else"),
        ({"answers": [{"parts": [{"tool_call": {"name": ""}}]}]}, "tool_call.name is empty"),
        (
            {"answers": [{"parts": [{"tool_call": {"name": "f", "names": ["g"]}}]}]},
            "tool_call has both name and names",
        ),
        ({"answers": [{"usage": {"tokens": 1}}]}, 'answers[0].usage has no field "tokens"'),
        ({"answers": [{"cut_at": 1}, {}]}, "answers[0].cut_at is for an answer with a match"),
        (
            {"answers": [{"match": {"request": 1}, "usage": {}}, {}]},
            "answers[0].usage is for an answer with a match, without",
        ),
        (
            {"answers": [{"match": {"restarts": 1}, "error_at": 0}, {}]},
            "answers[0].error_at is for an answer with a match, without",
        ),
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
    (tmp_path / "deep.json").write_text("[" * 10**5)
    for name in ("script.json", "deep.json", "missing.json"):
        with pytest.raises(ModelError, match="cannot be read"):
            read_script(tmp_path / name)


def test_what_the_server_plays_is_read(tmp_path: Path) -> None:
    refuse = {"kind": "rate_limit", "times": 2, "retry_after": 3}
    data = {"refuse": refuse, "usage": {"cached_tokens": 1}, "error_at": 4, "cut_at": 5}
    (answer,) = script(tmp_path, {"answers": [data]}).answers
    matched = {**data, "match": {"user": "u"}}
    assert script(tmp_path, {"answers": [matched, {}]}).answers[0].served == answer.served
    assert answer.refuse == Refusal("rate_limit", times=2, retry_after=3)
    assert answer.usage == Counts(cached_tokens=1)
    assert (answer.error_at, answer.cut_at, answer.served) == (
        4,
        5,
        ("refuse", "usage", "error_at", "cut_at"),
    )


def test_a_directive_is_the_json_after_its_word_at_the_start_of_a_line() -> None:
    text = 'Say: #!mock {}\n#!mock {"parts":\n [{"text": "1"}]} and\n#!mock\t{"crash_at": 0}'
    assert read_directives(text) == (
        ScriptedAnswer((TextPart("text", "1"),)),
        ScriptedAnswer((), crash_at=0),
    )
    assert read_directives("A #!mock, or a #!mockery\n#!mocked {\n#!mock-up") == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("#!mock", "#!mock is not followed by JSON"),
        ("#!mock{", "#!mock is not followed by JSON"),
        ("#!mock {", "#!mock is not followed by JSON"),
        ("#!mock " + "[" * 10**5, "#!mock is not followed by JSON"),
        ('#!mock {"parts": [{"text": "\\ud800"}]}', "surrogates not allowed; correct it"),
        (IN_ARGUMENTS % "NaN", "#!mock is not followed by JSON: Out of range"),
        (IN_ARGUMENTS % "1e999", "#!mock is not followed by JSON: Out of range"),
        ("#!mock []", "#!mock is not an object"),
        ('#!mock {"match": {}}', '#!mock has no field "match"'),
        ('#!mock {"parts": [{"text": 1}]}', "#!mock.parts[0].text is not of type string"),
    ],
)
def test_a_wrong_directive_is_refused_naming_the_place(text: str, complaint: str) -> None:
    with pytest.raises(DirectiveError) as refused:
        read_directives(text)
    assert complaint in str(refused.value)


def test_directives_go_first_one_for_each_answer_since_the_user_spoke() -> None:
    plain, one, two = ScriptedAnswer(()), ScriptedAnswer((), crash_at=1), ScriptedAnswer(())
    turns = [replace(SITUATION, turn=n) for n in range(3)]
    chosen = [Script((plain,)).choose(turn, (one, two)) for turn in turns]
    assert [chosen[0] is one, chosen[1] is two, chosen[2] is plain] == [True, True, True]
