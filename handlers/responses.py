"""OpenAI Responses: its body read into the neutral request."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from engine.request import ChatPrompt, GenerationRequest, Message, Thinking, ToolCall
from generated.models import (
    InputContentPart,
    InputCustomToolCall,
    InputCustomToolCallOutput,
    InputFunctionCall,
    InputFunctionCallOutput,
    InputItem,
    InputLocalShellCall,
    InputLocalShellCallOutput,
    InputMessage,
    InputReasoning,
    InputRefusalPart,
    ResponsesRequest,
)
from handlers.common import check_model, first_given, flatten_text, read_sampling
from handlers.raw_input import RAW_FIELD
from handlers.response_tools import OfferedTool, flat_name, read_choice
from handlers.tools import parse_arguments

logger = logging.getLogger("mashbox.responses")

# Fields that lean on responses kept by the server; clients that send them should hear of it.
_STATE_FIELDS = ("previous_response_id", "conversation", "background")
_AssistantItem = (
    InputMessage | InputReasoning | InputFunctionCall | InputCustomToolCall | InputLocalShellCall
)
_OutputItem = InputFunctionCallOutput | InputCustomToolCallOutput | InputLocalShellCallOutput


def read_responses_request(
    body: ResponsesRequest,
    response_id: str,
    served_model: str,
    tools: Mapping[str, OfferedTool],
) -> GenerationRequest:
    """Read a body, whose tools are `tools`; raises ApiError for what cannot be served."""
    check_model(body.model, served_model)
    _warn_of_state(body)
    max_tokens = first_given(body.max_output_tokens, body.max_completion_tokens, body.max_tokens)
    return GenerationRequest(
        id=response_id,
        prompt=ChatPrompt(
            messages=tuple(_read_messages(body)),
            tools=tuple(offered.tool for offered in tools.values()),
            tool_choice=read_choice(body.tool_choice, tools),
            parallel_tool_calls=bool(body.parallel_tool_calls),
            thinking=_read_thinking(body),
        ),
        sampling=read_sampling(body, max_tokens),
        prompt_field="input",
    )


def _warn_of_state(body: ResponsesRequest) -> None:
    asked = [name for name in _STATE_FIELDS if (body.model_extra or {}).get(name)]
    if asked:
        logger.warning(
            "A Responses request set %s, which is ignored: no response is kept on this server.",
            " and ".join(asked),
        )


def _read_thinking(body: ResponsesRequest) -> Thinking:
    # How hard to think is the template's business; only the wish not to is a switch.
    off = body.reasoning is not None and body.reasoning.effort == "none"
    return Thinking(False if off else None)


def _read_messages(body: ResponsesRequest) -> Iterator[Message]:
    if body.instructions is not None:
        yield Message("system", body.instructions)
    if isinstance(body.input, str):
        yield Message("user", body.input)
    else:
        yield from _read_items(body.input)


def _read_items(items: Iterable[InputItem]) -> Iterator[Message]:
    """Join what the assistant did in one turn; pass over references and unknown items."""
    turn = _Turn()
    for item in items:
        if _is_of_assistant(item):
            if turn.ends_before(item):
                yield from turn.messages()
                turn = _Turn()
            turn.add(item)
        elif isinstance(item, InputMessage | _OutputItem):
            yield from turn.messages()
            turn = _Turn()
            yield _read_other(item)
    yield from turn.messages()


def _is_of_assistant(item: InputItem) -> TypeGuard[_AssistantItem]:
    if isinstance(item, InputMessage):
        return item.role == "assistant"
    return isinstance(item, _AssistantItem)


def _read_other(item: InputMessage | _OutputItem) -> Message:
    match item:
        case InputMessage():
            role = "system" if item.role == "developer" else item.role
            return Message(role, _read_text(item.content))
        case InputLocalShellCallOutput():
            call_id = item.call_id or item.id
        case _:
            call_id = item.call_id
    return Message("tool", _read_text(item.output), tool_call_id=call_id)


@dataclass
class _Turn:
    """What the assistant did up to the next item of somebody else."""

    thoughts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)

    def ends_before(self, item: _AssistantItem) -> bool:
        """Tell whether an item begins the next turn: after text, unless calls are unanswered."""
        if isinstance(item, InputMessage | InputReasoning):
            return bool(self.texts) and not self.calls
        return False

    def add(self, item: _AssistantItem) -> None:
        match item:
            case InputMessage():
                self.texts.append(_read_text(item.content))
            case InputReasoning():
                if thoughts := flatten_text(item.content or item.summary):
                    self.thoughts.append(thoughts)
            case _:
                self.calls.append(_read_call(item))

    def messages(self) -> Iterator[Message]:
        """Give the turn as one message, or none where nothing was done."""
        if self.thoughts or self.texts or self.calls:
            reasoning = "\n".join(self.thoughts) or None
            yield Message("assistant", "\n".join(self.texts), reasoning, tuple(self.calls))


def _read_call(
    item: InputFunctionCall | InputCustomToolCall | InputLocalShellCall,
) -> ToolCall:
    match item:
        case InputFunctionCall():
            name = flat_name(item.name, item.namespace)
            return ToolCall(item.call_id, name, parse_arguments(item.arguments))
        case InputCustomToolCall():
            name = flat_name(item.name, item.namespace)
            return ToolCall(item.call_id, name, {RAW_FIELD: item.input})
    action = item.action.model_dump(exclude_unset=True)
    return ToolCall(item.call_id or item.id or "", "local_shell", action)


def _read_text(content: str | Sequence[InputContentPart]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        part.refusal if isinstance(part, InputRefusalPart) else part.text for part in content
    )
