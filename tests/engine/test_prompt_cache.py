"""PromptCache: where prompts go, and what of them is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from engine.host_cache import BLOCK
from engine.prompt_cache import PromptCache
from engine.request import SamplingParams
from engine.slot import Sequence, Slot
from tests.engine.slot_stores import TokenStore


class Stage:
    """Slots, their store, and a cache over them."""

    def __init__(
        self,
        slots: int = 2,
        cap: int = 10**6,
        cuttable: bool = True,
        movable: bool = True,
        opening: int | None = None,
    ) -> None:
        self.store = TokenStore(slots, cuttable, movable)
        self.opening = opening
        self.slots = [Slot(index) for index in range(slots)]
        self.cache = PromptCache(self.store, cap)

    def begin(self, prompt: list[int], tenant: str = "a") -> tuple[Slot, int]:
        """Place a prompt and compute the rest of it; returns the slot and what was known."""
        slot = self.cache.place(self.slots, tenant, tuple(prompt))
        assert slot is not None
        known = len(slot.token_ids)
        assert slot.token_ids == prompt[:known] and known < len(prompt)
        assert self.store.held[slot.index][:known] == prompt[:known]
        for end in [*self.cache.stops(tuple(prompt), self.opening, known), len(prompt)]:
            start = len(slot.token_ids)
            self.store.compute(slot.index, start, prompt[start:end])
            slot.token_ids[:] = prompt[:end]
            if end < len(prompt):
                self.cache.mark(slot)
        slot.sequence = Sequence("r", tuple(prompt), 9, SamplingParams())
        return slot, known

    def run(self, prompt: list[int], answer: int = 0, tenant: str = "a") -> tuple[int, int]:
        """A whole request; returns the index of its slot and how many tokens were known."""
        slot, known = self.begin(prompt, tenant)
        answer_ids = [-1] * answer
        self.store.compute(slot.index, len(prompt), answer_ids)
        slot.token_ids += answer_ids
        slot.sequence = None
        return slot.index, known


def talk(seed: int, length: int) -> list[int]:
    return list(range(seed * 10_000, seed * 10_000 + length))


def test_a_follow_up_goes_on_in_its_slot() -> None:
    stage = Stage()
    index, known = stage.run(talk(1, 50), answer=5)
    assert known == 0
    stage.run(talk(2, 80))
    follow_up = [*talk(1, 50), *[-1] * 5, 1, 2, 3]
    assert stage.run(follow_up) == (index, 55)
    assert stage.store.moves == []


def test_the_same_prompt_again_computes_its_last_token() -> None:
    stage = Stage()
    stage.run(talk(1, 50), answer=5)
    assert stage.run(talk(1, 50))[1] == 49


def test_the_slot_used_longest_ago_makes_way_for_what_is_new() -> None:
    stage = Stage(slots=3, cap=0)
    assert [stage.run(talk(n, 40))[0] for n in (1, 2, 3)] == [0, 1, 2]
    stage.run(talk(1, 40))
    assert stage.run(talk(4, 40))[0] == 1


def test_what_made_way_comes_back_from_host_memory() -> None:
    stage = Stage(slots=1)
    stage.run(talk(1, 100), answer=3)
    stage.run(talk(2, 70))
    assert stage.run([*talk(1, 100), *[-1] * 3, 5])[1] == 103


def test_without_host_memory_what_made_way_is_gone() -> None:
    stage = Stage(slots=1, cap=0)
    stage.run(talk(1, 100))
    stage.run(talk(2, 70))
    assert stage.run(talk(1, 100))[1] == 0
    assert stage.store.moves == []


def no_memory_from(start: int, move: Callable[..., Any]) -> Callable[..., Any]:
    """A `save` or `load` that finds no memory for tokens at `start` and on."""

    def wrapped(slot: int, at: int, rest: Any) -> Any:
        if at >= start:
            raise MemoryError
        return move(slot, at, rest)

    return wrapped


def test_what_finds_no_memory_in_the_host_is_computed_again() -> None:
    stage = Stage(slots=1)
    stage.run(talk(1, 100))
    store, save = stage.store, stage.store.save
    store.save = no_memory_from(2 * BLOCK, save)  # type: ignore[method-assign]
    stage.run(talk(2, 70))
    store.save = save  # type: ignore[method-assign]
    assert stage.run(talk(1, 100))[1] == 2 * BLOCK


def test_what_finds_no_memory_on_its_way_back_is_computed_again() -> None:
    stage = Stage(slots=1)
    stage.run(talk(1, 100))
    stage.run(talk(2, 70))
    store = stage.store
    store.load = no_memory_from(BLOCK, store.load)  # type: ignore[method-assign]
    assert stage.run(talk(1, 100))[1] == BLOCK


def test_a_beginning_is_copied_from_a_busy_slot() -> None:
    stage = Stage()
    stage.begin(talk(1, 60))
    assert stage.run([*talk(1, 50), 7, 8]) == (1, 50)
    assert stage.store.moves == ["copy 0>1 0:50"]


def test_a_short_common_beginning_does_not_cost_a_long_conversation_its_slot() -> None:
    stage = Stage()
    stage.run(talk(1, 100))
    assert stage.run([*talk(1, 20), 7, 8]) == (1, 20)
    assert stage.run([*talk(1, 100), 9]) == (0, 100)


def test_what_an_edited_conversation_loses_is_kept_in_host_memory() -> None:
    stage = Stage(slots=1)
    stage.run(talk(1, 100))
    assert stage.run([*talk(1, 80), 7, 8])[1] == 80
    assert stage.run(talk(1, 100))[1] == 99


def test_the_better_of_slot_and_host_memory_is_taken() -> None:
    stage = Stage(slots=1)
    stage.run(talk(1, 100))
    stage.run([*talk(1, 60), *talk(2, 9)])
    stage.store.moves.clear()
    assert stage.run(talk(1, 100))[1] == 99
    assert all(move.startswith(("load", "save")) for move in stage.store.moves)


def test_tenants_share_nothing() -> None:
    stage = Stage(slots=2)
    stage.run(talk(1, 100), tenant="a")
    assert stage.run(talk(1, 100), tenant="b") == (1, 0)
    stage.run(talk(2, 100), tenant="b")
    stage.run(talk(3, 100), tenant="b")
    assert stage.run(talk(1, 100), tenant="b")[1] == 99
    assert stage.run(talk(1, 100), tenant="a")[1] == 99
    assert stage.run(talk(1, 100), tenant="c")[1] == 0


def test_when_all_slots_are_busy_there_is_no_place() -> None:
    stage = Stage(slots=1)
    stage.begin(talk(1, 5))
    assert stage.cache.place(stage.slots, "a", (1, 2)) is None


def test_a_state_that_cannot_be_cut_is_gone_on_from_but_not_gone_back_to() -> None:
    stage = Stage(slots=1, cuttable=False, movable=False)
    stage.run(talk(1, 50), answer=4)
    assert stage.run([*talk(1, 50), *[-1] * 4, 6])[1] == 54
    assert stage.run(talk(1, 50))[1] == 0
    assert stage.run(talk(1, 50))[1] == 0
    assert stage.store.moves == []


OPENING = -2


def turn(*messages: list[int]) -> list[int]:
    return [token for message in messages for token in (OPENING, *message)]


def test_a_recurrent_model_s_next_turn_computes_what_is_new_also_without_past_thinking() -> None:
    stage = Stage(cuttable=False, opening=OPENING)
    asked = turn(talk(1, 100), talk(2, 50), [])
    index, _ = stage.run([*asked, 7, 8], answer=60)
    stage.run(turn(talk(3, 80), []))
    with_thinking = [*asked, 7, 8, *[-1] * 60, *turn(talk(4, 40), [7, 8])]
    assert stage.run(with_thinking, answer=5) == (index, len(asked) + 2 + 60)
    without = [*asked, *talk(5, 20), *turn(talk(4, 40), [7, 8])]
    assert stage.run(without)[1] == len(asked) - 1


def test_a_recurrent_model_s_edited_last_message_is_all_that_is_computed() -> None:
    stage = Stage(cuttable=False, opening=OPENING)
    system = turn(talk(1, 100))
    stage.run([*system, *turn(talk(2, 50), [])], answer=60)
    assert stage.run([*system, *turn(talk(3, 50), [])])[1] == len(system)
    assert stage.run([*system, *turn(talk(4, 50), [])])[1] == len(system)


def test_a_recurrent_model_s_prompt_without_messages_goes_on_from_its_end() -> None:
    stage = Stage(slots=1, cuttable=False)
    stage.run(talk(1, 100), answer=9)
    assert stage.run([*talk(1, 100), 4, 5])[1] == 99


def test_a_recurrent_model_s_conversation_comes_back_from_host_memory_whole() -> None:
    stage = Stage(slots=1, cuttable=False)
    stage.run(talk(1, 100), answer=9)
    stage.run(talk(2, 40))
    assert stage.run([*talk(1, 100), *[-1] * 9, 5])[1] == 109


def test_a_recurrent_model_copies_a_busy_slot_s_tokens_up_to_a_saved_state() -> None:
    stage = Stage(cuttable=False, opening=OPENING)
    system = turn(talk(1, 100))
    stage.begin([*system, *turn(talk(2, 50), [])])
    stage.store.moves.clear()
    assert stage.run([*system, *turn(talk(3, 50), [])]) == (1, len(system))
    assert stage.store.moves[:2] == [f"copy 0>1 0:{len(system)}", f"load state 1 {len(system)}"]


def test_states_are_a_tenant_s_own() -> None:
    stage = Stage(slots=1, cuttable=False)
    stage.run(talk(1, 100))
    assert stage.run(talk(1, 100), tenant="b")[1] == 0


def test_a_state_that_finds_no_memory_is_not_kept() -> None:
    stage = Stage(slots=1, cuttable=False)

    def fail(slot: int) -> Any:
        raise MemoryError

    stage.store.save_state = fail  # type: ignore[method-assign]
    stage.run(talk(1, 100), answer=4)
    assert stage.run(talk(1, 100))[1] == 0
    assert stage.cache.host.point_bytes == 0


@pytest.mark.parametrize(("cuttable", "movable"), [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize("opening", [None, 1])
def test_whatever_comes_a_slot_holds_the_tokens_that_it_says(
    cuttable: bool, movable: bool, opening: int | None
) -> None:
    rnd = random.Random(5)
    stage = Stage(3, 20 * BLOCK * 10, cuttable, movable, opening)
    said: list[list[int]] = [[1]]
    hits = 0
    for _ in range(800):
        past = rnd.choice(said)
        prompt = past[: rnd.randrange(len(past) + 1)] if rnd.random() < 0.3 else list(past)
        prompt += [rnd.randrange(3) for _ in range(rnd.randrange(1, 40))]
        said.append([*prompt[-400:], *[-1] * 4] if rnd.random() < 0.9 else [2])
        said = said[-12:]
        if rnd.random() < 0.3:
            stage.begin(prompt, rnd.choice("ab"))
        else:
            hits += stage.run(prompt, answer=4, tenant=rnd.choice("ab"))[1] > 0
        busy = [slot for slot in stage.slots if slot.sequence]
        if len(busy) == len(stage.slots) or rnd.random() < 0.2:
            for slot in busy:
                slot.sequence = None
        assert stage.cache.host.nbytes <= stage.cache.host.cap
    assert hits > (300 if cuttable else 60 if movable else 20), hits
