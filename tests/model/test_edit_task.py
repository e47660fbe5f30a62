"""Guessed tokens with the built-in model: an edit takes few steps, its text is the same."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer

from engine.catalog import resolve
from engine.config import EngineConfig
from engine.loader import load_model
from engine.messages import SequenceOutput, Submit
from engine.model_runner import TransformersRunner
from engine.request import SamplingParams
from engine.scheduler import Scheduler
from tests.model.test_greedy_equals_generate import generate

pytestmark = pytest.mark.model

TEXT = (
    "The harbour town of Velm lies on a narrow bay, and 812 people live there. They live from "
    "fishing, from the salt works, and from visitors who come in summer. The ferry Aurora sails to "
    "the 7 islands every morning and comes back at night. The lighthouse was built of grey stone "
    "and is 96 feet high."
)
REQUEST = f"Repeat this text exactly, word for word, and add nothing:\n\n{TEXT}"
CHAT = f"<|im_start|>user\n{REQUEST}<|im_end|>\n<|im_start|>assistant\n"
LENGTH = 70


def steps(
    runner: TransformersRunner, config: EngineConfig, request: Submit
) -> list[SequenceOutput]:
    scheduler = Scheduler(config, (), runner.vocab_size, runner, guesses=True)
    scheduler.submit(request)
    outputs: list[SequenceOutput] = []
    while scheduler.has_work:
        batch = scheduler.schedule(0.0)
        outputs += scheduler.postprocess(batch, runner.run(batch))
    return outputs


def test_edit_is_that_of_generate_in_a_fraction_of_the_steps() -> None:
    config = EngineConfig(resolve(None), ctx=512, slots=2, device="cpu", dtype="float32")
    loaded = load_model(config, lambda done, total: None)
    prompt = Tokenizer.from_str(loaded.ready.tokenizer_json).encode(CHAT).ids
    expected = generate(loaded.model, prompt, LENGTH)
    runner = TransformersRunner(loaded.model, config)
    outputs = steps(runner, config, Submit("a", tuple(prompt), LENGTH, SamplingParams()))
    assert [token_id for output in outputs for token_id in output.token_ids] == expected
    assert len(outputs) < LENGTH / 3
