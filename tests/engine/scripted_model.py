"""The scripted model's own tokenizer and template, for tests of what it reads and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers
from transformers.utils.chat_template_utils import render_jinja_template

from engine.config import EngineConfig, ModelSource
from engine.scripted_tokenizer import tokenizer_json

TOKENIZER = tokenizers.Tokenizer.from_str(tokenizer_json())
TEMPLATE = (Path(__file__).parents[2] / "engine" / "scripted.jinja").read_text("utf-8")

WEATHER = {
    "name": "get_weather",
    "description": "The weather of a <place>",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def prompt_ids(
    messages: list[dict[str, Any]], functions: tuple[dict[str, Any], ...] = (), **kwargs: Any
) -> tuple[int, ...]:
    """Render a chat that the model shall answer."""
    tools = [{"type": "function", "function": function} for function in functions] or None
    rendered = render_jinja_template(
        [messages], tools=tools, chat_template=TEMPLATE, add_generation_prompt=True, **kwargs
    )[0][0]
    return tuple(TOKENIZER.encode(rendered).ids)


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def spelled(ids: Any) -> str:
    """The text of ids, control tokens too."""
    text: str = TOKENIZER.decode(list(ids), skip_special_tokens=False)
    return text


def config(folder: Path, *answers: dict[str, Any], **fields: Any) -> EngineConfig:
    """An engine's settings with a script file of `answers`."""
    path = folder / "script.json"
    path.write_text(json.dumps({"answers": answers}))
    return EngineConfig(ModelSource("mock", path, scripted=True), ctx=4096, **fields)
