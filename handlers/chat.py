"""OpenAI Chat Completions: its body read into the neutral request."""

from __future__ import annotations

from typing import Any

from engine.request import ChatPrompt, GenerationRequest, Message, Thinking, Tool, ToolCall
from generated.models import ChatCompletionRequest, ChatMessage, ChatTool, ChatToolCallParam
from handlers.common import check_model, first_given, flatten_text, read_sampling
from handlers.tools import function_tool, parse_arguments, read_tool_choice


def read_chat_request(
    body: ChatCompletionRequest, response_id: str, served_model: str
) -> GenerationRequest:
    """Read a body into the neutral request; raises ApiError for what cannot be served."""
    check_model(body.model, served_model)
    max_tokens = first_given(body.max_completion_tokens, body.max_tokens)
    tools = _read_tools(body.tools or [])
    kwargs = _template_kwargs(body)
    return GenerationRequest(
        id=response_id,
        prompt=ChatPrompt(
            messages=tuple(map(_read_message, body.messages)),
            tools=tools,
            tool_choice=read_tool_choice(body.tool_choice, tools),
            thinking=Thinking(kwargs.pop("enable_thinking", None)),
            template_kwargs=kwargs,
        ),
        sampling=read_sampling(body, max_tokens),
    )


def _read_tools(tools: list[ChatTool]) -> tuple[Tool, ...]:
    offered = (function_tool(tool.function) for tool in tools if tool.type in (None, "function"))
    return tuple(tool for tool in offered if tool)


def _read_message(message: ChatMessage) -> Message:
    assistant = message.role == "assistant"
    calls = message.tool_calls if assistant else None
    return Message(
        role="system" if message.role == "developer" else message.role,
        content=flatten_text(message.content),
        reasoning=message.reasoning_content if assistant else None,
        tool_calls=tuple(_read_call(call) for call in calls or [] if call.function),
        tool_call_id=message.tool_call_id,
    )


def _read_call(call: ChatToolCallParam) -> ToolCall:
    function = call.function
    return ToolCall(
        id=call.id or "",
        name=(function and function.name) or "",
        arguments=parse_arguments(function and function.arguments),
    )


def _template_kwargs(body: ChatCompletionRequest) -> dict[str, Any]:
    kwargs = (
        body.chat_template_kwargs.model_dump(exclude_none=True) if body.chat_template_kwargs else {}
    )
    if body.enable_thinking is not None:
        kwargs["enable_thinking"] = body.enable_thinking
    return kwargs
