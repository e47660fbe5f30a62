"""ResponseParser: every family's spelling, over any cutting, whole and broken."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events import PartDelta, PartEnd, PartStart
from engine.json_stream import JsonValue, Malformed
from engine.model_format import (
    ANALYSIS,
    BRACKET_THINK,
    FORMATS,
    THINK,
    ModelFormat,
    ReasoningFormat,
    detect_format,
)
from engine.request import Tool
from engine.response_parser import PartEvent, ResponseParser

WEATHER = Tool(
    "get_weather",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "exact": {"type": "boolean"},
            "tags": {"type": "array"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "unit": {"$ref": "#/$defs/unit"},
        },
        "$defs": {"unit": {"enum": ["c", "f"]}},
    },
)
TOOLS = (WEATHER, Tool("now"))
REASONING: dict[str, ReasoningFormat] = {
    "harmony": ANALYSIS,
    "mistral": BRACKET_THINK,
}

Part = tuple[str, str]


def model_format(name: str, thinks: bool = True) -> ModelFormat:
    found = detect_format(None, name)
    reasoning = REASONING.get(name, THINK) if thinks else None
    return ModelFormat(name, found.calls, reasoning, found.markers)


def folded(events: list[PartEvent]) -> list[Part]:
    """The parts as (kind or name, text); checks the grammar of the events."""
    parts: list[Part] = []
    open_part = False
    keys = set()
    for event in events:
        match event:
            case PartStart(index, kind, name, key):
                assert not open_part and index == len(parts)
                assert (kind == "tool_call") == bool(name) == bool(key)
                keys.add(key)
                parts.append((f"call {name}" if name else kind, ""))
                open_part = True
            case PartDelta(index, text):
                assert open_part and index == len(parts) - 1 and text
                parts[-1] = (parts[-1][0], parts[-1][1] + text)
            case PartEnd(index):
                assert open_part and index == len(parts) - 1
                open_part = False
    assert not open_part
    return parts


class Outcome:
    def __init__(self, name: str, pieces: list[str], **kwargs: Any) -> None:
        thinks = kwargs.pop("thinks", True)
        tools = kwargs.pop("tools", TOOLS)
        self.parser = ResponseParser(model_format(name, thinks), tools, **kwargs)
        events: list[PartEvent] = []
        for piece in pieces:
            events += self.parser.push(piece)
        self.events = events + self.parser.finish()
        self.parts = folded(self.events)
        self.all = (self.parts, self.parser.called, self.parser.broken)


def parse(name: str, text: str, **kwargs: Any) -> list[Part]:
    """The parts of an answer, the same whole and character by character."""
    whole = Outcome(name, [text], **kwargs)
    assert Outcome(name, list(text), **kwargs).all == whole.all
    for part, content in whole.parts:
        if part.startswith("call "):
            assert is_prefix_of_json(content)
            if not whole.parser.broken:
                assert isinstance(json.loads(content), dict)
    return whole.parts


def is_prefix_of_json(text: str) -> bool:
    value = JsonValue()
    try:
        return all(value.feed(char) is not None for char in text)
    except Malformed:
        return False


PARIS = '{"city": "Paris"}'
CALL = ("call get_weather", PARIS)
TWO = {
    "hermes": (
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    ),
    "qwen3-coder": (
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n"
        "</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>"
    ),
    "llama3": (
        '{"name": "get_weather", "parameters": {"city": "Paris"}}; '
        '{"name": "now", "parameters": {}}'
    ),
    "mistral": '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]now[ARGS]{}',
    "mistral-list": (
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "abcdefghi"}'
        ', {"name": "now", "arguments": {}, "id": "bbbbbbbbb"}]'
    ),
    "harmony": (
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"city": "Paris"}<|call|><|start|>assistant to=functions.now<|channel|>commentary '
        "json<|message|>{}<|call|>"
    ),
    "deepseek": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
        '```json\n{"city": "Paris"}\n```<｜tool▁call▁end｜>\n'
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>"
    ),
    "deepseek-v3.1": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}'
        "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>"
    ),
}
families = pytest.mark.parametrize("name", FORMATS)


def thought(name: str, text: str) -> str:
    reasoning = model_format(name).reasoning
    assert reasoning
    return f"{reasoning.open}{text}{reasoning.close}{reasoning.after}"


def said(name: str, text: str) -> str:
    return f"<|channel|>final<|message|>{text}" if name == "harmony" else text


@families
def test_two_calls_alone(name: str) -> None:
    assert parse(name, TWO[name]) == [CALL, ("call now", "{}")]


@families
def test_thinking_then_calls(name: str) -> None:
    answer = thought(name, "Which city?\n" if name != "harmony" else "Which city?") + TWO[name]
    assert parse(name, answer) == [("reasoning", "Which city?"), CALL, ("call now", "{}")]


@families
def test_thinking_then_text(name: str) -> None:
    answer = thought(name, "Hm,\n\nyes.") + said(name, "Hello\n\nyou ")
    assert parse(name, answer) == [("reasoning", "Hm,\n\nyes."), ("text", "Hello\n\nyou ")]


@pytest.mark.parametrize("name", [f for f in FORMATS if f != "llama3"])
def test_text_before_and_after_calls(name: str) -> None:
    if name == "harmony":
        answer = (
            f"<|channel|>commentary<|message|>I look.<|end|><|start|>assistant{TWO[name]}"
            "<|start|>assistant<|channel|>final<|message|>Done.<|return|>"
        )
    else:
        answer = f"I look.\n\n{TWO[name]}\n\nDone."
    assert parse(name, answer) == [
        ("text", "I look."),
        CALL,
        ("call now", "{}"),
        ("text", "Done."),
    ]


@families
def test_call_in_the_spelling_of_the_format_data(name: str) -> None:
    calls = model_format(name).calls
    arguments = "<parameter=city>\nParis\n</parameter>\n" if calls.syntax == "xml" else PARIS
    one = f"{calls.before_name}get_weather{calls.before_arguments}{arguments}"
    one += calls.after_arguments
    answer = calls.before_calls + one + calls.between_calls + one + calls.after_calls
    if name == "harmony":
        answer = calls.before_calls + one + calls.end_of_turn
        assert parse(name, answer) == [CALL]
    else:
        assert parse(name, answer) == [CALL, CALL]


@families
def test_without_tools_the_markers_of_calls_are_text(name: str) -> None:
    if name == "harmony":
        assert parse(name, TWO[name], tools=()) == [("text", PARIS), ("text", "{}")]
    else:
        assert parse(name, TWO[name], tools=()) == [("text", TWO[name])]


@families
def test_name_that_is_not_offered_is_still_a_call(name: str) -> None:
    answer = TWO[name].replace("get_weather", "other")
    found = parse(name, answer)
    if name == "llama3":  # a bare object, with nothing to mark it as a call
        assert found == [("text", answer)]
    else:
        assert found == [("call other", PARIS), ("call now", "{}")]


@families
def test_cut_anywhere_gives_a_beginning_of_the_parts(name: str) -> None:
    answer = thought(name, "Why not?") + TWO[name]
    for cut in range(len(answer)):
        parse(name, answer[:cut])
    whole = Outcome(name, [answer])
    assert (whole.parser.called, whole.parser.broken) == (True, False)


def test_cut_inside_the_arguments_is_a_broken_call() -> None:
    outcome = Outcome("hermes", ['<tool_call>{"name": "now", "arguments": {"a": "b'])
    assert outcome.all == ([("call now", '{"a": "b')], True, True)


def test_cut_before_the_name_is_text() -> None:
    answer = 'Hm. \n<tool_call>{"name": "no'
    assert Outcome("hermes", [answer]).all == ([("text", answer)], False, False)


def test_cut_behind_whole_arguments_is_no_broken_call() -> None:
    outcome = Outcome("hermes", ['<tool_call>{"name": "now", "arguments": {}'])
    assert outcome.all == ([("call now", "{}")], True, False)


def test_arguments_stream_as_soon_as_the_name_is_known() -> None:
    parser = ResponseParser(model_format("hermes"), TOOLS)
    assert parser.push('<tool_call>\n{"name": "now"') != []
    assert parser.push(', "arguments": {"a')[0] == PartDelta(0, '{"a')
    assert parser.push('": 1') == [PartDelta(0, '": 1')]


def test_string_parameters_of_xml_stream() -> None:
    parser = ResponseParser(model_format("qwen3-coder"), TOOLS)
    parser.push("<tool_call><function=get_weather><parameter=city>")
    assert parser.push("\nNew\nYo\n") == [PartDelta(0, "New\\nYo")]
    assert parser.push("</para") == []
    assert parser.push("x") == [PartDelta(0, "\\n</parax")]


XML_VALUES = [
    ("city", "5", '"5"'),
    ("city", "", '""'),
    ("city", ' "quoted"\n\n', json.dumps(' "quoted"\n\n')),
    ("days", "5", "5"),
    ("days", " 05 ", '" 05 "'),
    ("days", "five", '"five"'),
    ("exact", "True", "true"),
    ("exact", "false", "false"),
    ("tags", '["a", {"b": null}]', '["a", {"b": null}]'),
    ("tags", "[a", '"[a"'),
    ("note", "null", "null"),
    ("note", "5", '"5"'),
    ("note", "None of it", '"None of it"'),
    ("unit", "c", '"c"'),
    ("unit", "5", '"5"'),
    ("unknown", "5", "5"),
    ("unknown", "{}", "{}"),
    ("unknown", '"x"', json.dumps('"x"')),
    ("unknown", "NaN", '"NaN"'),
    ("unknown", "9" * 5000, json.dumps("9" * 5000)),
]


@pytest.mark.parametrize(("key", "written", "value"), XML_VALUES)
def test_xml_value_becomes_json_by_the_schema(key: str, written: str, value: str) -> None:
    answer = (
        f"<tool_call>\n<function=get_weather>\n<parameter={key}>\n{written}\n</parameter>\n"
        "</function>\n</tool_call>"
    )
    assert parse("qwen3-coder", answer) == [("call get_weather", f'{{"{key}": {value}}}')]


ODDITIES = [
    # arguments before the name, other keys, other order, no arguments
    ("hermes", '<tool_call>{"arguments": {"city": "Paris"}, "name": "get_weather"}</tool_call>'),
    ("hermes", '<tool_call>{"id": 5, "name": "get_weather", "parameters": ' + PARIS + "}"),
    # double-encoded
    ("hermes", '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}'),
    # one brace too many, no closing tag, JSON inside the XML family and the other way round
    ("hermes", '<tool_call>{"name": "get_weather", "arguments": ' + PARIS + "}}\n</tool_call>"),
    ("qwen3-coder", '<tool_call>{"name": "get_weather", "arguments": ' + PARIS + "}</tool_call>"),
    ("hermes", "<tool_call><function=get_weather><parameter=city>Paris</parameter></function>"),
    ("qwen3-coder", "<function=get_weather><parameter=city>Paris</parameter></function>"),
    ("qwen3-coder", "<function=get_weather><parameter=city>Paris</parameter></tool_call>"),
    ("llama3", '<|python_tag|>{"name": "get_weather", "parameters": ' + PARIS + "}"),
    ("llama3", ' \n{"type": "function", "name": "get_weather", "parameters": ' + PARIS + "}"),
    ("mistral", "[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]" + PARIS),
    ("mistral", "[TOOL_CALLS]get_weather" + PARIS),
    ("mistral-list", "[TOOL_CALLS]get_weather[ARGS]" + PARIS),
    ("harmony", " to=functions.get_weather<|channel|>commentary json<|message|>" + PARIS),
    ("harmony", "<|channel|>commentary to=get_weather<|message|>" + PARIS + "<|call|>"),
    ("deepseek", "<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" + PARIS + "<｜tool▁call▁end｜>"),
]


@pytest.mark.parametrize(("name", "answer"), ODDITIES)
def test_what_models_also_write_is_the_same_call(name: str, answer: str) -> None:
    assert parse(name, answer) == [CALL]
    assert not Outcome(name, [answer]).parser.broken


@pytest.mark.parametrize("nothing", ["", ', "arguments": null', ', "arguments": ""'])
def test_no_arguments_are_the_empty_object(nothing: str) -> None:
    answer = f'<tool_call>{{"name": "now"{nothing}}}</tool_call>'
    assert parse("hermes", answer) == [("call now", "{}")]


def test_bare_newlines_and_lone_surrogates_in_arguments_are_repaired() -> None:
    answer = '<tool_call>{"name": "now", "arguments": {"a": "x\ny\\ud83d!\\ude00"}}</tool_call>'
    assert parse("hermes", answer) == [("call now", '{"a": "x\\ny\\ufffd!\\ufffd"}')]


BROKEN_BEFORE_THE_NAME = [
    ("hermes", "See <tool_call> and </tool_call>."),
    ("hermes", '<tool_call>{"name": 5}</tool_call>'),
    ("hermes", '<tool_call>{"name": ""}</tool_call>'),
    ("hermes", '<tool_call>{"arguments": {}}</tool_call>'),
    ("hermes", "<tool_call>{name: x}</tool_call>"),
    ("qwen3-coder", "<tool_call>\n<other>"),
    ("qwen3-coder", "<function=a\nb>"),
    ("llama3", '{"city": "Paris"}'),
    ("llama3", '{"name": "nobody", "parameters": {}}'),
    ("llama3", "<|python_tag|>brave_search.call(query='x')"),
    ("llama3", "  {x"),
    ("mistral", "[TOOL_CALLS]" + "x" * 300),
    ("deepseek", "<｜tool▁call▁begin｜>" + "x" * 300),
]


@pytest.mark.parametrize(("name", "answer"), BROKEN_BEFORE_THE_NAME)
def test_call_broken_before_its_name_is_text(name: str, answer: str) -> None:
    assert parse(name, answer) == [("text", answer)]
    outcome = Outcome(name, [answer])
    assert (outcome.parser.called, outcome.parser.broken) == (False, False)


def test_a_call_behind_a_broken_opener_is_found() -> None:
    found = parse("hermes", "Not <tool_call>, but " + TWO["hermes"])
    assert found == [("text", "Not <tool_call>, but"), CALL, ("call now", "{}")]


BROKEN_BEHIND_THE_NAME = [
    ("hermes", '<tool_call>{"name": "now", "arguments": {"a": tru!}}</tool_call>', '{"a": tru'),
    ("hermes", '<tool_call>{"name": "now", "arguments": [1]}</tool_call>', ""),
    ("hermes", '<tool_call>{"name": "now", "arguments": {"a": "b"c"}}</tool_call>', '{"a": "b"'),
    ("qwen3-coder", "<tool_call><function=now>\n<x></function></tool_call>", "{"),
    ("mistral", '[TOOL_CALLS]now[ARGS]{"a" 1}', '{"a" '),
    ("harmony", "<|channel|>commentary to=functions.now<|message|>{1}<|call|>", "{"),
    ("deepseek", "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{a}<｜tool▁call▁end｜>", "{"),
]


@pytest.mark.parametrize(("name", "answer", "sent"), BROKEN_BEHIND_THE_NAME)
def test_call_broken_behind_its_name_stays_a_call(name: str, answer: str, sent: str) -> None:
    assert parse(name, answer) == [("call now", sent)]
    assert Outcome(name, [answer]).parser.broken
    after = "<|start|>assistant" if name == "harmony" else "\n"
    assert parse(name, answer + after + TWO[name])[1:] == [CALL, ("call now", "{}")]


def test_answer_that_the_prompt_opened_inside_the_thinking() -> None:
    answer = "\nHm.\n</think>\n\nHello"
    assert parse("hermes", answer, in_reasoning=True) == [("reasoning", "Hm."), ("text", "Hello")]
    assert parse("hermes", "<think>\nHm.", in_reasoning=True) == [("reasoning", "Hm.")]


def test_thinking_cut_off_stays_thinking() -> None:
    assert parse("hermes", "<think>\nHm. </th") == [("reasoning", "Hm. </th")]


def test_empty_thinking_is_no_part() -> None:
    assert parse("hermes", "<think>\n\n</think>\n\nHello") == [("text", "Hello")]


def test_markers_of_calls_inside_the_thinking_are_thinking() -> None:
    answer = f"<think>{TWO['hermes']}</think>"
    assert parse("hermes", answer) == [("reasoning", TWO["hermes"])]


def test_text_that_speaks_of_think_tags_is_text() -> None:
    answer = "The <think> tag opens,\n<think>\nand </think> closes."
    assert parse("hermes", answer) == [("text", answer)]


def test_a_model_that_does_not_think_has_no_think_tags() -> None:
    answer = "<think>Hm.</think> Hello"
    assert parse("hermes", answer, thinks=False) == [("text", answer)]


def test_thinking_may_come_between_calls() -> None:
    answer = f"{TWO['hermes']}\n<think>And now?</think>\n{TWO['hermes']}"
    two = [CALL, ("call now", "{}")]
    assert parse("hermes", answer) == [*two, ("reasoning", "And now?"), *two]


def test_indentation_behind_the_thinking_is_kept() -> None:
    assert parse("hermes", "<think>Hm.</think>\n\n    code")[1] == ("text", "    code")


def test_text_is_held_back_only_where_it_could_be_a_marker() -> None:
    parser = ResponseParser(model_format("hermes"), TOOLS)
    assert parser.push("Hello <b") == [PartStart(0, "text"), PartDelta(0, "Hello <b")]
    assert parser.push(" <to") == []
    assert parser.push("p> \n") == [PartDelta(0, " <top>")]


def test_without_a_format_nothing_is_held_back() -> None:
    parser = ResponseParser(None)
    assert parser.push(" \n") == [PartStart(0, "text"), PartDelta(0, " \n")]
    assert parser.push("<tool_call") == [PartDelta(0, "<tool_call")]


def test_whitespace_alone_is_text_unless_a_marker_stands_beside_it() -> None:
    assert parse("hermes", " \n") == [("text", " \n")]
    assert parse("hermes", f"\n{TWO['hermes']}\n") == [CALL, ("call now", "{}")]


def test_endless_whitespace_is_not_held_back() -> None:
    parser = ResponseParser(model_format("hermes"), TOOLS)
    sent = [event for _ in range(600) for event in parser.push("\n")]
    assert len(sent) > 300


def test_harmony_header_cut_off_is_not_text() -> None:
    for answer in ("<|channel|>anal", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assist"):
        assert [part for part in parse("harmony", answer) if part[0] == "text"] == []


def test_harmony_without_any_header_is_text() -> None:
    for answer in ("Hello", " t", " together", " to=" + "x" * 600):
        assert parse("harmony", answer) == [("text", answer)]


SNIPPETS = [
    *TWO.values(),
    *(call[: len(call) // 2] for call in TWO.values()),
    *("<think>", "</think>", "[THINK]", "[/THINK]", "<tool_call>", "</tool_call>", "[TOOL_CALLS]"),
    *("<|channel|>", "analysis", "final", "<|message|>", "<|end|>", "<|start|>", "<|call|>"),
    *(
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
        "<function=",
        "<parameter=",
    ),
    *("now>", '{"name": "now"', ', "arguments": ', "{}", "}", "[ARGS]", "now", " to=functions.x"),
    *("\n", " ", "text", '"', "{", "[", ";", ",", "</parameter>", "</function>", "é", "\\ud83d"),
    *("\n" * 300, " \n" * 200, "x" * 600),
]
answers = st.lists(st.sampled_from(SNIPPETS), max_size=10).map("".join)


@families
def test_any_cutting_of_any_answer_gives_the_same_parts(name: str) -> None:
    @settings(max_examples=250)
    @given(text=answers, seed=st.integers(0, 99), inside=st.booleans(), offered=st.booleans())
    def check(text: str, seed: int, inside: bool, offered: bool) -> None:
        tools = TOOLS if offered else ()
        draw = random.Random(seed)
        cuts = sorted(draw.randrange(len(text) + 1) for _ in range(draw.randrange(6)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        whole = Outcome(name, [text], tools=tools, in_reasoning=inside)
        assert Outcome(name, pieces, tools=tools, in_reasoning=inside).all == whole.all
        assert Outcome(name, list(text), tools=tools, in_reasoning=inside).all == whole.all
        calls = [content for part, content in whole.parts if part.startswith("call ")]
        assert all(map(is_prefix_of_json, calls))
        assert whole.parser.called == bool(calls)

    check()


def test_a_header_too_long_is_text_however_it_is_cut() -> None:
    for length in (480, 500, 501, 502, 512, 900):
        answer = f"<|channel|>{'x' * length}<|message|>Hello"
        assert "".join(text for _, text in parse("harmony", answer)).endswith("Hello")


def test_long_whitespace_before_the_thinking_leaves_it_thinking() -> None:
    assert parse("hermes", " \n" * 200 + "<think>Hm.")[-1] == ("reasoning", "Hm.")
