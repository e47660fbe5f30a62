from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import scripted_writer
from engine.model_format import detect_format
from engine.script import CallPart, Part, ScriptedAnswer, TextPart
from engine.scripted_prompt import OfferedTool, ReadPrompt
from engine.scripted_reply import Reply
from engine.scripted_writer import Writer
from tests.engine.scripted_model import TEMPLATE, TOKENIZER, spelled

END = TOKENIZER.get_vocab()["<|im_end|>"]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PROMPT = ReadPrompt("Hi", False, (OfferedTool("f", {}), OfferedTool("g", CITY)), may_think=True)
THOUGHT, HELLO = TextPart("reasoning", "Hm, hm."), TextPart("text", "Hello")

Allowed = Callable[[str, str], bool]
"""Whether a token may follow, told by the text so far and the token's own."""


def mask(so_far: str, allowed: Allowed) -> NDArray[np.uint32]:
    size = TOKENIZER.get_vocab_size()
    bits = [allowed(so_far, spelled([n])) for n in range(size)]
    padded = np.zeros((size + 31) // 32 * 32, np.uint8)
    padded[:size] = bits
    return np.packbits(padded, bitorder="little").view(np.uint32)


def reply(*parts: Part, prompt: ReadPrompt = PROMPT) -> Reply:
    writer = Writer(TOKENIZER, detect_format(TEMPLATE))
    return Reply(ScriptedAnswer(parts), prompt, writer, END)


def run(reply: Reply, allowed: Allowed | None = None, most: int = 60) -> str:
    """The whole answer when each token has to be `allowed`."""
    ids: list[int] = []
    while len(ids) < most and END not in ids:
        ids.append(reply.next_id(ids, mask(spelled(ids), allowed) if allowed else None))
    return spelled(ids)


def only(*texts: str) -> Allowed:
    """What a grammar of these texts allows."""
    whole = [text + "<|im_end|>" for text in texts]
    return lambda so_far, token: any(text.startswith(so_far + token) for text in whole)


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def test_without_a_mask_the_script_is_followed() -> None:
    assert run(reply(THOUGHT, HELLO)) == "<think>\nHm, hm.\n</think>\n\nHello<|im_end|>"


def test_a_grammar_that_allows_the_script_changes_nothing() -> None:
    assert run(reply(HELLO), only("Hello", "Other")) == "Hello<|im_end|>"


def test_the_calls_to_fall_back_on_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def example(schema: Any, given: dict[str, Any]) -> dict[str, Any]:
        written.append("once")
        return {}

    monkeypatch.setattr(scripted_writer, "example_arguments", example)
    assert run(reply(HELLO), lambda so_far, token: token == "!", most=40) == "!" * 40
    # With and without thinking before it, one for each tool.
    assert len(written) == 2 * len(PROMPT.tools)


@pytest.mark.parametrize(
    "parts", [(HELLO,), (CallPart(names=("f",)),), (THOUGHT, CallPart(arguments={"city": "Ulm"}))]
)
def test_an_answer_that_is_held_to_a_tool_becomes_a_call_of_it(parts: tuple[Part, ...]) -> None:
    city = "Ulm" if THOUGHT in parts else "a"
    expected = call("g", f'{{"city": "{city}"}}')
    assert run(reply(*parts), only(expected)) == expected + "<|im_end|>"


def test_a_held_call_keeps_the_thinking_where_that_is_allowed() -> None:
    thought = "<think>\nHm, hm.\n</think>\n\n"
    expected = thought + call("g", '{"city": "a"}')
    assert run(reply(THOUGHT, HELLO), only(expected)) == expected + "<|im_end|>"


def test_only_a_tool_that_has_begun_so_is_gone_on_with() -> None:
    optional = {"type": "object", "properties": CITY["properties"]}
    tools = OfferedTool("a_x", {}), OfferedTool("b_g", {}), OfferedTool("a_g", optional)
    held = reply(CallPart(arguments={"city": "Ulm"}), prompt=replace(PROMPT, tools=tools))
    expected = call("a_g", '{"city": "Ulm"}')
    assert run(held, only(expected, call("a_g", "{}"))) == expected + "<|im_end|>"


def test_thinking_that_is_cut_off_goes_on_behind_its_end() -> None:
    def budget(so_far: str, token: str) -> bool:
        return token == "</think>" or "Hm," not in so_far or "</think>" in so_far

    assert run(reply(THOUGHT, HELLO), budget) == "<think>\nHm,</think>\n\nHello<|im_end|>"


def test_an_answer_that_nothing_fits_takes_what_is_allowed() -> None:
    assert run(reply(HELLO), only("ABC")).startswith("A")
    assert run(reply(HELLO), lambda so_far, token: token == "<|im_end|>") == "<|im_end|>"


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (TextPart("raw", "<tool_call>{broken"), "<tool_call>{broken"),
        (CallPart("g", (), {"city": 3}), call("g", '{"city": 3}')),
    ],
)
def test_what_the_script_spells_out_takes_no_heed_of_a_mask(part: Part, text: str) -> None:
    assert run(reply(part), only("Other")) == text + "<|im_end|>"
