"""Vocabularies with a family's markers, and answers drawn at random from what a mask allows."""

from __future__ import annotations

import json
import random
from functools import cache

import numpy as np
from tokenizers import AddedToken, Tokenizer

from engine.constraint import ConstraintCompiler, ConstraintState
from engine.messages import Constraint, ThinkingBudget
from engine.model_format import ModelFormat, detect_format
from tests.engine.small_tokenizers import ADDED, byte_level

EOS = 4


def model(name: str) -> ModelFormat:
    """A family whose models think."""
    return detect_format(None if name == "harmony" else "<think>", name)


@cache
def vocabulary(name: str, special: bool | None) -> Tokenizer:
    """A byte-level vocabulary; the family's markers are tokens of it unless `special` is None."""
    spec = json.loads(byte_level())
    spec["added_tokens"] = [t for t in spec["added_tokens"] if t["content"] not in ADDED]
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    if special is not None:
        markers = sorted(model(name).markers)
        tokenizer.add_tokens([AddedToken(m, special=special, normalized=False) for m in markers])
    return tokenizer


@cache
def compiler(tokenizer_json: str, extra_ids: int = 0) -> ConstraintCompiler:
    """A compiler for a model that has `extra_ids` more ids than the tokenizer."""
    size = Tokenizer.from_str(tokenizer_json).get_vocab_size()
    return ConstraintCompiler(tokenizer_json, (EOS,), size + extra_ids)


def state(
    tokenizer: Tokenizer, constraint: Constraint | None, thinking: ThinkingBudget | None = None
) -> ConstraintState:
    """The state of a new answer."""
    begun = compiler(tokenizer.to_str()).begin(constraint, thinking)
    assert begun is not None
    return begun


def allowed(held: ConstraintState) -> set[int] | None:
    """The ids of the mask, None when the answer is free."""
    mask = held.mask()
    if mask is None:
        return None
    return set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())


def feed(held: ConstraintState, tokenizer: Tokenizer, text: str) -> bool:
    """Answer `text`; whether every token of it was allowed."""
    for token_id in tokenizer.encode(text, add_special_tokens=False).ids:
        ids = allowed(held)
        if ids is not None and token_id not in ids:
            return False
        held.accept(token_id)
    return True


def random_answer(
    held: ConstraintState, tokenizer: Tokenizer, rnd: random.Random, ends: list[str]
) -> str | None:
    """A random answer that the masks allow, None when it is too long.

    `ends` are texts without which an answer would seldom get out of a part of it.
    """
    ids: list[int] = []
    while len(ids) < 2000:
        choice = allowed(held)
        assert choice
        if EOS in choice and (len(choice) == 1 or rnd.random() < 0.5):
            return tokenizer.decode(ids, skip_special_tokens=False)
        if rnd.random() < 0.5:
            wanted = tokenizer.encode(rnd.choice(ends), add_special_tokens=False).ids
        else:
            wanted = [rnd.choice(sorted(choice - {EOS}))]
        for token_id in wanted:
            if token_id not in (allowed(held) or ()):
                break
            held.accept(token_id)
            ids.append(token_id)
    return None
