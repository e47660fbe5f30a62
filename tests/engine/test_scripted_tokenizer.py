from __future__ import annotations

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from engine.messages import Ready
from engine.scripted_tokenizer import END_OF_TURN, tokenizer_json
from engine.tokenizer import Segment, Tokenizer

TOKENIZER = tokenizers.Tokenizer.from_str(tokenizer_json())


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids, skip_special_tokens=False) == text


def test_markers_are_one_token_each_and_only_those_of_turns_are_special() -> None:
    added = {t.content: t.special for t in TOKENIZER.get_added_tokens_decoder().values()}
    for marker in ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>"):
        assert len(TOKENIZER.encode(marker).ids) == 1
        assert not added[marker]
    assert added[END_OF_TURN]


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("The tool has answered, and this is what it says about the weather.", 20),
        ('{"type": "object", "properties": {"city": {"type": "string"}}}', 30),
    ],
)
def test_usual_texts_take_about_one_token_a_word(text: str, most: int) -> None:
    assert len(TOKENIZER.encode(text).ids) <= most


def test_the_engine_takes_it_and_cuts_long_texts_where_ids_stay_the_same() -> None:
    ready = Ready(tokenizer_json(), None, {}, (0,), 0, 0.0, "cpu", "none")
    text = "some words and 1 line\n" * 5_000
    encoded = Tokenizer(ready).encode([Segment(text)], 10**9)
    assert list(encoded.ids) == TOKENIZER.encode(text).ids
