"""OpenAI's Response object as it stands before the answer: what the request asked for."""

from __future__ import annotations

import time
from typing import Any

from engine.request import GenerationRequest
from generated.models import (
    ResponseObject,
    ResponseReasoning,
    ResponsesNamedToolChoice,
    ResponsesRequest,
    ResponseText,
    TextFormat,
)
from handlers.common import first_given
from handlers.tools import chosen_name


def begin_response(
    body: ResponsesRequest, request: GenerationRequest, model: str
) -> ResponseObject:
    """Give the answer in progress, with every field that OpenAI's has."""
    return ResponseObject(
        id=request.id,
        object="response",
        created_at=int(time.time()),
        completed_at=None,
        status="in_progress",
        error=None,
        incomplete_details=None,
        model=first_given(body.model, model),
        output=[],
        usage=None,
        instructions=body.instructions,
        tools=[tool.model_dump(exclude_unset=True) for tool in body.tools or ()],
        tool_choice=_echo_choice(body.tool_choice),
        parallel_tool_calls=bool(body.parallel_tool_calls),
        max_output_tokens=request.sampling.max_tokens,
        temperature=request.sampling.temperature,
        top_p=request.sampling.top_p,
        reasoning=_echo_reasoning(body),
        text=ResponseText(format=TextFormat(type="text")),
        prompt_cache_key=body.prompt_cache_key,
        metadata={},
        truncation="disabled",
        service_tier="default",
        store=False,
        background=False,
        top_logprobs=0,
        max_tool_calls=None,
        previous_response_id=None,
        conversation=None,
        prompt=None,
        safety_identifier=None,
        user=None,
    )


def _echo_choice(choice: str | ResponsesNamedToolChoice | None) -> Any:
    """Give a tool_choice in OpenAI's own form: a mode, or a name beside its type."""
    if choice is None or isinstance(choice, str):
        return choice or "auto"
    name = chosen_name(choice)
    if name is None:
        return "required" if choice.type == "any" else choice.type or "auto"
    return {"type": choice.type or "function", "name": name}


def _echo_reasoning(body: ResponsesRequest) -> ResponseReasoning:
    return ResponseReasoning(effort=body.reasoning and body.reasoning.effort, summary=None)
