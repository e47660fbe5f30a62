"""Messages bodies in few words, and what is read from them."""

from __future__ import annotations

import json
from typing import Any

from engine.request import ChatPrompt, GenerationRequest, Message, Tool
from generated.models import MessagesRequest
from handlers.body import parse_body
from handlers.messages import read_messages_request

Json = dict[str, Any]
HI: Json = {"role": "user", "content": "Hi"}
RING: Json = {"name": "ring", "description": "Ring.", "input_schema": {"type": "object"}}
RING_TOOL = Tool("ring", "Ring.", {"type": "object"})


def parse(**fields: object) -> MessagesRequest:
    body = parse_body(MessagesRequest, json.dumps({"messages": [HI]} | fields).encode())
    assert isinstance(body, MessagesRequest)
    return body


def read(**fields: object) -> GenerationRequest:
    return read_messages_request(parse(**fields), "msg_1")


def prompt_of(**fields: object) -> ChatPrompt:
    prompt = read(**fields).prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


def conversation(*messages: Json, **fields: object) -> tuple[Message, ...]:
    return prompt_of(messages=messages, **fields).messages


def text(text: str) -> Json:
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": blocks}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": blocks}


def use(id: str, **input: object) -> Json:
    return {"type": "tool_use", "id": id, "name": "ring", "input": input}


def result(id: str, *content: object, **fields: object) -> Json:
    with_content = {"content": content[0]} if content else {}
    return {"type": "tool_result", "tool_use_id": id, **with_content, **fields}
