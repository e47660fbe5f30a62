"""The smallest model calls tools rightly where it has to."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
import pytest
from tokenizers import Tokenizer

from engine.catalog import resolve
from engine.config import EngineConfig
from engine.constraint import ConstraintCompiler
from engine.events import PartDelta, PartStart
from engine.loader import LoadedModel, load_model
from engine.messages import Constraint, Submit, ThinkingBudget
from engine.model_format import detect_format
from engine.model_runner import TransformersRunner, use_threads
from engine.request import ChatPrompt, SamplingParams, Tool, ToolChoice
from engine.response_parser import ResponseParser
from engine.scheduler import Scheduler
from engine.tool_grammar import build_constraint
from tests.engine.tool_schemas import SCHEMAS

pytestmark = pytest.mark.model

HERMES = detect_format(None)
CONFIG = EngineConfig(resolve(None), ctx=512, slots=8, device="cpu", prefill_chunk=64)
MATES = ["The capital of France is", "1 2 3 4", "Once upon a time", "def f(x):", "Dear", "A", "Why"]


@cache
def loaded() -> tuple[LoadedModel, TransformersRunner, Tokenizer, ConstraintCompiler]:
    use_threads(1)
    model = load_model(CONFIG, lambda done, total: None)
    runner = TransformersRunner(model.model, CONFIG)
    tokenizer = Tokenizer.from_str(model.ready.tokenizer_json)
    ends = model.ready.eos_token_ids
    return (
        model,
        runner,
        tokenizer,
        ConstraintCompiler(model.ready.tokenizer_json, ends, runner.vocab_size),
    )


def run(requests: list[Submit]) -> dict[str, str]:
    model, runner, tokenizer, compiler = loaded()
    scheduler = Scheduler(CONFIG, model.ready.eos_token_ids, runner.vocab_size, runner, compiler)
    ids: dict[str, list[int]] = {request.request_id: [] for request in requests}
    for request in requests:
        scheduler.submit(request)
    while scheduler.has_work:
        batch = scheduler.schedule(0.0)
        for output in scheduler.postprocess(batch, runner.run(batch)):
            ids[output.request_id] += output.token_ids
    return {key: tokenizer.decode(found) for key, found in ids.items()}


def submit(
    name: str,
    text: str,
    length: int,
    temperature: float = 0.0,
    constraint: Constraint | None = None,
    thinking: ThinkingBudget | None = None,
) -> Submit:
    asked = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    ids = tuple(loaded()[2].encode(asked).ids)
    sampling = SamplingParams(temperature=temperature, seed=5)
    return Submit(name, ids, length, sampling, constraint, thinking)


def constraint(tools: tuple[Tool, ...], choice: ToolChoice) -> Constraint:
    prompt = ChatPrompt((), tools, choice, parallel_tool_calls=False)
    built = build_constraint(HERMES, prompt, False, {})
    assert built is not None
    return built


def calls(text: str, tools: tuple[Tool, ...]) -> tuple[list[Any], str]:
    """The calls and the rest of an answer."""
    parser = ResponseParser(HERMES, tools)
    events = [*parser.push(text), *parser.finish()]
    assert not parser.broken, text
    starts = {e.index: e for e in events if isinstance(e, PartStart)}
    texts = dict.fromkeys(starts, "")
    for event in events:
        if isinstance(event, PartDelta):
            texts[event.index] += event.text
    found = [(s.name, json.loads(texts[i])) for i, s in starts.items() if s.kind == "tool_call"]
    return found, "".join(texts[i] for i, s in starts.items() if s.kind != "tool_call")


def bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with short strings and flat trees: so small a model ends none by itself."""
    text = json.dumps(schema).replace('{"type": "string"}', '{"type": "string", "maxLength": 12}')
    text = text.replace('"maxItems": 1}', '"maxItems": 0}')
    found: dict[str, Any] = json.loads(text.replace("(?!x)", ""))
    return found


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_required_and_named_calls_are_valid_for_every_schema(temperature: float) -> None:
    schemas = {f"tool_{n}": bounded(schema) for n, schema in enumerate(SCHEMAS.values())}
    tools = tuple(Tool(name, "", schema) for name, schema in schemas.items())
    named = [
        submit(t.name, f"Call {t.name}.", 150, temperature,
               constraint(tools, ToolChoice("named", t.name)))
        for t in tools
    ]  # fmt: skip
    required = submit(
        "any", "What now?", 150, temperature, constraint(tools, ToolChoice("required"))
    )
    for asked, text in run([*named, required]).items():
        ((name, arguments),), rest = calls(text, tools)
        assert rest == ""
        assert asked in (name, "any")
        jsonschema.Draft202012Validator(schemas[name]).validate(arguments)


def test_seven_free_batch_mates_answer_as_they_do_alone() -> None:
    tools = (Tool("get_weather", "", SCHEMAS["plain"]),)
    held = submit("held", "Rain?", 60, 0.0, constraint(tools, ToolChoice("required")))
    mates = [submit(text, text, 24) for text in MATES]
    together = run([*mates, held])
    for mate in mates:
        assert run([mate])[mate.request_id] == together[mate.request_id]
    assert calls(together["held"], tools)[0][0][0] == "get_weather"


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_call_that_has_begun_in_auto_follows_its_schema(temperature: float) -> None:
    tools = (Tool("set_level", "", SCHEMAS["old definitions"]),)
    # What ends the thinking is put in as it is: here it begins a call.
    begin = ThinkingBudget(4, None, "<tool_call>")
    auto = constraint(tools, ToolChoice())
    text = run([submit("a", "How loud?", 80, temperature, auto, begin)])["a"]
    ((name, arguments),), rest = calls(text, tools)
    assert rest
    assert name == "set_level"
    jsonschema.Draft202012Validator(SCHEMAS["old definitions"]).validate(arguments)


def test_budget_closes_the_thinking_and_the_answer_goes_on() -> None:
    budget = ThinkingBudget(10, None, "</think>")
    thought, close, answer = run([submit("a", "Why?", 40, 0.8, None, budget)])["a"].partition(
        "</think>"
    )
    assert close
    assert len(loaded()[2].encode(thought).ids) <= 11
    assert answer
