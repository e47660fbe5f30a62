"""Runs chat templates: a model's in transformers' sandbox, the mock's own in a plain one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from jinja2 import Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

Chat = list[dict[str, Any]]


@cache
def foreign_renderer() -> Callable[..., Any]:
    """Import transformers' renderer: half a second, which the mock shall not need."""
    from transformers.utils.chat_template_utils import render_jinja_template

    renderer: Callable[..., Any] = render_jinja_template
    return renderer


def render_foreign(chats: Sequence[Chat], template: str, /, **values: Any) -> str:
    """Render one chat, or none to only compile the template; raises whatever that raises."""
    texts: list[str] = foreign_renderer()(list(chats), chat_template=template, **values)[0]
    return "".join(texts)


def render_own(chats: Sequence[Chat], template: str, /, **values: Any) -> str:
    """Do the same with a template that comes with mashbox; the text is the same."""
    compiled = _compiled(template)
    return "".join(compiled.render(messages=chat, **values) for chat in chats)


@lru_cache(maxsize=2)
def _compiled(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    # Jinja's own escapes HTML.
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(template)
