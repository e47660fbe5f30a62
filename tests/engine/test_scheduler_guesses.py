"""Guessed tokens as the scheduler takes them: right ones count, wrong ones leave nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from engine.batch import Batch, DecodeRow
from engine.messages import SequenceOutput, Submit
from engine.request import SamplingParams
from engine.scheduler import Scheduler
from tests.engine.scheduling import EOS, CountingRunner, run_all, scheduler


class EchoRunner(CountingRunner):
    """Answers `script` over and over, also after each guess."""

    def run(self, batch: Batch) -> list[int]:
        self.batches.append(batch)
        ids = []
        for sequence, guess in batch.guesses:
            script, done = self.script[sequence.request_id], len(sequence.answer_ids)
            ids += [script[(done + i) % len(script)] for i in range(1 + len(guess))]
        return ids


def guessing(ctx: int = 64) -> Scheduler:
    return scheduler(guesses=True, ctx=ctx, prefill_chunk=64)


def echo(prompt: list[int], max_tokens: int, **fields: Any) -> Submit:
    return Submit("a", tuple(prompt), max_tokens, SamplingParams(**fields))


def test_guesses_that_are_right_give_several_tokens_a_step() -> None:
    s, runner = guessing(), EchoRunner({"a": [1, 2, 3, 4, 5, 6]})
    s.submit(echo([1, 2, 3, 4, 5, 6], 30))
    outputs = run_all(s, runner)["a"]
    assert [o.token_ids for o in outputs[:4]] == [
        (1,),
        (2,),
        (3, 4, 5, 6, 1),
        (2, 3, 4, 5, 6, 1, 2),
    ]
    assert [i for o in outputs for i in o.token_ids] == ([1, 2, 3, 4, 5, 6] * 5)
    assert [(o.draft_tokens, o.accepted_tokens) for o in outputs[:4]] == [
        (0, 0),
        (0, 0),
        (4, 4),
        (6, 6),
    ]
    assert outputs[-1].finish == "length" and outputs[-1].completion_tokens == 30
    assert [b.tokens for b in runner.batches[:4]] == [6, 1, 5, 7]


def test_what_follows_a_wrong_guess_is_dropped_and_computed_anew() -> None:
    s, runner = guessing(), EchoRunner({"a": [1, 2, 3, 7, 8, 9]})
    s.submit(echo([1, 2, 3, 4, 5, 6], 12))
    outputs = run_all(s, runner)["a"]
    assert [o.token_ids for o in outputs[:4]] == [(1,), (2,), (3, 7), (8,)]
    assert (outputs[2].draft_tokens, outputs[2].accepted_tokens) == (4, 1)
    assert runner.batches[3].decode[0].position == 9
    assert s.slots[0].token_ids == [1, 2, 3, 4, 5, 6, *[1, 2, 3, 7, 8, 9] * 2][:-1]


def test_an_end_id_among_right_guesses_ends_the_answer() -> None:
    s, runner = guessing(), EchoRunner({"a": [1, 2, 3, EOS, 5]})
    s.submit(echo([1, 2, 3, EOS, 5, 6], 20))
    outputs = run_all(s, runner)["a"]
    assert outputs[-1] == SequenceOutput("a", (3,), 4, "stop", draft_tokens=4, accepted_tokens=2)
    assert s.slots[0].token_ids == [1, 2, 3, EOS, 5, 6, 1, 2, 3]


def test_no_more_is_guessed_than_the_answer_may_have() -> None:
    s, runner = guessing(ctx=10), EchoRunner({"a": [1, 2, 3, 4, 5]})
    s.submit(echo([1, 2, 3, 4, 5], 5))
    outputs = run_all(s, runner)["a"]
    assert [o.token_ids for o in outputs] == [(1,), (2,), (3, 4, 5)]
    assert outputs[-1].finish == "length"
    assert max(row.position + len(row.guess) for b in runner.batches for row in b.decode) < 10


@pytest.mark.parametrize("field", ["repetition_penalty", "frequency_penalty", "presence_penalty"])
def test_nothing_is_guessed_where_penalties_change_with_each_token(field: str) -> None:
    s, runner = guessing(), EchoRunner({"a": [1, 2, 3]})
    s.submit(echo([1, 2, 3], 12, **{field: 0.5}))
    assert {len(o.token_ids) for o in run_all(s, runner)["a"]} == {1}


def test_a_step_without_memory_is_run_again_without_guesses_first() -> None:
    s, runner = guessing(), EchoRunner({"a": [1, 2, 3]})
    s.submit(echo([1, 2, 3], 30))
    while not (batch := s.schedule(0.0)).decode or not batch.decode[0].guess:
        s.postprocess(batch, runner.run(batch))
    assert s.shrink(batch)
    again = s.schedule(0.0)
    assert again.decode == (DecodeRow(again.sequences[0], 0, batch.decode[0].position),)
    assert not s.shrink(again)
