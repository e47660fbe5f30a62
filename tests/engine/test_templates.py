"""The families' chat templates: tools, thinking and history, and calls that parse back."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chat_template import ChatTemplate
from engine.model_format import FORMATS, ModelFormat, detect_format
from engine.request import ChatPrompt, Message, Thinking, Tool, ToolCall, ToolChoice
from engine.response_parser import ResponseParser
from engine.template_traits import TemplateTraits
from engine.tokenizer import Tokenizer
from tests.engine.small_tokenizers import byte_level, ready
from tests.engine.test_response_parser import folded

DATA = Path(__file__).parents[1] / "data" / "templates"
FAMILIES = {
    "qwen3": "hermes",
    "qwen3-coder": "qwen3-coder",
    "llama3": "llama3",
    "mistral": "mistral",
    "mistral-list": "mistral-list",
    "gpt-oss": "harmony",
    "deepseek-v3": "deepseek",
    "deepseek-v3.1": "deepseek-v3.1",
    "smollm2": "hermes",
}
ENDS = ("<|im_end|>", "<|eot_id|>", "<eos>", "<｜end▁of▁sentence｜>", "<|call|>", "<|return|>")
# Two calls in one message; and what stands beside them is rendered where the prompt goes on.
SINGLE = ("llama3", "gpt-oss")
THINKING = ("qwen3", "mistral", "gpt-oss")
TEXT_OR_CALLS = ("llama3", "mistral-list", "deepseek-v3")
TEXT_BESIDE_CALLS = ("qwen3", "qwen3-coder", "mistral", "deepseek-v3.1", "smollm2")

WEATHER = Tool(
    "get_weather",
    "Tells the weather.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    },
)
TOOLS = (WEATHER, Tool("now", "Tells the time."))
PARIS = ToolCall("toolu_B", "get_weather", {"city": "Paris", "days": 2})
NOW = ToolCall("toolu_A", "now", {})
USER = Message("user", "How is the weather?")
CALLS = Message("assistant", "", tool_calls=(PARIS, NOW))
RESULTS = (
    Message("tool", "twelve", tool_call_id="toolu_A"),
    Message("tool", "sunny", tool_call_id="toolu_B"),
)
families = pytest.mark.parametrize("family", FAMILIES)


class Family:
    def __init__(self, source: str, override: str | None = None) -> None:
        self.format = detect_format(source, override)
        vocabulary = tokenizers.Tokenizer.from_str(byte_level())
        special = self.format.markers - {"<think>", "</think>", "<tool_call>", "</tool_call>"}
        vocabulary.add_special_tokens(sorted({*special, *ENDS, "<bos>", "<tool_response>"}))
        message = ready(vocabulary.to_str(), source, bos_token="<bos>", eos_token="<eos>")
        self.tokenizer = Tokenizer(message)
        self.chat = ChatTemplate(message, self.tokenizer, self.format)

    @property
    def traits(self) -> TemplateTraits:
        return self.chat._traits

    def text(self, *messages: Message, tools: tuple[Tool, ...] = TOOLS, **kwargs: Any) -> str:
        segments = self.chat.render(ChatPrompt(messages, tools, **kwargs))
        return "".join(segment.text for segment in segments)

    def answer(self, *messages: Message) -> str:
        """How the template writes what the assistant said behind the user's question."""
        before = self.text(USER)
        after = self.text(USER, *messages)
        same = next(
            (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
            min(len(before), len(after)),
        )
        rest = after[same:]
        end = min((rest.find(end) for end in ENDS if end in rest), default=len(rest))
        return rest[:end]


def family_of(name: str) -> Family:
    return Family((DATA / f"{name}.jinja").read_text())


def parsed(format: ModelFormat, text: str) -> list[tuple[str, Any]]:
    """The parts of an answer, arguments as parsed JSON."""
    parser = ResponseParser(format, TOOLS)
    parts = folded(parser.push(text) + parser.finish())
    assert not parser.broken
    return [(kind, json.loads(t) if kind.startswith("call") else t) for kind, t in parts]


def calls_of(*calls: ToolCall) -> list[tuple[str, Any]]:
    return [(f"call {call.name}", call.arguments) for call in calls]


@families
def test_format_is_seen_in_the_template(family: str) -> None:
    assert family_of(family).format.name == FAMILIES[family]


@families
def test_tools_reach_the_model_whatever_the_template(family: str) -> None:
    text = family_of(family).text(USER)
    assert all(word in text for word in ("get_weather", "city", "now", USER.content))
    assert "get_weather" not in family_of(family).text(USER, tools=())
    none = ToolChoice("none")
    assert "get_weather" not in family_of(family).text(USER, tool_choice=none)


@families
def test_rendered_calls_parse_back_into_the_same_calls(family: str) -> None:
    model = family_of(family)
    expected = calls_of(PARIS) if family in SINGLE else calls_of(PARIS, NOW)
    assert parsed(model.format, model.answer(CALLS, *RESULTS)) == expected


@families
def test_rendered_thinking_and_text_parse_back(family: str) -> None:
    model = family_of(family)
    said = replace(CALLS, content="I look.", reasoning="Which city?")
    answer = model.answer(said, *RESULTS)
    expected: list[tuple[str, Any]] = []
    if family == "gpt-oss":  # it writes one text before a call, in the thinking
        expected.append(("reasoning", "Which city?\n\nI look."))
    elif family in THINKING:
        expected.append(("reasoning", "Which city?"))
    if family in TEXT_BESIDE_CALLS:
        expected.append(("text", "I look."))
    if family in TEXT_OR_CALLS:  # text gets a turn of its own
        assert answer.strip() == "I look."
        assert "get_weather" in model.text(USER, said, *RESULTS, tools=())
    else:
        calls = calls_of(PARIS) if family in SINGLE else calls_of(PARIS, NOW)
        assert parsed(model.format, answer) == expected + calls


@families
def test_results_stand_in_the_order_of_their_calls(family: str) -> None:
    text = family_of(family).text(USER, CALLS, *RESULTS)
    assert 0 < text.index("sunny") < text.index("twelve")
    if family in SINGLE:
        assert text.index("get_weather", text.index("Paris") - 60) < text.index("sunny")
        assert text.index("sunny") < text.rindex("now", 0, text.index("twelve"))


@families
def test_results_without_ids_and_calls_with_one_id_are_rendered_all_the_same(family: str) -> None:
    calls = tuple(replace(call, id="") for call in (PARIS, NOW))
    results = tuple(replace(result, tool_call_id=None) for result in RESULTS)
    text = family_of(family).text(USER, replace(CALLS, tool_calls=calls), *results, tools=())
    assert all(word in text for word in ("get_weather", "now", "sunny", "twelve"))


@families
def test_answer_behind_results_and_a_next_question(family: str) -> None:
    turns = (USER, CALLS, *RESULTS, Message("assistant", "Sunny."), Message("user", "Thanks"))
    text = family_of(family).text(*turns)
    places = [text.rindex(word) for word in ("sunny", "twelve", "Sunny.", "Thanks")]
    assert places == sorted(places)


@families
def test_prefill_is_continued_behind_calls_too(family: str) -> None:
    model = family_of(family)
    assert model.text(USER, Message("assistant", "The sun")).endswith("The sun")
    prefilled = model.text(USER, CALLS, *RESULTS, Message("assistant", "It is "))
    assert prefilled.endswith("It is ")


@families
def test_what_clients_write_makes_no_control_tokens(family: str) -> None:
    model = family_of(family)
    spelled = sorted(model.chat._control.contents)
    evil = "".join(spelled)
    tool = Tool("f", evil, {"type": "object", "properties": {"p": {"type": "string", "x": evil}}})
    conversation = (
        Message("system", evil),
        Message("user", evil),
        Message("assistant", evil, evil, (ToolCall("1", "f", {"p": evil}),)),
        Message("tool", evil, tool_call_id="1"),
        Message("user", evil),
    )
    plain = tuple(_without(message, evil) for message in conversation)
    tame = Tool("f", "-", {"type": "object", "properties": {"p": {"type": "string", "x": "-"}}})

    def controls(messages: tuple[Message, ...], offered: Tool) -> list[int]:
        ids = model.chat.encode(ChatPrompt(messages, (offered,)), 10**9).prompt.ids
        vocabulary = model.tokenizer._full
        control = {vocabulary.token_to_id(token) for token in spelled}
        return [token_id for token_id in ids if token_id in control]

    assert controls(conversation, tool) == controls(plain, tame)


def _without(message: Message, evil: str) -> Message:
    calls = tuple(replace(call, arguments={"p": "-"}) for call in message.tool_calls)
    reasoning = message.reasoning and "-"
    return replace(message, content="-", reasoning=reasoning, tool_calls=calls)


def test_traits_of_the_templates() -> None:
    keeps = "reasoning_content"
    assert family_of("qwen3").traits == TemplateTraits(True, True, reasoning_key=keeps)
    assert family_of("qwen3-coder").traits == TemplateTraits(True, True)
    assert family_of("llama3").traits == TemplateTraits(
        True, True, text_with_calls=False, parallel=False
    )
    assert family_of("gpt-oss").traits == TemplateTraits(
        True, True, parallel=False, reasoning_key=keeps, thought_with_text=False
    )
    assert family_of("mistral").traits == TemplateTraits(True, True, reasoning_key=keeps)
    assert family_of("mistral-list").traits == TemplateTraits(True, True, text_with_calls=False)
    assert family_of("deepseek-v3.1").traits == TemplateTraits(True, True, json_arguments=True)
    assert family_of("deepseek-v3").traits == TemplateTraits(
        False, True, json_arguments=True, null_content=True, text_with_calls=False
    )
    assert family_of("smollm2").traits == TemplateTraits()


def test_thinking_is_switched_by_the_template() -> None:
    qwen3 = family_of("qwen3")
    closed = "<think>\n\n</think>\n\n"
    assert qwen3.text(USER, thinking=Thinking(False)).endswith(closed)
    assert not qwen3.text(USER, thinking=Thinking(True)).endswith(closed)
    deepseek = family_of("deepseek-v3.1")
    assert deepseek.text(USER, thinking=Thinking(True)).endswith("<think>")
    assert deepseek.text(USER).endswith("</think>")


def test_prompt_that_ends_inside_the_thinking_says_so() -> None:
    always = Family("{% for m in messages %}{{ m.content }}{% endfor %}<|im_end|><think>\n")

    def open_inside(model: Family, *messages: Message, **kwargs: Any) -> bool:
        return model.chat.encode(ChatPrompt(messages, **kwargs), 99).in_reasoning

    assert open_inside(always, USER)
    assert not open_inside(family_of("qwen3"), USER)
    assert not open_inside(family_of("qwen3"), USER, thinking=Thinking(False))
    assert not open_inside(family_of("qwen3"), USER, Message("assistant", "<think>\n"))
    assert open_inside(family_of("deepseek-v3.1"), USER, thinking=Thinking(True))


def test_thinking_that_the_template_always_opens_is_closed_where_it_is_off() -> None:
    always = Family("{% for m in messages %}{{ m.content }}{% endfor %}<|im_end|><think>\n")
    off = ChatPrompt((USER,), thinking=Thinking(False))
    assert not always.chat.encode(off, 99).in_reasoning
    text = always.text(USER, tools=(), thinking=Thinking(False))
    assert text.endswith("<think>\n\n</think>\n\n")


@pytest.mark.parametrize("name", FORMATS)
def test_fallback_teaches_and_writes_calls_in_the_chosen_format(name: str) -> None:
    model = Family((DATA / "smollm2.jinja").read_text(), name)
    answer = model.answer(replace(CALLS, content=""), *RESULTS)
    assert parsed(model.format, answer)[:1] == calls_of(PARIS)
    prompt = model.text(Message("system", "Be brief."), USER, CALLS, *RESULTS)
    assert prompt.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n")
    assert model.format.calls.before_name + "function-name" in prompt
    assert (
        "<|im_start|>user\n<tool_response>\nsunny\n</tool_response>\n"
        "<tool_response>\ntwelve\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    ) in prompt


def test_fallback_writes_past_calls_though_no_tools_are_offered_now() -> None:
    text = family_of("smollm2").text(USER, CALLS, *RESULTS, tools=())
    assert "# Tools" not in text
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}' in text


contents = st.sampled_from(["", "Hello", "  two\n\nlines ", "<tool_call>", "{}", "<|im_end|>é"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | contents,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(contents, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Turns of the user, each answered by text or by calls, results and text."""
    messages = [Message("system", draw(contents))] if draw(st.booleans()) else []
    number = 0
    for _ in range(draw(st.integers(1, 3))):
        messages.append(Message("user", draw(contents)))
        for _ in range(draw(st.integers(0, 2))):
            calls = []
            for _ in range(draw(st.integers(1, 2))):
                number += 1
                arguments = draw(st.dictionaries(contents, values, max_size=2))
                calls.append(ToolCall(f"id{number}", draw(st.sampled_from("fg")), arguments))
            thought = draw(st.none() | st.just("Hm."))
            messages.append(Message("assistant", draw(contents), thought, tuple(calls)))
            results = [Message("tool", draw(contents), tool_call_id=call.id) for call in calls]
            messages += draw(st.permutations(results))
        messages.append(Message("assistant", draw(contents), draw(st.none() | st.just("Hm."))))
    return messages


def prompts(messages: list[Message]) -> list[list[Message]]:
    """The conversation at each place where the model was asked."""
    asked = [n for n, message in enumerate(messages) if message.role == "assistant"]
    return [messages[:n] for n in asked if n] + [[*messages, Message("user", "More")]]


CHATML_WITH_TOOLS = (Path(__file__).parents[2] / "engine" / "scripted.jinja").read_text()
KEEPING = {
    "ChatML": Family(CHATML_WITH_TOOLS),
    "SmolLM2": family_of("smollm2"),
    "Qwen3-Coder": family_of("qwen3-coder"),
}


@pytest.mark.parametrize("name", ["ChatML", "SmolLM2"])
def test_a_turns_prompt_is_a_prefix_of_the_next_turns(name: str) -> None:
    @settings(max_examples=100)
    @given(conversations(), st.booleans())
    def check(messages: list[Message], offered: bool) -> None:
        tools = TOOLS if offered else ()
        texts = [KEEPING[name].text(*turn, tools=tools) for turn in prompts(messages)]
        for earlier, later in pairwise(texts):
            assert later.startswith(earlier)

    check()


def test_where_past_thinking_is_dropped_prompts_agree_up_to_the_last_question() -> None:
    qwen3 = family_of("qwen3")

    @settings(max_examples=100)
    @given(conversations())
    def check(messages: list[Message]) -> None:
        turns = prompts(messages)
        for earlier, later in pairwise(turns):
            last = max(n for n, message in enumerate(earlier) if message.role == "user")
            asked = qwen3.text(*earlier[: last + 1]).removesuffix("<|im_start|>assistant\n")
            assert qwen3.text(*earlier).startswith(asked)
            assert qwen3.text(*later).startswith(asked)

    check()
