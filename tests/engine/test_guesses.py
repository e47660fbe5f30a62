"""Guessed tokens over real runners: the text is what it would be without them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.config import EngineConfig, ModelSource
from engine.messages import SequenceOutput, Submit
from engine.model_runner import TransformersRunner
from engine.request import SamplingParams
from engine.scheduler import Scheduler
from tests.engine.tiny_models import VOCAB, tiny_model

CONFIG = EngineConfig(ModelSource("tiny", Path("tiny")), ctx=96, slots=3, prefill_chunk=16)


def answers(
    runner: TransformersRunner, requests: list[Submit], guesses: bool
) -> tuple[dict[str, list[int]], list[SequenceOutput]]:
    scheduler = Scheduler(CONFIG, (3,), VOCAB, runner, guesses=guesses)
    got: dict[str, list[int]] = {request.request_id: [] for request in requests}
    outputs: list[SequenceOutput] = []
    for request in requests:
        scheduler.submit(request)
    while scheduler.has_work:
        batch = scheduler.schedule(0.0)
        for output in scheduler.postprocess(batch, runner.run(batch)):
            outputs.append(output)
            got[output.request_id] += output.token_ids
    return got, outputs


def repetitive(sampling: SamplingParams, count: int = 14, seed: int = 7) -> list[Submit]:
    """Prompts of few words, so that the tiny models' noise meets guesses, to the slot's end."""
    rnd = random.Random(seed)
    requests = []
    for n in range(count):
        words = [rnd.randrange(1, VOCAB) for _ in range(rnd.randint(2, 5))]
        prompt = [rnd.choice(words) for _ in range(rnd.randint(3, 40))]
        room = CONFIG.ctx - len(prompt)
        length = room if n % 3 == 0 else rnd.randint(1, room)
        requests.append(Submit(str(n), tuple(prompt), length, sampling))
    return requests


SAMPLINGS = {
    "greedy": SamplingParams(),
    "seeded": SamplingParams(temperature=0.7, top_k=3, seed=2**63),
    "penalised": SamplingParams(frequency_penalty=0.05),
}


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3", "gpt2"])
def test_text_is_the_same_with_and_without_guesses(name: str, sampling: str) -> None:
    runner = TransformersRunner(tiny_model(name), CONFIG)
    assert runner.checks_guesses
    requests = repetitive(SAMPLINGS[sampling])
    expected, plain = answers(runner, requests, guesses=False)
    got, outputs = answers(runner, requests, guesses=True)
    assert got == expected
    assert not any(output.draft_tokens for output in plain)
    accepted = sum(output.accepted_tokens for output in outputs)
    drafted = sum(output.draft_tokens for output in outputs)
    if sampling == "penalised":
        assert drafted == 0
    else:
        assert 0 < accepted < drafted
        assert len(outputs) == len(plain) - sum(
            len(o.token_ids) + (o.finish == "stop") - 1 for o in outputs
        )


def test_models_that_cannot_drop_tokens_have_nothing_guessed() -> None:
    assert not TransformersRunner(tiny_model("mamba"), CONFIG).checks_guesses
