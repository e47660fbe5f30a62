"""Anthropic Messages: its body read into the neutral request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from engine.request import (
    ChatPrompt,
    GenerationRequest,
    Message,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
)
from generated.models import (
    ContentBlockParam,
    MessageParam,
    MessagesNamedToolChoice,
    MessagesRequest,
    MessagesTool,
    MessagesToolChoice,
    ServerToolBlockParam,
    TextBlockParam,
    ThinkingBlockParam,
    ThinkingOptions,
    ToolReferenceBlockParam,
    ToolResultBlockParam,
    ToolResultContentBlockParam,
    ToolUseBlockParam,
)
from handlers.common import first_given, read_sampling
from handlers.tools import named_choice, read_tool_choice

# Claude Code's first system block; it changes with every conversation, which no prefix survives.
_BILLING = "x-anthropic-billing-header:"
# What only Anthropic's servers can read, or need.
_OPAQUE = {"encrypted_content", "encrypted_index", "encrypted_stdout", "cache_control"}
_IDS = {"id", "tool_use_id"}

Block = TypeVar("Block")


class Conversation(Protocol):
    """What a prompt is made of; the bodies of Messages and of its token count have it."""

    messages: list[MessageParam]
    system: str | list[TextBlockParam] | None
    tools: list[MessagesTool] | None
    tool_choice: MessagesToolChoice | None
    thinking: ThinkingOptions | None


def read_messages_request(body: MessagesRequest, response_id: str) -> GenerationRequest:
    """Read a body into the neutral request; raises ApiError for what cannot be served."""
    return GenerationRequest(
        id=response_id,
        prompt=read_conversation(body),
        sampling=read_sampling(body, first_given(body.max_completion_tokens, body.max_tokens)),
    )


def read_conversation(body: Conversation) -> ChatPrompt:
    """Read what the prompt is made of; raises ApiError for a choice that no tool fulfils."""
    tools = tuple(_read_tools(body.tools or [], _referenced_tools(body.messages)))
    choice, thinking = body.tool_choice, body.thinking
    one_call = choice is not None and choice.disable_parallel_tool_use
    read = [message for param in body.messages for message in _read_message(param)]
    return ChatPrompt(
        messages=(*_read_system(body.system), *_results_after_calls(read)),
        tools=tools,
        tool_choice=_read_choice(choice, tools),
        parallel_tool_calls=not one_call,
        thinking=Thinking(thinking.type != "disabled", thinking.budget_tokens)
        if thinking
        else Thinking(),
    )


def _read_system(system: str | list[TextBlockParam] | None) -> Iterator[Message]:
    texts = [system] if isinstance(system, str) else [block.text for block in system or []]
    text = "\n".join(filter(None, map(_without_billing, texts)))
    if text:
        yield Message("system", text)


def _without_billing(text: str) -> str:
    return text.partition("\n")[2] if text.startswith(_BILLING) else text


# Tools


def _read_tools(tools: Iterable[MessagesTool], referenced: set[str]) -> Iterator[Tool]:
    for tool in tools:
        match tool:
            case MessagesTool(type="custom" | None, name=str() as name, input_schema=schema):
                if name and (tool.defer_loading is not True or name in referenced):
                    parameters = schema if isinstance(schema, dict) else {}
                    yield Tool(name, _string(tool.description), parameters)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _referenced_tools(messages: Iterable[MessageParam]) -> set[str]:
    """Name the tools that a result has put on offer."""
    return {
        part.tool_name
        for message in messages
        for block in _blocks(message.content)
        if isinstance(block, ToolResultBlockParam)
        for part in _blocks(block.content)
        if isinstance(part, ToolReferenceBlockParam)
    }


def _read_choice(choice: MessagesToolChoice | None, tools: tuple[Tool, ...]) -> ToolChoice:
    if isinstance(choice, MessagesNamedToolChoice):
        return named_choice(choice.name, tools)
    return read_tool_choice(choice.type if choice else None, tools)


# Messages


def _read_message(message: MessageParam) -> Iterator[Message]:
    """Give the results that a message holds, then what its role says."""
    blocks = _blocks(message.content)
    results = [block for block in blocks if isinstance(block, ToolResultBlockParam)]
    for result in results:
        yield Message("tool", _result_text(result), tool_call_id=result.tool_use_id)
    texts = [text for block in blocks if (text := _text_of(block)) is not None]
    text = "\n".join(texts)
    if message.role == "assistant":
        thoughts = [block.thinking for block in blocks if isinstance(block, ThinkingBlockParam)]
        calls = (block for block in blocks if isinstance(block, ToolUseBlockParam))
        yield Message(
            "assistant",
            text,
            reasoning="\n".join(thoughts) or None,
            tool_calls=tuple(ToolCall(call.id, call.name, call.input) for call in calls),
        )
    elif texts or not results:
        yield Message(message.role, text)


def _blocks(content: str | Sequence[Block] | None) -> Sequence[Block | TextBlockParam]:
    """Give the blocks of a content; a string is the same as one text block."""
    if isinstance(content, str):
        return [TextBlockParam(type="text", text=content)]
    return content or []


def _text_of(block: ContentBlockParam) -> str | None:
    match block:
        case TextBlockParam():
            return block.text
        case ServerToolBlockParam():
            told = {k: v for k, v in (block.model_extra or {}).items() if k not in _IDS}
            return f"[{block.type} {json.dumps(_readable(told), ensure_ascii=False)}]"
    return None


def _readable(value: Any) -> Any:
    match value:
        case dict():
            return {k: _readable(v) for k, v in value.items() if k not in _OPAQUE}
        case list():
            return [_readable(item) for item in value]
    return value


def _result_text(result: ToolResultBlockParam) -> str:
    text = "\n".join(map(_result_part_text, _blocks(result.content)))
    return f"Error: {text}" if result.is_error else text


def _result_part_text(part: ToolResultContentBlockParam) -> str:
    match part:
        case TextBlockParam():
            return part.text
        case ToolReferenceBlockParam():
            return part.tool_name
    kind = "image" if part.type == "document" else part.type
    return f"[{kind} omitted: text-only model]"


def _results_after_calls(messages: Iterable[Message]) -> Iterator[Message]:
    """Move results behind the message with their calls, in the order of the calls.

    A result belongs to the latest call with its id; one without a call stays where it is.
    """
    groups: list[list[Message]] = []
    group_of_call: dict[str | None, list[Message]] = {}
    for message in messages:
        group = group_of_call.get(message.tool_call_id) if message.role == "tool" else None
        if group is not None:
            group.append(message)
            continue
        groups.append([message])
        group_of_call |= {call.id: groups[-1] for call in message.tool_calls}
    for caller, *results in groups:
        place = {call.id: n for n, call in enumerate(caller.tool_calls)}
        yield caller
        yield from sorted(results, key=lambda result: place[result.tool_call_id or ""])
