from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from engine.rendering import render_foreign, render_own
from tests.engine.scripted_model import TEMPLATE, WEATHER, user

CALL = {"function": {"name": "get_weather", "arguments": {"city": "Köln <1>"}}}
ANSWER = {
    "role": "assistant",
    "content": "So",
    "reasoning_content": "hm",
    "tool_calls": [CALL, CALL],
}
RESULT = {"role": "tool", "content": "sunny & warm"}
TOOLS = [{"type": "function", "function": WEATHER}]


@pytest.mark.parametrize(
    "values",
    [{}, {"tools": TOOLS}, {"enable_thinking": False}, {"template": "x", "chats": 1}],
)
@pytest.mark.parametrize(
    "chat",
    [
        [user("Hi\nyou")],
        [{"role": "system", "content": "Be <brief>."}, user("Hi"), ANSWER, RESULT, RESULT],
        [user("One"), user("Two"), ANSWER, RESULT, user("Three")],
    ],
)
def test_the_mocks_template_renders_as_in_transformers_sandbox(
    chat: list[dict[str, Any]], values: dict[str, Any]
) -> None:
    own = render_own([chat], TEMPLATE, add_generation_prompt=True, **values)
    assert own == render_foreign([chat], TEMPLATE, add_generation_prompt=True, **values)


def test_the_mocks_server_does_not_import_transformers() -> None:
    code = (
        "import sys, mashbox.start; from engine.script_reader import scripted_source;"
        "from engine.config import EngineConfig; from engine.text_side import TextSide;"
        "from engine.scripted import load_scripted;"
        "TextSide.of(load_scripted(EngineConfig(scripted_source(None), ctx=64))[1]);"
        "sys.exit('transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
