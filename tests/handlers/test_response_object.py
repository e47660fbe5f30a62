"""The Response object before the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import Response

from generated.models import ResponsesRequest
from handlers.response_object import begin_response
from handlers.response_tools import offered_tools
from handlers.responses import read_responses_request
from tests.handlers.schemas import schema

RING = {"type": "function", "name": "ring", "strict": None, "parameters": {"type": "object"}}


def begin(**fields: object) -> dict[str, Any]:
    """The object as sent, checked against the contract and the SDK's strict type."""
    body = ResponsesRequest.model_validate({"input": "Hi"} | fields)
    request = read_responses_request(body, "resp_1", "served", offered_tools(body.tools))
    sent = begin_response(body, request, "served").model_dump_json(exclude_unset=True)
    Response.model_validate_json(sent, strict=True)
    written: dict[str, Any] = json.loads(sent)
    schema("ResponseObject").validate(written)
    return written


def test_it_has_every_field_with_openais_defaults() -> None:
    begun = begin()
    assert begun.pop("created_at") > 0
    assert begun == {
        "id": "resp_1", "object": "response", "completed_at": None, "status": "in_progress",
        "error": None, "incomplete_details": None, "model": "served", "output": [], "usage": None,
        "instructions": None, "tools": [], "tool_choice": "auto", "parallel_tool_calls": False,
        "max_output_tokens": None, "temperature": 0.0, "top_p": 1.0,
        "reasoning": {"effort": None, "summary": None}, "text": {"format": {"type": "text"}},
        "prompt_cache_key": None, "metadata": {}, "truncation": "disabled",
        "service_tier": "default", "store": False, "background": False, "top_logprobs": 0,
        "max_tool_calls": None, "previous_response_id": None, "conversation": None,
        "prompt": None, "safety_identifier": None, "user": None,
    }  # fmt: skip


def test_it_repeats_what_was_asked_for() -> None:
    asked = {
        "model": "served", "instructions": "Be kind.", "tools": [RING, {"type": "web_search"}],
        "tool_choice": "required", "parallel_tool_calls": True, "max_output_tokens": 9,
        "temperature": 0.5, "top_p": 0.9, "prompt_cache_key": "k",
    }  # fmt: skip
    begun = begin(**asked, reasoning={"effort": "low", "summary": "auto"})
    assert {name: begun[name] for name in asked} == asked
    assert begun["reasoning"] == {"effort": "low", "summary": None}


@pytest.mark.parametrize(
    ("choice", "repeated"),
    [
        (None, "auto"),
        ("none", "none"),
        ({"type": "any"}, "required"),
        ({"type": "auto"}, "auto"),
        ({"type": "function", "name": "ring"}, {"type": "function", "name": "ring"}),
        ({"function": {"name": "ring"}}, {"type": "function", "name": "ring"}),
    ],
)
def test_a_choice_is_repeated_in_openais_form(choice: object, repeated: object) -> None:
    assert begin(tools=[RING], tool_choice=choice)["tool_choice"] == repeated
