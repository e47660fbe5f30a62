from __future__ import annotations

import pytest

from engine.messages import ThinkingBudget
from engine.request import ChatPrompt, Message, TextPrompt, Thinking, Tool, ToolCall, ToolChoice
from engine.text_pool import Abandoned
from engine.text_side import TextSide, prompt_size
from tests.engine.small_tokenizers import byte_level, ready

TOOLS = (Tool("now", "The time.", {"type": "object", "properties": {}}),)
PLAIN = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
KNOWING = "{{ tools }}<think><tool_call>" + PLAIN


def prompt(choice: ToolChoice, tools: tuple[Tool, ...] = TOOLS, **more: object) -> ChatPrompt:
    return ChatPrompt((Message("user", "hello"),), tools, choice, **more)  # type: ignore[arg-type]


def text_side(template: str) -> TextSide:
    return TextSide.of(ready(byte_level(), template))


def several_calls_fit(template: str, asked: ChatPrompt) -> bool:
    constraint = text_side(template).prepare(asked, 4000).constraint
    assert constraint is not None
    return "tool){" in constraint.grammar


def test_a_model_that_never_learned_to_call_is_made_to_call_once() -> None:
    assert several_calls_fit(KNOWING, prompt(ToolChoice("required")))
    assert not several_calls_fit(KNOWING, prompt(ToolChoice("named", "now")))
    assert not several_calls_fit(PLAIN, prompt(ToolChoice("required")))


@pytest.mark.parametrize("asked", [prompt(ToolChoice("none")), prompt(ToolChoice(), ())])
def test_nothing_is_held_without_tools(asked: ChatPrompt) -> None:
    assert text_side(KNOWING).prepare(asked, 4000).constraint is None


def test_auto_is_held_behind_the_trigger_by_its_control_token() -> None:
    constraint = text_side(KNOWING).prepare(prompt(ToolChoice()), 4000).constraint
    assert constraint is not None
    assert constraint.trigger == "<tool_call>"
    assert constraint.repeat


def test_budget_goes_with_the_prompt() -> None:
    asked = prompt(ToolChoice(), (), thinking=Thinking(budget=9))
    prepared = text_side(KNOWING).prepare(asked, 4000)
    assert prepared.thinking == ThinkingBudget(9, "<think>", "</think>")


TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
ASKING = "{% if add_generation_prompt %}<|im_start|>assistant\n<think>{% endif %}"


def test_the_token_that_begins_a_message_goes_with_a_conversation() -> None:
    side = text_side(TURNS + ASKING)
    prepared = side.prepare(prompt(ToolChoice(), ()), 4000)
    assert prepared.opening == prepared.encoded.ids[0]
    assert prepared.encoded.ids.count(prepared.opening) == 2
    assert side.prepare(TextPrompt("hello"), 4000).opening is None


@pytest.mark.parametrize("template", [PLAIN, TURNS, "{{ raise_exception('no') }}"])
def test_templates_that_do_not_open_the_answer_have_no_such_token(template: str) -> None:
    assert text_side(template).template.opening is None


def test_plain_text_is_neither_held_nor_capped() -> None:
    prepared = text_side(KNOWING).prepare(TextPrompt("hello"), 4000)
    assert prepared.constraint is None
    assert prepared.thinking is None


@pytest.mark.parametrize("asked", [prompt(ToolChoice()), TextPrompt("hello")])
def test_work_that_is_cancelled_stops(asked: ChatPrompt | TextPrompt) -> None:
    with pytest.raises(Abandoned):
        text_side(KNOWING).prepare(asked, 4000, lambda: True)


def test_a_count_that_is_cancelled_stops() -> None:
    with pytest.raises(Abandoned):
        text_side(KNOWING).count(prompt(ToolChoice()), lambda: True)


def test_the_size_of_a_prompt_is_about_its_characters() -> None:
    call = ToolCall("1", "f", {"a": ["x" * 4000, 5]})
    tool = Tool("f", "x" * 1000, {"properties": {"a": {"description": "x" * 5000}}})
    messages = (Message("user", "x" * 1000), Message("assistant", "", "x" * 2000, (call,)))
    assert prompt_size(TextPrompt("x" * 1000)) == 1000
    assert 13_000 < prompt_size(ChatPrompt(messages, (tool,))) < 13_500
    assert prompt_size(ChatPrompt((Message("user", ""),) * 1000)) > 10_000
