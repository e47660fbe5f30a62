"""transformers' own `generate` is the oracle: greedy answers must equal its answers."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from tokenizers import Tokenizer

from engine.catalog import resolve
from engine.config import EngineConfig
from engine.forward import LeanForward
from engine.loader import load_model
from engine.messages import Submit
from engine.model_runner import TransformersRunner
from engine.request import SamplingParams
from engine.scheduler import Scheduler

pytestmark = pytest.mark.model

TEXTS = [
    "The capital of France is",
    "def fibonacci(n):\n",
    "Once upon a time, in a small village by the sea, there lived",
    "1 2 3 4 5 6 7",
    "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n",
    "Water boils at " * 20,
    "The",
    "Dear Sir or Madam,\n\nI am writing to",
]
LENGTHS = [24, 16, 32, 8, 24, 12, 20, 16]

Answers = dict[str, list[int]]


@cache
def config() -> EngineConfig:
    return EngineConfig(resolve(None), ctx=512, slots=4, device="cpu", prefill_chunk=32)


@pytest.fixture(scope="module")
def requests_and_expected() -> tuple[list[Submit], Answers]:
    loaded = load_model(config(), lambda done, total: None)
    tokenizer = Tokenizer.from_str(loaded.ready.tokenizer_json)
    requests, expected = [], {}
    for i, (text, length) in enumerate(zip(TEXTS, LENGTHS, strict=True)):
        prompt = tokenizer.encode(text).ids
        requests.append(Submit(str(i), tuple(prompt), length, SamplingParams()))
        expected[str(i)] = generate(loaded.model, prompt, length)
    return requests, expected


@pytest.fixture(scope="module")
def runner() -> TransformersRunner:
    return TransformersRunner(load_model(config(), lambda done, total: None).model, config())


def generate(model: torch.nn.Module, prompt: list[int], length: int) -> list[int]:
    ids = torch.tensor([prompt])
    output = model.generate(  # type: ignore[operator]
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=length,
        min_new_tokens=length,
        eos_token_id=None,
        pad_token_id=0,
    )
    answer: list[int] = output[0, len(prompt) :].tolist()
    return answer


def run(runner: TransformersRunner, requests: list[Submit]) -> Answers:
    scheduler = Scheduler(config(), (), runner.vocab_size, runner)
    answers: Answers = {request.request_id: [] for request in requests}
    for request in requests:
        scheduler.submit(request)
    while scheduler.has_work:
        batch = scheduler.schedule(0.0)
        for output in scheduler.postprocess(batch, runner.run(batch)):
            answers[output.request_id] += output.token_ids
    return answers


def test_smollm2_takes_the_lean_path(runner: TransformersRunner) -> None:
    assert isinstance(runner.forward, LeanForward)


def test_greedy_answers_alone_equal_generate(
    runner: TransformersRunner, requests_and_expected: tuple[list[Submit], Answers]
) -> None:
    requests, expected = requests_and_expected
    for request in requests:
        answer = run(runner, [request])
        assert answer == {request.request_id: expected[request.request_id]}


def test_greedy_answers_of_eight_mixed_requests_equal_generate(
    runner: TransformersRunner, requests_and_expected: tuple[list[Submit], Answers]
) -> None:
    requests, expected = requests_and_expected
    assert run(runner, requests) == expected


def test_seeded_text_is_the_same_alone_and_among_others(
    runner: TransformersRunner, requests_and_expected: tuple[list[Submit], Answers]
) -> None:
    requests, _ = requests_and_expected
    sampling = SamplingParams(temperature=0.8, top_p=0.95, seed=2**64 - 1)
    seeded = [Submit(r.request_id, r.prompt_ids, r.max_tokens, sampling) for r in requests]
    together = run(runner, seeded)
    assert {k: v for r in seeded for k, v in run(runner, [r]).items()} == together
