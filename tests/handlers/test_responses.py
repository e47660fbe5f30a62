"""Reading Responses bodies into the neutral request."""

from __future__ import annotations

from typing import Any

import pytest

from engine.request import ChatPrompt, GenerationRequest, Message, Thinking, ToolCall, ToolChoice
from generated.models import ResponsesRequest
from handlers.errors import ApiError
from handlers.response_tools import offered_tools
from handlers.responses import read_responses_request


def read(**fields: object) -> GenerationRequest:
    body = ResponsesRequest.model_validate({"input": "Hi"} | fields)
    return read_responses_request(body, "resp_1", "served", offered_tools(body.tools))


def read_prompt(**fields: object) -> ChatPrompt:
    prompt = read(**fields).prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


def read_items(*items: dict[str, Any]) -> tuple[Message, ...]:
    return read_prompt(input=list(items)).messages


def says(role: str, content: object, **fields: object) -> dict[str, Any]:
    return {"role": role, "content": content} | fields


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "content": [{"type": "reasoning_text", "text": text}]}


def call(call_id: str, **fields: object) -> dict[str, Any]:
    function = {"type": "function_call", "call_id": call_id, "name": "ring", "arguments": "{}"}
    return function | fields


def output(call_id: str, text: object) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


USER = Message("user", "Hi")
RING = ToolCall("c1", "ring", {})


def test_a_bare_text_is_a_users_message() -> None:
    request = read()
    assert request.id == "resp_1"
    assert request.prompt == ChatPrompt((USER,), parallel_tool_calls=False)
    assert request.sampling.max_tokens is None


def test_null_fields_read_like_absent_ones() -> None:
    optional = set(ResponsesRequest.model_fields) - {"input", "seed"}
    assert read(**dict.fromkeys(optional), seed=1) == read(seed=1)


@pytest.mark.parametrize(
    "items",
    [
        [says("user", "Hi")],
        [says("user", [{"type": "input_text", "text": "Hi"}])],
        [says("user", "Hi", type="message", id="msg_1", status="completed")],
    ],
)
def test_every_form_of_a_message_reads_alike(items: list[dict[str, Any]]) -> None:
    assert read_items(*items) == (USER,)


def test_instructions_and_system_messages_stay_in_order() -> None:
    items = [says("developer", "D"), says("user", "Hi"), says("system", "S")]
    assert read_prompt(instructions="I", input=items).messages == (
        Message("system", "I"),
        Message("system", "D"),
        USER,
        Message("system", "S"),
    )


def test_parts_are_joined_and_refusals_are_text() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}]
    assert read_items(says("assistant", parts)) == (Message("assistant", "a\nb"),)


def test_an_assistants_turn_is_one_message_and_results_follow_by_id() -> None:
    items = [
        says("user", "Hi"),
        thought("Hm."),
        says("assistant", "I ring."),
        call("c1"),
        call("c2", arguments='{"times": 2}'),
        output("c2", [{"type": "input_text", "text": "two"}]),
        output("c1", "one"),
        says("assistant", "Done."),
    ]
    second = ToolCall("c2", "ring", {"times": 2})
    assert read_items(*items) == (
        USER,
        Message("assistant", "I ring.", "Hm.", (RING, second)),
        Message("tool", "two", tool_call_id="c2"),
        Message("tool", "one", tool_call_id="c1"),
        Message("assistant", "Done."),
    )


def test_text_ends_a_turn_before_more_text_or_thoughts() -> None:
    items = [says("assistant", "A"), says("assistant", "B"), thought("Hm."), says("assistant", "C")]
    assert read_items(*items) == (
        Message("assistant", "A"),
        Message("assistant", "B"),
        Message("assistant", "C", "Hm."),
    )


def test_unanswered_calls_hold_a_turn_together() -> None:
    items = [
        thought("One."),
        says("assistant", "A"),
        call("c1"),
        thought("Two."),
        says("assistant", "B"),
        call("c2"),
    ]
    second = ToolCall("c2", "ring", {})
    assert read_items(*items) == (Message("assistant", "A\nB", "One.\nTwo.", (RING, second)),)


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({}, None),
        ({"summary": [], "content": None, "encrypted_content": "gAAA"}, None),
        ({"content": [{"type": "text", "text": "T"}]}, "T"),
        ({"summary": [{"type": "summary_text", "text": "S"}], "content": []}, "S"),
        (
            {
                "summary": [{"type": "summary_text", "text": "S"}],
                "content": [{"type": "reasoning_text", "text": "T"}],
            },
            "T",
        ),
    ],
)
def test_thoughts_come_from_the_content_or_the_summary(
    fields: dict[str, Any], reasoning: str | None
) -> None:
    item = {"type": "reasoning", "id": "rs_1", **fields}
    assert read_items(item, says("assistant", "A")) == (Message("assistant", "A", reasoning),)
    alone = () if reasoning is None else (Message("assistant", "", reasoning),)
    assert read_items(item) == alone


@pytest.mark.parametrize(
    "item",
    [{"type": "item_reference", "id": "rs_1"}, {"type": "web_search_call", "id": "ws_1"}],
)
def test_references_and_unknown_items_are_passed_over(item: dict[str, Any]) -> None:
    read = read_items(says("user", "Hi"), item, thought("Hm."), item, call("c1"), item)
    assert read == (USER, Message("assistant", "", "Hm.", (RING,)))


def test_past_calls_have_the_names_that_the_model_was_offered() -> None:
    custom = {"type": "custom_tool_call", "call_id": "c2", "name": "tell", "input": "raw\n"}
    items = [
        call("c1", namespace="agents"),
        custom | {"namespace": "agents"},
        custom,
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
    ]
    assert read_items(*items) == (
        Message(
            "assistant",
            "",
            tool_calls=(
                ToolCall("c1", "agents__ring", {}),
                ToolCall("c2", "agents__tell", {"input": "raw\n"}),
                ToolCall("c2", "tell", {"input": "raw\n"}),
            ),
        ),
        Message("tool", "ok", tool_call_id="c2"),
    )


@pytest.mark.parametrize("name", ["id", "call_id"])
def test_the_shells_calls_are_calls_of_local_shell(name: str) -> None:
    action = {"type": "exec", "command": ["ls", "-l"], "timeout_ms": 5}
    items: list[dict[str, Any]] = [
        {"type": "local_shell_call", name: "c1", "action": action},
        {"type": "local_shell_call_output", name: "c1", "output": "a.txt"},
    ]
    assert read_items(*items) == (
        Message("assistant", "", tool_calls=(ToolCall("c1", "local_shell", action),)),
        Message("tool", "a.txt", tool_call_id="c1"),
    )


@pytest.mark.parametrize(
    ("fields", "max_tokens"),
    [
        ({"max_tokens": 3}, 3),
        ({"max_tokens": 3, "max_completion_tokens": 5}, 5),
        ({"max_tokens": 3, "max_completion_tokens": 5, "max_output_tokens": 7}, 7),
        ({"max_tokens": 3, "max_output_tokens": None}, 3),
    ],
)
def test_max_output_tokens_wins(fields: dict[str, Any], max_tokens: int) -> None:
    assert read(**fields).sampling.max_tokens == max_tokens


@pytest.mark.parametrize(
    ("reasoning", "enabled"),
    [
        (None, None),
        ({}, None),
        ({"effort": None, "summary": "auto"}, None),
        ({"effort": "none"}, False),
        ({"effort": "high"}, None),
    ],
)
def test_no_effort_turns_thinking_off(
    reasoning: dict[str, Any] | None, enabled: bool | None
) -> None:
    assert read_prompt(reasoning=reasoning).thinking == Thinking(enabled)


def test_tools_and_their_choice_are_read() -> None:
    tool = {"type": "function", "name": "ring", "parameters": {"type": "object"}}
    prompt = read_prompt(tools=[tool], tool_choice="required", parallel_tool_calls=True)
    assert [tool.name for tool in prompt.tools] == ["ring"]
    assert prompt.tool_choice == ToolChoice("required")
    assert prompt.parallel_tool_calls


def test_another_model_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        read(model="other")
    assert caught.value.code == "model_not_found"
    assert read(model="served")


def test_refusals_of_the_prompt_name_input() -> None:
    assert read().prompt_field == "input"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"previous_response_id": "resp_0"}, "previous_response_id"),
        ({"background": True, "conversation": {"id": "c"}}, "conversation and background"),
        ({"previous_response_id": None, "background": False}, None),
        ({"metadata": {"a": "b"}}, None),
    ],
)
def test_fields_that_need_kept_responses_are_ignored_with_a_warning(
    fields: dict[str, Any], named: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert read(**fields, seed=1) == read(seed=1)
    assert (f"set {named}, which is ignored" in caplog.text) if named else not caplog.text
