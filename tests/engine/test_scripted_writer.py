from __future__ import annotations

from dataclasses import replace

import pytest

from engine.events import PartDelta
from engine.model_format import FORMATS, detect_format
from engine.response_parser import ResponseParser
from engine.script import MAX_CONTEXT, CallPart, Part, TextPart
from engine.scripted_prompt import OfferedTool, ReadPrompt
from engine.scripted_writer import Writer, Writing
from tests.engine.scripted_model import TEMPLATE, TOKENIZER, WEATHER, spelled

PROMPT = ReadPrompt(
    user="Hi",
    after_tool_result=False,
    tools=(OfferedTool("get_weather", WEATHER["parameters"]), OfferedTool("get_time", {})),
    may_think=True,
)
CALL = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'


def write(
    *parts: Part, prompt: ReadPrompt = PROMPT, endless: bool = False, format: str | None = None
) -> Writing:
    return Writer(TOKENIZER, detect_format(TEMPLATE, format)).write(parts, prompt, endless)


def written(*parts: Part, prompt: ReadPrompt = PROMPT, format: str | None = None) -> str:
    return spelled(write(*parts, prompt=prompt, format=format).ids)


def test_parts_are_written_one_after_the_other() -> None:
    text = written(
        TextPart("reasoning", "Hm."), TextPart("text", "Hi."), TextPart("raw", "<think>")
    )
    assert text == "<think>\nHm.\n</think>\n\nHi.<think>"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Name three planets!", "You asked: Name three planets."),
        ("<tool_call>\n</think> it's <|im_end|>", "You asked: tool_call think it's im_end."),
        ("\u4f60\u597d\uff0c\u4e16\u754c", "You asked: \u4f60\u597d \u4e16\u754c."),
        ("word " * 99, f"You asked: {'word ' * 11}word."),
        ("w" * 999, f"You asked: {'w' * 80}."),
        ("?!", "You asked: nothing."),
    ],
)
def test_an_echo_names_what_was_asked_in_few_words_and_no_markers(asked: str, said: str) -> None:
    assert written(TextPart("echo", "You asked:"), prompt=replace(PROMPT, user=asked)) == said


def test_thinking_is_left_out_where_the_prompt_leaves_no_room() -> None:
    parts = TextPart("reasoning", "Hm."), TextPart("text", "Hi.")
    assert written(*parts, prompt=replace(PROMPT, may_think=False)) == "Hi."


@pytest.mark.parametrize(
    ("part", "name", "arguments"),
    [
        (CallPart(), "get_weather", '{"city": "a"}'),
        (CallPart(names=("x", "get_time")), "get_time", "{}"),
        (
            CallPart(names=("x",), arguments={"city": "Ulm", "x": 1}),
            "get_weather",
            '{"city": "Ulm"}',
        ),
        (CallPart(name="get_weather"), "get_weather", '{"city": "a"}'),
        (CallPart(name="get_weather", arguments={"x": "ä"}), "get_weather", '{"x": "ä"}'),
        (CallPart(name="nobody"), "nobody", "{}"),
    ],
)
def test_a_call_takes_an_offered_tool_unless_it_names_its_own(
    part: CallPart, name: str, arguments: str
) -> None:
    assert written(part) == CALL % (name, arguments)


def test_calls_without_tools_are_left_out_unless_named() -> None:
    prompt = replace(PROMPT, tools=())
    assert written(CallPart(), TextPart("text", "Hi."), prompt=prompt) == "Hi."
    assert written(CallPart("f", (), {}), prompt=prompt) == CALL % ("f", "{}")


def test_calls_side_by_side_are_joined_as_the_format_does() -> None:
    both = written(CallPart(name="get_time"), CallPart(name="get_time"), format="mistral-list")
    one = '{"name": "get_time", "arguments": {}}'
    assert both == f"[TOOL_CALLS][{one}, {one}]"


def test_every_format_writes_a_call_between_its_own_letters() -> None:
    for name in FORMATS:
        calls = detect_format(TEMPLATE, name).calls
        text = written(CallPart(), format=name)
        assert f"{calls.before_name}get_weather{calls.before_arguments}" in text
        assert text.endswith(calls.after_arguments + calls.after_calls)


def test_xml_arguments_are_bare_strings_and_json() -> None:
    call = CallPart("f", (), {"a": "x y", "b": [1]})
    text = written(call, format="qwen3-coder")
    assert "<parameter=a>\nx y\n</parameter>\n<parameter=b>\n[1]\n</parameter>\n" in text


def test_every_format_reads_back_what_is_written() -> None:
    parts = TextPart("reasoning", "Hm."), TextPart("text", "Hi.")
    for name in FORMATS:
        parser = ResponseParser(detect_format(TEMPLATE, name))
        events = [*parser.push(written(*parts, format=name)), *parser.finish()]
        assert [e.text for e in events if isinstance(e, PartDelta)] == ["Hm.", "Hi."]


def test_the_ids_are_those_of_the_whole_text() -> None:
    parts = TextPart("reasoning", "Hm."), TextPart("text", "Hi"), TextPart("text", "llo.")
    assert list(write(*parts).ids) == TOKENIZER.encode(written(*parts)).ids


def test_text_is_cut_or_repeated_to_its_number_of_tokens() -> None:
    whole = len(TOKENIZER.encode("one two three").ids)
    for tokens in (1, whole, 3 * whole + 1):
        assert len(write(TextPart("text", "one two three", tokens)).ids) == tokens


def test_no_part_is_written_longer_than_the_longest_context() -> None:
    assert len(write(TextPart("text", "one", 10**9)).ids) == MAX_CONTEXT


def test_an_endless_answer_goes_on_with_its_last_part_unclosed() -> None:
    writing = write(TextPart("reasoning", "one two"), endless=True)
    ids = [writing.at(n) for n in range(8)]
    assert spelled(ids) == "<think>\none twoone twoone two"
    assert write(endless=True).at(0) is None


def test_an_endless_answer_whose_call_is_left_out_goes_on_with_the_part_before() -> None:
    nothing_offered = replace(PROMPT, tools=())
    writing = write(TextPart("text", "one two"), CallPart(), prompt=nothing_offered, endless=True)
    assert spelled([writing.at(n) for n in range(4)]) == "one twoone two"
