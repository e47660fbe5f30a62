"""Int8 on real weights: an answer is the same tokens alone and in whatever company.

Beside other requests, in chunks, with a prompt from the cache and with guessed tokens.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tokenizers import Tokenizer

from engine.catalog import resolve
from engine.choose_forward import wants_int8
from engine.config import EngineConfig
from engine.int8_linear import int8_is_supported
from engine.loader import load_model
from engine.messages import SequenceOutput, Submit
from engine.model_runner import TransformersRunner
from engine.native_library import native_library
from engine.request import SamplingParams
from engine.scheduler import Scheduler

pytestmark = pytest.mark.model

CONFIG = EngineConfig(
    resolve(None),
    ctx=512,
    slots=3,
    device="cpu",
    quant="auto",
    prefill_chunk=16,
    cache_ram=1 << 28,
)
# Whole prompts, nothing in host memory.
ALONE = replace(CONFIG, prefill_chunk=512, cache_ram=0)
SEEDED = SamplingParams(temperature=0.7, top_p=0.95, seed=2**63)
SYSTEM = "<|im_start|>system\nYou are a helpful assistant who quotes and never guesses.<|im_end|>\n"
QUESTIONS = [
    ("Repeat ten times: the red boat lies in the harbour.", SamplingParams()),
    ("What is gravity?", SamplingParams()),
    ("Count: one two three one two three one two three one two", SEEDED),
    ("Write the word water again and again, water water water water", SamplingParams()),
    ("Name three rivers.", SEEDED),
]


class Answers:
    """Runs requests over one runner, each time with a scheduler of its own unless told."""

    def __init__(self) -> None:
        loaded = load_model(CONFIG, lambda done, total: None)
        self.runner = TransformersRunner(loaded.model, CONFIG)
        self.dtype = self.runner.describe(loaded.ready).dtype
        self.tokenizer = Tokenizer.from_str(loaded.ready.tokenizer_json)
        self.outputs: list[SequenceOutput] = []

    def ask(self, text: str, sampling: SamplingParams, name: str) -> Submit:
        turn = f"{SYSTEM}<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
        return Submit(name, tuple(self.tokenizer.encode(turn).ids), 24, sampling)

    def go_on(self, request: Submit, answer: list[int]) -> Submit:
        more = self.tokenizer.encode("<|im_end|>\n<|im_start|>user\nAgain.<|im_end|>\n").ids
        return replace(request, prompt_ids=(*request.prompt_ids, *answer, *more))

    def scheduler(self, config: EngineConfig) -> Scheduler:
        return Scheduler(config, (), self.runner.vocab_size, self.runner, guesses=config is CONFIG)

    def run(self, scheduler: Scheduler, requests: list[Submit]) -> list[list[int]]:
        self.outputs = []
        got: dict[str, list[int]] = {request.request_id: [] for request in requests}
        for request in requests:
            scheduler.submit(request)
        while scheduler.has_work:
            batch = scheduler.schedule(0.0)
            self.outputs += scheduler.take_started()
            self.outputs += scheduler.postprocess(batch, self.runner.run(batch))
        for output in self.outputs:
            got[output.request_id] += output.token_ids
        return list(got.values())

    def alone(self, requests: list[Submit]) -> list[list[int]]:
        return [self.run(self.scheduler(ALONE), [request])[0] for request in requests]


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers()


def test_int8_is_the_default_where_the_native_kernels_run_and_nowhere_else(
    answers: Answers,
) -> None:
    is_int8 = native_library() is not None and int8_is_supported()
    assert wants_int8(CONFIG, torch.device("cpu")) == is_int8
    assert answers.dtype == ("int8" if is_int8 else "float32")


def test_answers_do_not_depend_on_company_chunks_cache_or_guesses(answers: Answers) -> None:
    first = [answers.ask(text, how, str(n)) for n, (text, how) in enumerate(QUESTIONS)]
    expected = answers.alone(first)
    together = answers.scheduler(CONFIG)
    assert answers.run(together, first) == expected
    assert sum(output.accepted_tokens for output in answers.outputs) > 10
    # Five conversations go on in three slots: some of what they said is in host memory by now.
    second = [answers.go_on(*pair) for pair in zip(first, expected, strict=True)]
    got = answers.run(together, second)
    cached = sum(output.cached_tokens for output in answers.outputs)
    assert together.host_cache.nbytes > 0
    assert cached > 0.8 * sum(len(request.prompt_ids) for request in first)
    assert got == answers.alone(second)
