from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from tokenizers import Tokenizer

from engine.argument_schema import json_rule
from engine.constraint import ConstraintCompiler, ConstraintState, Scanner
from engine.messages import Constraint, ThinkingBudget
from tests.engine.constrained import EOS, allowed, compiler, feed, state, vocabulary
from tests.engine.small_tokenizers import byte_level, metaspace, unigram

PLAIN = vocabulary("hermes", None)
MARKED = vocabulary("hermes", True)
YES = 'start: "yes"\n'
CALL = Constraint('start: "(" /[0-9]+/ ")"\n', trigger="add")


def accept_all(held: ConstraintState, tokenizer: Tokenizer, text: str) -> None:
    for token_id in tokenizer.encode(text, add_special_tokens=False).ids:
        held.accept(token_id)


def spelled(tokenizer: Tokenizer, held: ConstraintState) -> set[str]:
    return {tokenizer.decode([i], skip_special_tokens=False) for i in allowed(held) or ()}


def forced_text(tokenizer: Tokenizer, held: ConstraintState) -> str:
    """What the answer has to go on with, one id at a time."""
    ids = []
    while (choice := allowed(held)) is not None and len(choice) == 1 and EOS not in choice:
        ids.append(choice.pop())
        held.accept(ids[-1])
    return tokenizer.decode(ids, skip_special_tokens=False)


def test_an_answer_without_constraint_or_budget_has_no_state() -> None:
    assert compiler(PLAIN.to_str()).begin(None, None) is None


def test_whole_answer_follows_the_grammar_and_ends_only_where_it_ends() -> None:
    held = state(PLAIN, Constraint(YES))
    assert spelled(PLAIN, held) == {"y", "ye", "yes"} & set(spelled(PLAIN, held))
    accept_all(held, PLAIN, "ye")
    assert EOS not in (allowed(held) or ())
    accept_all(held, PLAIN, "s")
    assert allowed(held) == {EOS}


def test_end_ids_are_allowed_beside_others_where_the_grammar_may_end() -> None:
    held = state(PLAIN, Constraint('start: "a" "b"?\n'))
    accept_all(held, PLAIN, "a")
    assert spelled(PLAIN, held) == {"b", "<|im_end|>"}


def test_every_end_id_may_end_an_answer() -> None:
    many = ConstraintCompiler(byte_level(), (2, EOS), 427)
    held = many.begin(Constraint(YES), None)
    assert held is not None
    accept_all(held, PLAIN, "yes")
    assert allowed(held) == {2, EOS}


@pytest.mark.parametrize("extra", [0, 1, 5, 700])
def test_masks_are_as_wide_as_the_models_vocabulary(extra: int) -> None:
    held = compiler(byte_level(), extra).begin(Constraint(YES), None)
    assert held is not None
    mask = held.mask()
    assert mask is not None
    assert mask.dtype == np.uint32
    assert len(mask) == (427 + extra + 31) // 32
    assert max(allowed(held) or ()) < 427


def test_masks_of_a_model_with_fewer_ids_than_its_tokenizer_are_cut() -> None:
    held = ConstraintCompiler(byte_level(), (EOS,), 300).begin(Constraint("start: /.*/\n"), None)
    assert held is not None
    mask = held.mask()
    assert mask is not None
    assert len(mask) == 10


@pytest.mark.parametrize("before", ["", "I say ", "ad", "a", "aad", "no\nad no: ad"])
def test_trigger_is_found_wherever_it_lies_in_the_tokens(before: str) -> None:
    text = before + "add"
    for cut in range(len(text)):
        held = state(PLAIN, CALL)
        for piece in (text[:cut], text[cut:]):
            assert allowed(held) is None
            accept_all(held, PLAIN, piece)
        assert spelled(PLAIN, held) == {"("}


def test_text_behind_the_trigger_in_its_last_token_counts() -> None:
    # The token "the" ends the trigger and goes on.
    held = state(PLAIN, Constraint('start: "he" "!"\n', trigger="t"))
    token_id = PLAIN.token_to_id("the")
    held.accept(token_id)
    assert spelled(PLAIN, held) == {"!"}


def test_text_behind_the_trigger_that_breaks_the_grammar_sets_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = state(PLAIN, Constraint('start: "!"\n', trigger="t"))
    held.accept(PLAIN.token_to_id("the"))
    assert allowed(held) is None
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert "the" not in caplog.text.split(": ")[-1].replace("the text", "").replace(
        "the grammar", ""
    )


def test_after_a_call_the_answer_is_free_and_watched_again() -> None:
    held = state(PLAIN, CALL)
    for _ in range(3):
        assert feed(held, PLAIN, "x add(12)")
        assert allowed(held) is None
    assert not feed(held, PLAIN, "add!")


def test_after_the_only_call_the_answer_ends() -> None:
    held = state(PLAIN, Constraint(CALL.grammar, trigger="add", repeat=False))
    assert feed(held, PLAIN, "add(1)")
    assert allowed(held) == {EOS}


def test_end_is_forbidden_inside_a_call() -> None:
    held = state(PLAIN, CALL)
    accept_all(held, PLAIN, "add(1")
    assert EOS not in (allowed(held) or ())


def test_trigger_may_be_a_control_token() -> None:
    held = state(MARKED, Constraint(YES, trigger="<tool_call>"))
    accept_all(held, MARKED, "hello<tool_call>")
    assert feed(held, MARKED, "yes")
    assert not feed(state(MARKED, Constraint(YES, trigger="<tool_call>")), MARKED, "<tool_call>no")


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("add", True),
        (" \n add", True),
        ("<tool_call>add", True),
        ("x add", False),
        ("ad add", False),
    ],
)
def test_trigger_at_the_start_counts_nowhere_else(text: str, held: bool) -> None:
    answer = state(MARKED, Constraint(YES, trigger="add", at_start=True))
    accept_all(answer, MARKED, text)
    assert (allowed(answer) is not None) == held


def test_trigger_at_the_start_counts_behind_the_thinking() -> None:
    thinking = ("<think>", "</think>")
    answer = state(MARKED, Constraint(YES, trigger="add", at_start=True, thinking=thinking))
    accept_all(answer, MARKED, "<think>x add</think>\n\n")
    assert allowed(answer) is None
    accept_all(answer, MARKED, "add")
    assert allowed(answer) is not None


@pytest.mark.parametrize("tokenizer", [PLAIN, MARKED], ids=["text", "special"])
def test_trigger_in_the_thinking_begins_nothing(tokenizer: Tokenizer) -> None:
    constraint = Constraint(YES, trigger="add", thinking=("<think>", "</think>"))
    answer = state(tokenizer, constraint)
    accept_all(answer, tokenizer, "so <think>I add</think>")
    assert allowed(answer) is None
    accept_all(answer, tokenizer, "add")
    assert allowed(answer) is not None


def test_answer_may_begin_inside_the_thinking() -> None:
    answer = state(PLAIN, Constraint(YES, trigger="add", thinking=(None, "</think>")))
    accept_all(answer, PLAIN, "I add</think>")
    assert allowed(answer) is None
    accept_all(answer, PLAIN, "add")
    assert allowed(answer) is not None


@pytest.mark.parametrize("tokenizer", [PLAIN, MARKED], ids=["text", "special"])
@pytest.mark.parametrize("tokens", [0, 1, 4])
def test_budget_closes_the_thinking_at_its_cap(tokenizer: Tokenizer, tokens: int) -> None:
    held = state(tokenizer, None, ThinkingBudget(tokens, None, "</think>"))
    for _ in range(tokens):
        assert allowed(held) is None
        held.accept(tokenizer.token_to_id("x"))
    assert forced_text(tokenizer, held) == "</think>"
    accept_all(held, tokenizer, "x" * 9)
    assert allowed(held) is None


def test_budget_counts_from_the_opening_marker_and_over_several_regions() -> None:
    held = state(MARKED, None, ThinkingBudget(3, "<think>", "</think>"))
    for text in ("x" * 9, "<think>", "xx", "</think>", "x" * 9, "<think>"):
        assert allowed(held) is None
        accept_all(held, MARKED, text)
    # The closing marker was the third token of the thinking.
    assert forced_text(MARKED, held) == "</think>"


def test_thinking_that_closes_in_time_is_left_alone() -> None:
    held = state(PLAIN, None, ThinkingBudget(30, None, "</think>"))
    assert feed(held, PLAIN, "hello</think>" + "x" * 50)
    assert allowed(held) is None


def test_budget_goes_before_the_grammar_which_follows_it() -> None:
    think_then_yes = 'start: t "yes"\nt[suffix="</think>"]: /(?s:.*)/\n'
    held = state(PLAIN, Constraint(think_then_yes), ThinkingBudget(2, None, "</think>"))
    accept_all(held, PLAIN, "xx")
    assert forced_text(PLAIN, held).startswith("</think>")
    assert feed(held, PLAIN, "") and spelled(PLAIN, held) <= {
        "yes",
        "ye",
        "y",
        "es",
        "e",
        "s",
        "<|im_end|>",
    }


@pytest.mark.parametrize(
    "grammar",
    ["start: nothing\n", 'start: %json {"$ref": "#"}\n', "start: <[999999]>\n", "", "\ud800"],
)
def test_grammar_that_cannot_be_followed_sets_free(
    grammar: str, caplog: pytest.LogCaptureFixture
) -> None:
    held = state(PLAIN, Constraint(grammar))
    assert allowed(held) is None
    assert len(caplog.records) == 1
    accept_all(held, PLAIN, "anything")
    assert allowed(held) is None
    assert len(caplog.records) == 1


def test_id_that_the_grammar_forbids_sets_free() -> None:
    held = state(PLAIN, Constraint(YES))
    accept_all(held, PLAIN, "no")
    assert allowed(held) is None


@pytest.mark.parametrize("tokenizer_json", ["{}", unigram()], ids=["broken", "unigram"])
def test_tokenizer_that_cannot_be_read_leaves_answers_free(tokenizer_json: str) -> None:
    held = ConstraintCompiler(tokenizer_json, (EOS,), 250).begin(
        Constraint(YES), ThinkingBudget(1, None, "x")
    )
    assert held is not None
    assert held.mask() is None
    held.accept(7)
    assert held.mask() is None


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
def test_vocabularies_with_a_space_mark_are_held_too(scheme: str) -> None:
    tokenizer = Tokenizer.from_str(metaspace(scheme))
    constraint = Constraint(f"start: {json_rule({'const': {'name': 'x'}})}\n")
    held = ConstraintCompiler(metaspace(scheme), (2,), 519).begin(constraint, None)
    assert held is not None
    ids: list[int] = []
    for _ in range(40):
        choice = allowed(held)
        assert choice
        if 2 in choice:
            break
        ids.append(max(choice, key=lambda i: len(tokenizer.id_to_token(i) or "")))
        held.accept(ids[-1])
    assert json.loads(tokenizer.decode(ids)) == {"name": "x"}


def test_equal_grammars_compile_once() -> None:
    own = ConstraintCompiler(byte_level(), (EOS,), 427)
    for n in (1, 2, 1, 2):
        begun = own.begin(Constraint(f'start: "{n}"\n'), None)
        assert begun is not None
        assert begun.mask() is not None
    assert len(own._compiled) == 2


def test_old_grammars_are_forgotten() -> None:
    own = ConstraintCompiler(byte_level(), (EOS,), 427)
    for n in range(40):
        own.begin(Constraint(f'start: "{n}"\n'), None)
    assert len(own._compiled) == 32


def test_answers_of_one_grammar_do_not_share_their_place_in_it() -> None:
    first, second = state(PLAIN, Constraint(YES)), state(PLAIN, Constraint(YES))
    accept_all(first, PLAIN, "yes")
    assert spelled(PLAIN, first) != spelled(PLAIN, second)


def test_scanner_finds_markers_over_any_cutting() -> None:
    text = b"aab<<x>>aab"
    for first in range(len(text)):
        for second in range(first, len(text)):
            scanner, found = Scanner(), []
            for piece in (text[:first], text[first:second], text[second:]):
                while hit := scanner.find(piece, [b"ab", b"<x>"]):
                    found.append(hit[0])
                    piece = hit[1]
            assert found == [b"ab", b"<x>", b"ab"]
