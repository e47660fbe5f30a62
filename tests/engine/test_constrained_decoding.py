"""Constraint, scheduler, runner and sampler together, over a random model."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from engine.config import EngineConfig, ModelSource
from engine.constraint import ConstraintCompiler
from engine.messages import Constraint, Submit, ThinkingBudget
from engine.model_format import detect_format
from engine.model_runner import TransformersRunner
from engine.request import ChatPrompt, SamplingParams, Tool, ToolChoice
from engine.scheduler import Scheduler
from engine.tool_grammar import build_constraint
from tests.engine.constrained import EOS, vocabulary
from tests.engine.tiny_models import tiny_model

TOKENIZER = vocabulary("hermes", None)
# More ids than the tokenizer has, and no multiple of 32.
VOCAB = TOKENIZER.get_vocab_size() + 14
CONFIG = EngineConfig(ModelSource("tiny", Path("tiny")), ctx=256, slots=8, prefill_chunk=16)
SCHEMA = {
    "type": "object",
    "properties": {
        "on": {"type": "boolean"},
        "level": {"enum": ["low", "high"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["on", "level", "count"],
}
TOOLS = (Tool("set", "", SCHEMA), Tool("now", "", {"type": "object", "properties": {}}))
PROMPT = tuple(TOKENIZER.encode("hello world").ids)


@cache
def runner() -> TransformersRunner:
    return TransformersRunner(tiny_model("llama", VOCAB), CONFIG)


def constraint(mode: str) -> Constraint:
    choice = ToolChoice("auto" if mode == "auto" else "required")
    prompt = ChatPrompt((), TOOLS, choice, parallel_tool_calls=False)
    built = build_constraint(detect_format(None), prompt, False, {})
    assert built is not None
    return built


def answers(requests: list[Submit]) -> dict[str, str]:
    compiler = ConstraintCompiler(TOKENIZER.to_str(), (EOS,), VOCAB)
    scheduler = Scheduler(CONFIG, (EOS,), VOCAB, runner(), compiler)
    ids: dict[str, list[int]] = {request.request_id: [] for request in requests}
    for request in requests:
        scheduler.submit(request)
    while scheduler.has_work:
        batch = scheduler.schedule(0.0)
        for output in scheduler.postprocess(batch, runner().run(batch)):
            ids[output.request_id] += output.token_ids
    return {key: TOKENIZER.decode(found, skip_special_tokens=False) for key, found in ids.items()}


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_required_calls_are_valid_and_batch_mates_are_untouched(temperature: float) -> None:
    mates = [Submit(f"mate {n}", PROMPT[: n + 1], 60, SamplingParams()) for n in range(7)]
    sampling = SamplingParams(temperature=temperature, seed=11)
    held = Submit("held", PROMPT, 200, sampling, constraint("required"))
    together = answers([*mates, held])
    for mate in mates:
        assert together[mate.request_id] == answers([mate])[mate.request_id]
    text = together["held"]
    assert text.startswith('<tool_call>\n{"name": "')
    assert text.endswith("}\n</tool_call>")
    call = json.loads(text.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"))
    if call["name"] == "set":
        assert list(call["arguments"]) == ["on", "level", "count"]
    assert answers([held])["held"] == text


def test_the_same_seed_gives_the_same_text_whatever_it_is_held_to() -> None:
    sampling = SamplingParams(temperature=1.0, seed=4)
    anything = Constraint("start: /(?s:.*)/\n")
    free, held = (Submit("a", PROMPT, 40, sampling, c) for c in (None, anything))
    assert answers([free]) != answers([Submit("a", PROMPT, 40, SamplingParams())])
    text = answers([free])["a"]
    # Up to the first special token or broken character, which no text may have.
    common = text.split("�")[0].split("<")[0]
    assert answers([held])["a"].startswith(common)


def test_a_call_that_begins_in_auto_is_held_to_its_schema() -> None:
    # The budget is what makes the random model write the trigger.
    trigger = ThinkingBudget(3, None, "<tool_call>")
    for seed in range(5):
        sampling = SamplingParams(temperature=1.5, seed=seed)
        request = Submit("a", PROMPT, 200, sampling, constraint("auto"), trigger)
        before, _, call = answers([request])["a"].partition("<tool_call>")
        assert before
        json.loads(call.removesuffix("</tool_call>"))


def test_a_grammar_that_fails_loses_no_answer() -> None:
    bad = Submit("bad", PROMPT, 5, SamplingParams(), Constraint("start: nothing\n"))
    good = Submit("good", PROMPT, 5, SamplingParams())
    together = answers([bad, good])
    assert together["bad"] == together["good"] != ""
