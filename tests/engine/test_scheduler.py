from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.batch import Batch
from engine.config import EngineConfig, ModelSource
from engine.constraint import ConstraintCompiler, ConstraintState
from engine.errors import EngineError
from engine.messages import Constraint, SequenceOutput, Submit, ThinkingBudget
from engine.request import SamplingParams
from engine.scheduler import Scheduler
from tests.engine.scheduling import (
    EOS,
    VOCAB,
    CountingRunner,
    run_all,
    scheduler,
    shape,
    step,
    submit,
)
from tests.engine.slot_stores import NoStore


def test_new_scheduler_has_no_work_and_an_empty_batch() -> None:
    s = scheduler()
    assert not s.has_work
    assert s.schedule(0.0) == Batch(None, ())


def test_one_request_is_prefilled_then_decoded_to_its_length() -> None:
    s, runner = scheduler(), CountingRunner()
    s.submit(submit("a", prompt=3, max_tokens=3))
    outputs = run_all(s, runner)["a"]
    assert [o.token_ids for o in outputs] == [(1,), (2,), (3,)]
    assert [o.completion_tokens for o in outputs] == [1, 2, 3]
    assert [o.finish for o in outputs] == [None, None, "length"]
    assert [shape(b) for b in runner.batches] == [("a[0:3]", []), (None, ["a"]), (None, ["a"])]
    assert [row.position for b in runner.batches for row in b.decode] == [3, 4]


def test_end_id_stops_is_not_sent_but_counts() -> None:
    s = scheduler()
    s.submit(submit("a"))
    outputs = run_all(s, CountingRunner({"a": [7, EOS]}))["a"]
    assert outputs[-1] == SequenceOutput("a", (), 2, "stop")


def test_end_id_as_first_token_gives_one_empty_output() -> None:
    s = scheduler()
    s.submit(submit("a"))
    assert step(s, CountingRunner({"a": [EOS]})) == (SequenceOutput("a", (), 1, "stop"),)
    assert not s.has_work


def test_long_prompt_is_cut_in_chunks_while_running_answers_move() -> None:
    s, runner = scheduler(), CountingRunner()
    s.submit(submit("a", prompt=2, max_tokens=10))
    step(s, runner)
    s.submit(submit("b", prompt=9))
    for _ in range(4):
        step(s, runner)
    assert [shape(b) for b in runner.batches[1:]] == [
        ("b[0:4]", ["a"]),
        ("b[4:8]", ["a"]),
        ("b[8:9]", ["a"]),
        (None, ["a", "b"]),
    ]


def test_chunks_beside_a_running_answer_are_as_small_as_its_pace_needs() -> None:
    s, runner = scheduler(ctx=512, prefill_chunk=64), CountingRunner()
    s.submit(submit("a", prompt=90, max_tokens=40))
    for seconds in (0.064, 0.026, 0.020):
        batch = s.schedule(0.0)
        s.postprocess(batch, runner.run(batch))
        s.took(batch, seconds)
    s.submit(submit("b", prompt=90))
    step(s, runner)
    assert [shape(b) for b in runner.batches] == [
        ("a[0:64]", []),
        ("a[64:90]", []),
        (None, ["a"]),
        ("b[0:40]", ["a"]),
    ]


def test_chunks_are_larger_while_further_prompts_wait_for_free_slots() -> None:
    s, runner = scheduler(ctx=512, slots=4, prefill_chunk=256), CountingRunner()
    s.submit(submit("a", prompt=90, max_tokens=40))
    for seconds in (0.090, 0.015):
        batch = s.schedule(0.0)
        s.postprocess(batch, runner.run(batch))
        s.took(batch, seconds)
    # Two slots are free for the five behind it: three times the 28 tokens beside one prompt.
    s.submit(replace(submit("b", prompt=90), behind=5))
    step(s, runner)
    assert shape(runner.batches[-1]) == ("b[0:88]", ["a"])


def test_prompts_are_prefilled_one_at_a_time_in_order_of_arrival() -> None:
    s, runner = scheduler(slots=3), CountingRunner()
    for name in "abc":
        s.submit(submit(name, prompt=5))
    for _ in range(6):
        step(s, runner)
    names = [shape(b)[0] for b in runner.batches]
    assert names == ["a[0:4]", "a[4:5]", "b[0:4]", "b[4:5]", "c[0:4]", "c[4:5]"]


def test_a_request_is_reported_once_when_its_own_prefill_begins() -> None:
    s, runner = scheduler(slots=3), CountingRunner()
    for name in "ab":
        s.submit(submit(name, prompt=5))
    started = []
    for now in range(5):
        batch = s.schedule(float(now))
        started.append(s.take_started())
        s.postprocess(batch, runner.run(batch))
    a, b = (SequenceOutput(name, (), 0, started_at=at) for name, at in (("a", 0.0), ("b", 2.0)))
    assert started == [(a,), (), (b,), (), ()]
    assert s.take_started() == ()


def test_request_joins_at_the_next_step_after_a_slot_is_free() -> None:
    s, runner = scheduler(slots=1), CountingRunner()
    s.submit(submit("a", max_tokens=2))
    s.submit(submit("b", max_tokens=1))
    assert [o.request_id for o in step(s, runner)] == ["a"]
    assert step(s, runner)[0].finish == "length"
    assert step(s, runner) == (SequenceOutput("b", (1,), 1, "length"),)


def test_slot_keeps_its_tokens_after_the_finish_until_it_is_taken_again() -> None:
    s, runner = scheduler(slots=1), CountingRunner()
    s.submit(submit("a", prompt=3, max_tokens=3))
    run_all(s, runner)
    # The last sampled id was never computed, so it is not in the slot.
    assert s.slots[0].token_ids == [1, 2, 3, 1, 2]
    s.submit(submit("b", prompt=2))
    step(s, runner)
    assert s.slots[0].token_ids == [1, 2]


def test_lowest_free_slot_is_taken() -> None:
    s, runner = scheduler(slots=3), CountingRunner()
    for name in "abc":
        s.submit(submit(name, max_tokens=9))
        step(s, runner)
    s.cancel("b")
    s.cancel("a")
    s.submit(submit("d"))
    step(s, runner)
    assert [slot.sequence and slot.sequence.request_id for slot in s.slots] == ["d", None, "c"]


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_cancel_in_any_state_frees_the_slot_and_ends_the_output(steps: int) -> None:
    s, runner = scheduler(slots=1), CountingRunner()
    s.submit(submit("a", prompt=9, max_tokens=9))
    for _ in range(steps):
        step(s, runner)
    s.cancel("a")
    assert not s.has_work
    s.submit(submit("b", prompt=2, max_tokens=1))
    assert step(s, runner) == (SequenceOutput("b", (1,), 1, "length"),)


def test_cancelled_waiting_request_never_runs_and_unknown_ids_are_ignored() -> None:
    s, runner = scheduler(slots=1), CountingRunner()
    for name in "abc":
        s.submit(submit(name, max_tokens=1))
    s.cancel("b")
    s.cancel("nobody")
    assert list(run_all(s, runner)) == ["a", "c"]


def test_what_a_failed_step_left_in_its_slot_is_not_used_again() -> None:
    s, runner = scheduler(), CountingRunner()
    s.submit(submit("a"))
    step(s, runner)
    s.fail(["a"])
    assert [slot.token_ids for slot in s.slots] == [[], []]
    assert not s.has_work


def test_many_requests_over_few_slots_all_finish_once() -> None:
    s, runner = scheduler(slots=2), CountingRunner()
    for i in range(9):
        s.submit(submit(str(i), prompt=1 + i, max_tokens=1 + i % 4))
    outputs = run_all(s, runner)
    for i in range(9):
        answer = [t for o in outputs[str(i)] for t in o.token_ids]
        assert answer == list(range(1, 2 + i % 4))
        assert [o.finish for o in outputs[str(i)] if o.finish] == ["length"]
    assert all(len(b.decode) <= 2 for b in runner.batches)


def running(slots: int) -> tuple[Scheduler, CountingRunner]:
    """A scheduler whose slots are all in decode."""
    s, runner = scheduler(slots=slots), CountingRunner()
    for i in range(slots):
        s.submit(submit(str(i), max_tokens=40))
        step(s, runner)
    return s, runner


def test_after_a_shrink_the_rows_take_turns() -> None:
    s, runner = running(slots=5)
    assert s.shrink(s.schedule(0.0))
    before = len(runner.batches)
    for _ in range(5):
        step(s, runner)
    decoded = [shape(batch)[1] for batch in runner.batches[before:]]
    assert [len(rows) for rows in decoded] == [2, 2, 2, 2, 2]
    assert sorted(name for rows in decoded for name in rows) == sorted("01234" * 2)


def test_after_a_shrink_prompts_go_in_smaller_chunks() -> None:
    s, runner = scheduler(prefill_chunk=40), CountingRunner()
    s.submit(submit("a", prompt=50))
    assert s.shrink(s.schedule(0.0))
    for _ in range(3):
        step(s, runner)
    assert [shape(batch)[0] for batch in runner.batches] == ["a[0:20]", "a[20:40]", "a[40:50]"]


def test_a_step_of_one_row_and_a_small_chunk_cannot_shrink() -> None:
    s, _ = running(slots=1)
    assert not s.shrink(s.schedule(0.0))


def test_full_steps_come_back_when_all_slots_are_free() -> None:
    s, runner = running(slots=4)
    s.shrink(s.schedule(0.0))
    run_all(s, runner)
    for i in range(4):
        s.submit(submit(str(i), max_tokens=40))
        step(s, runner)
    assert len(s.schedule(0.0).decode) == 4


@pytest.mark.parametrize(
    "bad",
    [
        submit("a", prompt=0),
        submit("a", max_tokens=0),
        submit("a", prompt=60, max_tokens=5),
        Submit("a", (1, VOCAB), 2, SamplingParams()),
        Submit("a", (-1,), 2, SamplingParams()),
        submit("taken"),
    ],
)
def test_request_that_cannot_run_is_refused(bad: Submit) -> None:
    s = scheduler()
    s.submit(submit("taken"))
    with pytest.raises(EngineError):
        s.submit(bad)
    assert len(s.waiting) == 1


def test_prompt_and_answer_may_fill_the_slot_exactly() -> None:
    s = scheduler()
    s.submit(submit("a", prompt=60, max_tokens=4))
    assert run_all(s, CountingRunner())["a"][-1].finish == "length"


class RecordingCompiler(ConstraintCompiler):
    """Gives states that only remember what they were told."""

    def __init__(self) -> None:
        self.asked: list[tuple[Constraint | None, ThinkingBudget | None]] = []
        self.accepted: list[int] = []

    def begin(
        self, constraint: Constraint | None, thinking: ThinkingBudget | None
    ) -> ConstraintState | None:
        self.asked.append((constraint, thinking))
        return RecordingState(self.accepted) if constraint else None


class RecordingState(ConstraintState):
    def __init__(self, accepted: list[int]) -> None:
        self.accepted = accepted

    def accept(self, token_id: int) -> None:
        self.accepted.append(token_id)


def test_a_constraint_is_told_every_id_but_the_last_one() -> None:
    compiler = RecordingCompiler()
    settings = EngineConfig(ModelSource("m", Path("m")), ctx=64, slots=2)
    s = Scheduler(settings, (EOS,), VOCAB, NoStore(), compiler)
    budget = ThinkingBudget(5, None, "x")
    s.submit(Submit("a", (1,), 9, SamplingParams(), Constraint("start: /a/"), budget))
    s.submit(Submit("b", (1,), 3, SamplingParams()))
    assert compiler.asked == [(Constraint("start: /a/"), budget), (None, None)]
    run_all(s, CountingRunner({"a": [7, 8, EOS]}))
    assert compiler.accepted == [7, 8]
