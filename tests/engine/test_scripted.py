from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineConfig
from engine.constraint import ConstraintCompiler
from engine.errors import ModelError
from engine.events import PartStart
from engine.messages import Submit, ThinkingBudget
from engine.model_format import FORMATS, detect_format
from engine.request import ChatPrompt, SamplingParams, Thinking, Tool, ToolChoice
from engine.response_parser import ResponseParser
from engine.scheduler import Scheduler
from engine.script_reader import scripted_source
from engine.scripted import load_scripted
from engine.tokenizer import Tokenizer
from engine.tool_grammar import build_constraint, control_ids
from tests.engine.scripted_model import WEATHER, config, prompt_ids, spelled, user

HELLO = {"parts": [{"text": "Hello you"}]}


class Model:
    """The runner under the real scheduler."""

    def __init__(self, config: EngineConfig) -> None:
        self.runner, self.ready = load_scripted(config)
        ends, size = self.ready.eos_token_ids, self.runner.vocab_size
        constraints = ConstraintCompiler(self.ready.tokenizer_json, ends, size)
        self.scheduler = Scheduler(config, ends, size, self.runner, constraints)
        self._count = 0
        self._finish: dict[str, str | None] = {}

    def submit(self, ids: tuple[int, ...], max_tokens: int = 100, **held: Any) -> str:
        """Queue a request, `held` to a `constraint` or a `thinking` budget."""
        self._count += 1
        request_id = str(self._count)
        self.scheduler.submit(Submit(request_id, ids, max_tokens, SamplingParams(), **held))
        return request_id

    def run(self) -> dict[str, tuple[str, str | None]]:
        """Run all that was submitted: each request's text and how it finished."""
        return {name: (spelled(ids), self._finish[name]) for name, ids in self.ids().items()}

    def ids(self) -> dict[str, tuple[int, ...]]:
        """Run all that was submitted: each request's ids."""
        ids: dict[str, tuple[int, ...]] = {}
        while self.scheduler.has_work:
            batch = self.scheduler.schedule(0.0)
            for output in self.scheduler.postprocess(batch, self.runner.run(batch)):
                ids[output.request_id] = ids.get(output.request_id, ()) + output.token_ids
                self._finish[output.request_id] = output.finish
        return ids

    def ask(self, *messages: dict[str, Any], max_tokens: int = 100, **options: Any) -> str:
        name = self.submit(prompt_ids(list(messages), **options), max_tokens)
        return self.run()[name][0]


def test_an_answer_ends_by_itself(tmp_path: Path) -> None:
    model = Model(config(tmp_path, HELLO))
    name = model.submit(prompt_ids([user("Hi")]))
    assert model.run()[name] == ("Hello you", "stop")


def test_finish_length_runs_until_the_requests_limit(tmp_path: Path) -> None:
    model = Model(config(tmp_path, {**HELLO, "finish": "length"}))
    name = model.submit(prompt_ids([user("Hi")]), max_tokens=5)
    text, finish = model.run()[name]
    assert (text, finish) == ("Hello youHello youHello", "length")


def test_requests_are_counted_in_order_of_their_turn_and_run_together(tmp_path: Path) -> None:
    answers = ({"parts": [{"text": text}]} for text in ("one", "two two", "three three three"))
    model = Model(config(tmp_path, *answers, slots=2))
    names = [model.submit(prompt_ids([user("Hi")])) for _ in range(4)]
    answered = model.run()
    assert [answered[n][0] for n in names] == ["one", "two two", "three three three", "one"]


def test_a_match_sees_the_prompt(tmp_path: Path) -> None:
    matched = {"match": {"user": "weather", "tools": True}, "parts": [{"text": "matched"}]}
    model = Model(config(tmp_path, HELLO, matched))
    assert model.ask(user("The weather?"), functions=(WEATHER,)) == "matched"
    assert model.ask(user("The weather?")) == "Hello you"


def test_a_match_sees_how_often_the_worker_was_started_again(tmp_path: Path) -> None:
    again = {"match": {"restarts": 1}, "parts": [{"text": "again"}]}
    assert Model(config(tmp_path, HELLO, again, restarts=0)).ask(user("Hi")) == "Hello you"
    assert Model(config(tmp_path, HELLO, again, restarts=1)).ask(user("Hi")) == "again"


def test_a_plain_text_prompt_is_answered_without_thinking(tmp_path: Path) -> None:
    model = Model(config(tmp_path, {"parts": [{"reasoning": "Hm"}, {"text": "Hi"}]}))
    name = model.submit(tuple(Tokenizer(model.ready).encode_text("One two", 100).ids))
    assert model.run()[name][0] == "Hi"


def test_a_prompt_of_several_chunks_is_read_whole(tmp_path: Path) -> None:
    matched = {"match": {"user": "start", "request": 1}, "parts": [{"text": "seen"}]}
    model = Model(config(tmp_path, HELLO, matched, prefill_chunk=16))
    assert model.ask(user("start " + "and so on " * 50)) == "seen"


def test_delays_come_before_the_first_and_between_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    Model(config(tmp_path, {**HELLO, "first_delay_ms": 500, "token_delay_ms": 20})).ask(user("Hi"))
    assert slept == [0.5, 0.02, 0.02]


def test_a_step_fails_where_the_script_says_so(tmp_path: Path) -> None:
    model = Model(config(tmp_path, {**HELLO, "raise_at": 1}))
    model.submit(prompt_ids([user("Hi")]))
    batch = model.scheduler.schedule(0.0)
    model.scheduler.postprocess(batch, model.runner.run(batch))
    with pytest.raises(RuntimeError, match="the script"):
        model.runner.run(model.scheduler.schedule(0.0))


def test_the_process_dies_where_the_script_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    model = Model(config(tmp_path, {**HELLO, "crash_at": 0}))
    assert not killed
    model.submit(prompt_ids([user("Hi")]))
    model.runner.run(model.scheduler.schedule(0.0))
    assert killed == [(os.getpid(), signal.SIGKILL)]


class Stuck(Exception):
    pass


class FakeEvent:
    def wait(self) -> None:
        raise Stuck


def test_a_step_hangs_where_the_script_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "Event", FakeEvent)
    model = Model(config(tmp_path, {**HELLO, "hang_at": 2}))
    with pytest.raises(Stuck):
        model.ask(user("Hi"))


FUNCTION_TIME = {"name": "get_time", "parameters": {"type": "object"}}
DEFAULT = EngineConfig(scripted_source(None), ctx=4096)


def test_the_default_script_calls_a_tool_and_then_answers() -> None:
    model = Model(DEFAULT)
    for asked in ("Hi", "Who is there"):
        greeting = f"<think>\nA greeting will do.\n</think>\n\nHello! You asked: {asked}."
        assert model.ask(user(asked)).startswith(greeting)
    called = model.ask(user("Hi"), functions=(WEATHER,), max_tokens=32)
    assert called.endswith('"arguments": {"city": "Paris"}}\n</tool_call>')
    call = {"role": "assistant", "content": called}
    result = {"role": "tool", "content": "sunny"}
    then = model.ask(user("Hi"), call, result, functions=(WEATHER,), max_tokens=32)
    assert then.endswith("You asked: Hi.")


TIME = Tool("get_time", parameters={"type": "object"})
TOOLS = (TIME, Tool("get_weather", parameters=WEATHER["parameters"]))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("thinking", [True, False])
def test_a_named_tool_is_called_whatever_the_script_prefers(format: str, thinking: bool) -> None:
    model = Model(replace(DEFAULT, tool_format=format))
    family = detect_format(model.ready.chat_template, format)
    choice, thinks = ToolChoice("named", "get_weather"), Thinking(thinking)
    chat = ChatPrompt((), TOOLS, tool_choice=choice, thinking=thinks)
    control = control_ids(model.ready.tokenizer_json, family.markers)
    ids = prompt_ids([user("Hi")], (FUNCTION_TIME, WEATHER), enable_thinking=thinking)
    name = model.submit(ids, 400, constraint=build_constraint(family, chat, False, control))
    text, finish = model.run()[name]
    parser = ResponseParser(family, TOOLS)
    events = [*parser.push(text), *parser.finish()]
    assert finish == "stop"
    starts = [(event.kind, event.name) for event in events if isinstance(event, PartStart)]
    assert starts == [("reasoning", "")] * thinking + [("tool_call", "get_weather")]


def test_a_conversation_only_grows() -> None:
    model = Model(DEFAULT)
    system = {"role": "system", "content": "Be brief."}
    call = {"name": "get_weather", "arguments": {"city": "Paris"}}
    called = {
        "role": "assistant",
        "content": "",
        "reasoning_content": "Use a tool.",
        "tool_calls": [{"function": call}],
    }
    result = {"role": "tool", "content": "sunny"}
    thought = {"role": "assistant", "reasoning_content": "The result is here."}
    answered = {**thought, "content": "The tool has answered. You asked: Hi."}
    turns: list[list[dict[str, Any]]] = [
        [system, user("Hi")],
        [called, result],
        [answered, user("More")],
    ]
    messages: list[dict[str, Any]] = []
    before: tuple[int, ...] = ()
    for turn in turns:
        messages += turn
        prompt = prompt_ids(messages, (WEATHER,))
        assert prompt[: len(before)] == before
        name = model.submit(prompt)
        before = prompt + model.ids()[name]


def test_a_thinking_budget_cuts_the_thinking_and_the_answer_follows(tmp_path: Path) -> None:
    parts = [{"reasoning": "on and on ", "tokens": 50}, {"text": "Hello"}]
    model = Model(config(tmp_path, {"parts": parts}))
    budget = ThinkingBudget(10, "<think>", "</think>")
    name = model.submit(prompt_ids([user("Hi")]), thinking=budget)
    text, _ = model.run()[name]
    assert text.endswith("</think>\n\nHello")
    assert len(text) < 80


def test_a_wrong_script_is_refused_before_any_worker_starts(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text("[]")
    with pytest.raises(ModelError):
        scripted_source(tmp_path / "script.json")


def test_it_needs_no_torch() -> None:
    code = (
        "import sys; from engine.scripted import *; from engine.script_reader import *;"
        "load_scripted(EngineConfig(scripted_source(None), ctx=64));"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
