"""Reading Messages bodies into the neutral request."""

from __future__ import annotations

import json

import pytest

from engine.request import ChatPrompt, Message, ToolCall
from generated.models import CountTokensRequest, MessagesRequest
from handlers.body import parse_body
from handlers.errors import ApiError
from handlers.messages import read_conversation
from tests.handlers.message_bodies import (
    HI,
    RING,
    Json,
    assistant,
    conversation,
    prompt_of,
    read,
    result,
    text,
    use,
    user,
)

BILLING = "x-anthropic-billing-header: v=1.2; entry=cli;"


def test_a_bare_conversation_is_read() -> None:
    request = read()
    assert (request.id, request.prompt_field) == ("msg_1", "messages")
    assert request.prompt == ChatPrompt((Message("user", "Hi"),))
    assert request.sampling.max_tokens is None


def test_null_fields_read_like_absent_ones() -> None:
    optional = set(MessagesRequest.model_fields) - {"messages", "seed"}
    assert read(**dict.fromkeys(optional), seed=1) == read(seed=1)


def test_fields_that_are_not_listed_pass() -> None:
    assert read(seed=1) == read(
        seed=1, context_management={"edits": []}, safeguards=[], thinking=None,
        output_config={"effort": "high"}, metadata={"user_id": "x"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "max_tokens"),
    [({"max_tokens": 3}, 3), ({"max_tokens": 3, "max_completion_tokens": 5}, 5)],
)
def test_max_completion_tokens_wins(fields: Json, max_tokens: int) -> None:
    assert read(**fields).sampling.max_tokens == max_tokens


def test_stop_wins_over_stop_sequences() -> None:
    assert read(stop_sequences=["a", "b"]).sampling.stop == ("a", "b")
    assert read(stop_sequences=["a", "b"], stop="c").sampling.stop == ("c",)


# The system prompt


@pytest.mark.parametrize(
    ("system", "read_as"),
    [
        ("Be kind.", "Be kind."),
        ([text("Be kind.")], "Be kind."),
        ([text("Be kind."), text("Be brief.")], "Be kind.\nBe brief."),
        ([text(BILLING), text("Be kind.")], "Be kind."),
        (f"{BILLING}\nBe kind.", "Be kind."),
        ([text(f"Say {BILLING}")], f"Say {BILLING}"),
    ],
)
def test_the_system_prompt_is_its_blocks_without_the_billing_line(
    system: object, read_as: str
) -> None:
    assert prompt_of(system=system).messages == (Message("system", read_as), Message("user", "Hi"))


@pytest.mark.parametrize("system", ["", [], [text("")], [text(BILLING)], BILLING])
def test_a_system_prompt_without_text_is_none(system: object) -> None:
    assert prompt_of(system=system) == prompt_of()


def test_system_messages_in_the_list_are_system_messages() -> None:
    inside = {"role": "system", "content": [text("Now.")]}
    assert conversation(HI, inside, system="First.") == (
        Message("system", "First."),
        Message("user", "Hi"),
        Message("system", "Now."),
    )


# Blocks


def test_a_string_is_the_same_as_one_text_block() -> None:
    strings = conversation(
        HI,
        {"role": "assistant", "content": "Yes?"},
        {"role": "system", "content": "S"},
        user(result("toolu_1", "done")),
        system="S",
    )
    blocks = conversation(
        user(text("Hi")),
        assistant(text("Yes?")),
        {"role": "system", "content": [text("S")]},
        user(result("toolu_1", [text("done")])),
        system=[text("S")],
    )
    assert strings == blocks


def test_texts_are_joined_by_line_breaks() -> None:
    assert conversation(user(text("a"), text("b")), assistant(text("c"), text("d"))) == (
        Message("user", "a\nb"),
        Message("assistant", "c\nd"),
    )


def test_an_empty_message_stays_a_turn() -> None:
    assert conversation(HI, assistant(), user()) == (
        Message("user", "Hi"),
        Message("assistant", ""),
        Message("user", ""),
    )


def test_an_assistant_s_thoughts_text_and_calls_are_one_message() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "mashbox-local"},
        {"type": "redacted_thinking", "data": "AAAA"},
        text("I ring."),
        use("toolu_1", times=2),
        use("toolu_2"),
    ]
    assert conversation(HI, assistant(*blocks), user(text("Go"))) == (
        Message("user", "Hi"),
        Message(
            "assistant",
            "I ring.",
            "Hm.",
            (ToolCall("toolu_1", "ring", {"times": 2}), ToolCall("toolu_2", "ring", {})),
        ),
        Message("user", "Go"),
    )


def test_what_other_servers_tools_did_is_told_as_text() -> None:
    blocks = [
        text("Look:"),
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "é"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{"type": "web_search_result", "title": "T", "encrypted_content": "AA"}],
        },
    ]
    (message,) = conversation(assistant(*blocks))
    assert message == Message(
        "assistant",
        'Look:\n[server_tool_use {"name": "web_search", "input": {"q": "é"}}]\n'
        '[web_search_tool_result {"content": [{"type": "web_search_result", "title": "T"}]}]',
    )


@pytest.mark.parametrize("type_", ["image", "document"])
def test_media_from_the_user_is_refused_by_its_path(type_: str) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    with pytest.raises(ApiError) as refusal:
        read(messages=[HI, user(text("See:"), {"type": type_, "source": source})])
    assert refusal.value.status == 400
    assert "messages[1].content[1]" in refusal.value.message


def test_structured_output_is_refused_by_its_path() -> None:
    with pytest.raises(ApiError) as refusal:
        read(output_config={"effort": "high", "format": {"type": "json_schema", "schema": {}}})
    assert refusal.value.status == 400
    assert "output_config.format" in refusal.value.message


# Results


@pytest.mark.parametrize(
    ("content", "read_as"),
    [
        ([], ""),
        (["done"], "done"),
        ([[]], ""),
        ([[text("a"), text("b")]], "a\nb"),
        ([[text("a"), {"type": "image", "source": {}}]], "a\n[image omitted: text-only model]"),
        ([[{"type": "document", "source": {}}]], "[image omitted: text-only model]"),
        ([[{"type": "search_result", "title": "T"}]], "[search_result omitted: text-only model]"),
        ([[{"type": "tool_reference", "tool_name": "ring"}]], "ring"),
    ],
)
def test_a_result_is_read_in_every_form(content: list[object], read_as: str) -> None:
    messages = conversation(HI, assistant(use("1")), user(result("1", *content)))
    assert messages[2:] == (Message("tool", read_as, tool_call_id="1"),)


def test_a_failed_tool_s_result_says_so() -> None:
    for failed, read_as in ((True, "Error: no bell"), (False, "no bell")):
        messages = conversation(
            HI, assistant(use("1")), user(result("1", "no bell", is_error=failed))
        )
        assert messages[2].content == read_as


def test_results_follow_their_calls_in_the_calls_order() -> None:
    expected = (
        Message("tool", "one", tool_call_id="1"),
        Message("tool", "two", tool_call_id="2"),
        Message("user", "And?"),
    )
    calls, one, two = assistant(use("1"), use("2")), result("1", "one"), result("2", "two")
    for blocks in (
        (one, two, text("And?")),
        (text("And?"), two, one),
        (two, text("And?"), one),
    ):
        assert conversation(HI, calls, user(*blocks))[2:] == expected
    assert conversation(HI, calls, user(two, text("And?")), user(one))[2:] == expected


def test_a_system_message_does_not_part_calls_and_results() -> None:
    note = {"role": "system", "content": "Note."}
    read = conversation(HI, assistant(use("1")), note, user(result("1", "one")))
    assert [message.role for message in read] == ["user", "assistant", "tool", "system"]


def test_a_result_belongs_to_the_latest_call_with_its_id() -> None:
    turn = (assistant(use("1")), user(result("1", "a")))
    again = (assistant(use("1")), user(result("1", "b")))
    assert [m.content for m in conversation(HI, *turn, *again)] == ["Hi", "", "a", "", "b"]


def test_a_result_without_a_call_stays_in_its_place() -> None:
    read = conversation(user(result("gone", "late"), text("Hi")), assistant(use("gone")))
    assert [message.role for message in read] == ["tool", "user", "assistant"]


# Token counts


def test_a_count_reads_the_same_conversation() -> None:
    fields: Json = {
        "messages": [HI, assistant(use("1")), user(result("1", "one"))],
        "system": [text(BILLING), text("S")],
        "tools": [RING],
        "tool_choice": {"type": "any"},
        "thinking": {"type": "disabled"},
    }
    counted = parse_body(CountTokensRequest, json.dumps(fields).encode())
    assert isinstance(counted, CountTokensRequest)
    assert read_conversation(counted) == read(**fields).prompt
