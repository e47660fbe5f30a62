from __future__ import annotations

from typing import Any

import pytest

from engine.scripted_prompt import OfferedTool, PromptReader, ReadPrompt
from tests.engine.scripted_model import TOKENIZER, WEATHER, prompt_ids, user

CALL = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "hm",
    "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Rome"}}}],
}
RESULT = {"role": "tool", "content": "sunny"}
TIME = {"name": "get_time", "parameters": {"type": "object"}}


def read(*messages: dict[str, Any], functions: Any = (), **kwargs: Any) -> ReadPrompt:
    return PromptReader(TOKENIZER).read(prompt_ids(list(messages), functions, **kwargs))


def test_the_last_user_message_is_read_and_tool_results_are_none() -> None:
    assert read(user("First"), CALL, RESULT, RESULT).user == "First"
    assert read(user("First"), CALL, RESULT, user("Two\nlines")).user == "Two\nlines"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], False),
        ([user("Hi")], False),
        ([user("Hi"), CALL, RESULT], True),
        ([user("Hi"), CALL, RESULT, user("A reminder")], True),
        (
            [user("Hi"), CALL, RESULT, {"role": "assistant", "content": "Sunny."}, user("And?")],
            False,
        ),
    ],
)
def test_a_tool_result_counts_until_the_assistant_speaks(
    messages: list[dict[str, Any]], expected: bool
) -> None:
    assert read(*messages).after_tool_result is expected


def test_tools_are_read_back_as_they_were_offered() -> None:
    system = {"role": "system", "content": "Be brief."}
    offered = read(system, user("Hi"), functions=(WEATHER, TIME)).tools
    assert offered == (
        OfferedTool("get_weather", WEATHER["parameters"]),
        OfferedTool("get_time", {"type": "object"}),
    )
    assert read(system, user("Hi")).tools == ()


def test_a_prompt_that_is_no_chat_is_read_as_what_the_user_says() -> None:
    bare = PromptReader(TOKENIZER).read(TOKENIZER.encode("One two").ids)
    assert (bare.user, bare.tools, bare.after_tool_result) == ("One two", (), False)


def test_thinking_is_open_unless_the_prompt_closes_it_or_is_no_chat() -> None:
    assert read(user("Hi")).may_think
    assert read(user("Hi"), enable_thinking=True).may_think
    assert not read(user("Hi"), enable_thinking=False).may_think
    assert not PromptReader(TOKENIZER).read(TOKENIZER.encode("One two").ids).may_think
    begun = TOKENIZER.encode("<|im_start|>assistant\nOnce upon").ids
    assert not PromptReader(TOKENIZER).read(begun).may_think
