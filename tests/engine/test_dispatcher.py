"""Dispatcher: what the worker is given, also after requests or the worker were lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.answer import Answer
from engine.detokenizer import IncrementalDetokenizer
from engine.dispatcher import Dispatcher
from engine.errors import WorkerFailed
from engine.generation import Generation
from engine.messages import Submit
from engine.request import SamplingParams
from engine.response_parser import ResponseParser
from engine.stats import RequestStats
from engine.tokenizer import Tokenizer
from tests.engine.small_tokenizers import byte_level, ready

TOKENIZER = Tokenizer(ready(byte_level()))


class Owner:
    def send_again(self, answer: Answer) -> None:
        raise AssertionError

    def close_answer(self, answer: Answer) -> None:
        raise AssertionError


def new_generation() -> Generation:
    return Generation(IncrementalDetokenizer(TOKENIZER, frozenset()), ResponseParser(None), 1, 0.0)


class Stage:
    """A dispatcher, and what it has sent."""

    def __init__(self, slots: int = 2) -> None:
        self.sent: list[str] = []
        self.dispatcher = Dispatcher(slots, lambda answer: self.sent.append(answer.request_id))
        self.dispatcher.open()

    def enter(self, *names: str, tenant: str = "") -> list[Answer]:
        submits = [Submit(name, (1,), 9, SamplingParams()) for name in names]
        stats = RequestStats(0.0, 0.0, prompt_tokens=1, max_tokens=9)
        answers = [Answer(s, tenant, replace(stats), new_generation, Owner()) for s in submits]
        for answer in answers:
            self.dispatcher.enter(answer)
        return answers

    def run(self, *answers: Answer) -> None:
        for answer in answers:
            assert self.sent[-1] == answer.request_id
            self.dispatcher.started(answer)

    def tokens(self, answer: Answer, count: int) -> None:
        """The request comes to have `count` tokens."""
        answer.stats.completion_tokens = count
        self.dispatcher.advanced(answer)

    def die(self) -> list[Answer]:
        ran = self.dispatcher.worker_died()
        for answer in ran:
            self.dispatcher.lost(answer)
        return ran


def test_the_worker_has_one_request_more_than_what_runs() -> None:
    stage = Stage()
    a, b, _ = stage.enter("a", "b", "c")
    assert stage.sent == ["a"]
    stage.run(a)
    assert stage.sent == ["a", "b"]
    stage.run(b)
    assert stage.sent == ["a", "b", "c"]
    stage.dispatcher.leave(a)
    assert stage.sent == ["a", "b", "c"]


def test_the_next_is_sent_when_the_one_that_was_sent_leaves() -> None:
    stage = Stage()
    a, _ = stage.enter("a", "b")
    assert stage.dispatcher.leave(a)
    assert not stage.dispatcher.leave(a)
    assert stage.sent == ["a", "b"]


def test_a_newcomer_waits_for_one_turn_of_a_flood() -> None:
    stage = Stage(slots=1)
    running, ahead, *_ = stage.enter("a0", "a1", "a2", "a3", tenant="a")
    stage.run(running)
    (newcomer,) = stage.enter("b", tenant="b")
    stage.dispatcher.leave(running)
    stage.run(ahead)
    assert stage.sent == ["a0", "a1", "b"]
    assert not stage.dispatcher.is_running(newcomer)


def test_nothing_is_sent_while_there_is_no_worker() -> None:
    stage = Stage()
    stage.die()
    stage.enter("a")
    assert stage.sent == []
    stage.dispatcher.open()
    assert stage.sent == ["a"]


def test_what_did_not_run_waits_on_and_is_next() -> None:
    stage = Stage()
    a, *_ = stage.enter("a", "b", "c")
    stage.run(a)
    assert stage.die() == [a]
    stage.dispatcher.leave(a)
    assert (stage.dispatcher.running, stage.dispatcher.waiting) == (0, 2)
    stage.dispatcher.open()
    assert stage.sent == ["a", "b", "b"]


def test_what_was_only_sent_runs_alone_too_but_after_those_that_lost_an_attempt() -> None:
    stage = Stage()
    a, b, _ = stage.enter("a", "b", "c")
    stage.run(a)
    stage.die()
    stage.dispatcher.again(a)
    stage.sent.clear()
    stage.dispatcher.open()
    stage.run(a)
    stage.tokens(a, 1)
    assert stage.sent == ["a"]
    stage.dispatcher.leave(a)
    assert stage.sent == ["a", "b"]
    assert stage.die() == [b]
    stage.dispatcher.again(b)
    stage.sent.clear()
    stage.dispatcher.open()
    assert stage.sent == ["b"]


def test_what_was_only_sent_is_cleared_once_it_has_begun() -> None:
    stage = Stage()
    a, b, _ = stage.enter("a", "b", "c")
    stage.run(a)
    stage.die()
    stage.dispatcher.leave(a)
    stage.sent.clear()
    stage.dispatcher.open()
    stage.run(b)
    stage.tokens(b, 0)
    assert stage.sent == ["b", "c"]


def test_a_worker_that_dies_of_the_one_request_it_has_is_that_requests_doing() -> None:
    stage = Stage()
    a, _ = stage.enter("a", "b")
    assert stage.die() == [a]


def test_suspects_run_one_at_a_time_and_before_all_that_wait() -> None:
    stage = Stage(slots=3)
    a, b, _ = stage.enter("a", "b", "c")
    stage.run(a, b)
    assert stage.die() == [a, b]
    stage.dispatcher.again(b)
    stage.dispatcher.again(a)
    stage.sent.clear()
    stage.dispatcher.open()
    stage.run(b)
    assert stage.sent == ["b"]
    stage.dispatcher.leave(b)
    stage.run(a)
    assert stage.sent == ["b", "a"]
    stage.dispatcher.leave(a)
    assert stage.sent == ["b", "a", "c"]


def test_a_suspect_past_the_place_where_it_died_no_longer_runs_alone() -> None:
    stage = Stage()
    (a,) = stage.enter("a")
    stage.run(a)
    stage.tokens(a, 3)
    stage.die()
    stage.enter("b")
    stage.dispatcher.again(a)
    stage.sent.clear()
    stage.dispatcher.open()
    stage.run(a)
    stage.tokens(a, 3)
    assert stage.sent == ["a"]
    stage.tokens(a, 4)
    assert stage.sent == ["a", "b"]


def test_only_the_suspect_that_kills_the_worker_again_is_charged_again() -> None:
    stage = Stage()
    a, b = stage.enter("a", "b")
    stage.run(a, b)
    stage.die()
    stage.dispatcher.again(a)
    stage.dispatcher.again(b)
    stage.dispatcher.open()
    stage.run(a)
    assert stage.die() == [a]
    stage.dispatcher.leave(a)
    stage.sent.clear()
    stage.dispatcher.open()
    assert stage.sent == ["b"]


def test_a_suspect_waits_until_the_requests_of_a_living_worker_are_over() -> None:
    stage = Stage(slots=3)
    a, b, c = stage.enter("a", "b", "c")
    stage.run(a, b)
    stage.dispatcher.lost(a)
    stage.dispatcher.withdrawn(c)
    stage.dispatcher.again(a)
    stage.sent.clear()
    stage.dispatcher.leave(b)
    stage.run(a)
    assert stage.sent == ["a"]
    stage.dispatcher.leave(a)
    assert stage.sent == ["a", "c"]


def test_a_request_that_can_have_harmed_nobody_is_next_but_not_alone() -> None:
    stage = Stage(slots=3)
    a, b, c, _ = stage.enter("a", "b", "c", "d")
    stage.run(a, b)
    stage.dispatcher.lost(a, suspect=False)
    stage.dispatcher.again(a)
    stage.sent.clear()
    stage.dispatcher.started(c)
    assert stage.sent == ["a"]
    stage.run(a)
    assert stage.sent == ["a", "d"]
    assert stage.dispatcher.is_running(b)


def test_a_lost_request_can_leave_before_it_runs_again() -> None:
    stage = Stage(slots=3)
    a, _ = stage.enter("a", "b")
    stage.run(a)
    stage.dispatcher.lost(a, suspect=False)
    stage.dispatcher.again(a)
    assert stage.dispatcher.leave(a)
    assert (stage.dispatcher.running, stage.dispatcher.waiting) == (0, 1)


def test_a_suspect_whose_client_leaves_makes_way() -> None:
    stage = Stage()
    a, b, _ = stage.enter("a", "b", "c")
    stage.run(a, b)
    stage.die()
    stage.dispatcher.again(a)
    stage.dispatcher.again(b)
    stage.dispatcher.open()
    stage.sent.clear()
    stage.dispatcher.leave(a)
    assert stage.sent == ["b"]
    stage.dispatcher.leave(b)
    assert stage.sent == ["b", "c"]


def test_the_next_suspect_waits_for_the_end_of_one_that_is_cleared() -> None:
    stage = Stage()
    a, b, _ = stage.enter("a", "b", "c")
    stage.run(a, b)
    stage.die()
    stage.dispatcher.again(a)
    stage.dispatcher.again(b)
    stage.dispatcher.open()
    stage.run(a)
    stage.tokens(a, 1)
    assert stage.sent[-1] == "a"
    stage.dispatcher.leave(a)
    assert stage.sent[-1] == "b"


def test_it_has_work_while_the_worker_has_a_request() -> None:
    stage = Stage()
    assert not stage.dispatcher.has_work
    (a,) = stage.enter("a")
    assert stage.dispatcher.has_work
    stage.run(a)
    assert stage.dispatcher.has_work
    stage.dispatcher.leave(a)
    assert not stage.dispatcher.has_work


def test_a_request_that_the_worker_dies_of_taking_is_sent_twice_at_most() -> None:
    stage = Stage()
    a, b = stage.enter("a", "b")
    stage.run(a)
    assert stage.die() == [a]
    stage.dispatcher.leave(a)
    stage.dispatcher.open()
    assert stage.sent == ["a", "b", "b"]
    assert stage.die() == [b]
    with pytest.raises(WorkerFailed):
        b.retry(WorkerFailed("it died"))
