import random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.detokenizer import IncrementalDetokenizer
from engine.tokenizer import Tokenizer
from tests.engine.small_tokenizers import KINDS, byte_level, metaspace, ready, smollm2, words

ALL = 10**9
EMOJI = "👩\u200d👩\u200d👧 🏴\U000e0067\U000e0062 中文。日本 e\u0301🙂"
kinds = pytest.mark.parametrize("kind", KINDS)


def deltas(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    detokenizer = IncrementalDetokenizer(tokenizer)
    return [detokenizer.push(token_id) for token_id in ids]


def byte_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Tokens of one byte each, so that every character of more is split."""
    tokens = range(tokenizer._full.get_vocab_size())
    single = {tokenizer.token_bytes(i, False): i for i in reversed(tokens)}
    return [single[bytes([byte])] for byte in text.encode()]


@kinds
def test_deltas_together_are_the_whole_decoding(kind: str) -> None:
    tokenizer = Tokenizer(ready(KINDS[kind]()))

    @settings(max_examples=60)
    @given(text=words)
    def check(text: str) -> None:
        ids = list(tokenizer.encode_text(text, ALL).ids)
        assert "".join(deltas(tokenizer, ids)) == tokenizer.decode(ids)

    check()


@pytest.mark.parametrize("kind", ["byte level", "metaspace first", "prepend"])
def test_characters_split_over_tokens_arrive_whole(kind: str) -> None:
    tokenizer = Tokenizer(ready(KINDS[kind]()))

    @settings(max_examples=60)
    @given(text=st.text(st.sampled_from(EMOJI), min_size=1, max_size=12), data=st.data())
    def check(text: str, data: st.DataObject) -> None:
        ids = byte_ids(tokenizer, text)
        cut = data.draw(st.integers(0, len(ids)))
        unfinished = text.encode()[:cut].decode("utf-8", "ignore")
        dropped = unfinished.removeprefix(" ") if kind != "byte level" else unfinished
        assert "".join(deltas(tokenizer, ids[:cut])) == dropped

    check()


@settings(max_examples=200)
@given(seed=st.integers(0, 10**6))
def test_any_ids_give_the_byte_level_decoding_but_for_an_unfinished_end(seed: int) -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    draw = random.Random(seed)
    ids = [draw.randrange(tokenizer._full.get_vocab_size()) for _ in range(12)]
    text, whole = "".join(deltas(tokenizer, ids)), tokenizer.decode(ids)
    assert whole in (text, text + "\ufffd")


def test_unfinished_character_is_never_sent() -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    ids = byte_ids(tokenizer, "a🙂")
    assert deltas(tokenizer, ids) == ["a", "", "", "", "🙂"]
    assert "".join(deltas(tokenizer, ids[:-1])) == "a"


def test_real_replacement_character_passes_at_once() -> None:
    for tokenizer_json in (byte_level(), metaspace("never")):
        tokenizer = Tokenizer(ready(tokenizer_json))
        ids = byte_ids(tokenizer, "\ufffd")
        assert deltas(tokenizer, ids)[-1] == "\ufffd"


def test_broken_character_in_the_middle_is_replaced_as_in_the_whole_decoding() -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    first, *_ = byte_ids(tokenizer, "🙂")
    ids = [first, *byte_ids(tokenizer, "ab")]
    assert deltas(tokenizer, ids) == ["", "\ufffda", "b"]
    assert tokenizer.decode(ids) == "\ufffdab"


def test_first_word_loses_the_space_that_the_decoder_drops() -> None:
    tokenizer = Tokenizer(ready(metaspace("first")))
    ids = list(tokenizer.encode_text("hello hello", ALL).ids)
    assert ids[0] == 1  # BOS has no text and is no first word
    assert "".join(deltas(tokenizer, ids)) == "hello hello"


def test_special_tokens_have_no_text_but_other_added_tokens_do() -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    vocab = tokenizer._full.get_vocab()
    assert deltas(tokenizer, [vocab["<|im_end|>"], vocab["<think>"]]) == ["", "<think>"]


def test_ids_beyond_the_vocabulary_have_no_text() -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    assert deltas(tokenizer, [10**6]) == [""]


def test_no_token_is_decoded_twice_however_long_the_answer() -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    first, *_ = byte_ids(tokenizer, "🙂")
    with patch.object(tokenizer, "decode", wraps=tokenizer.decode) as decode:
        deltas(tokenizer, [first] * 1000)
    assert decode.call_count <= 3


@pytest.mark.model
def test_smollm2_deltas_together_are_the_whole_decoding() -> None:
    tokenizer = Tokenizer(smollm2())

    @settings(max_examples=300)
    @given(text=words | st.text(st.sampled_from(EMOJI)))
    def check(text: str) -> None:
        ids = list(tokenizer.encode_text(text, ALL).ids)
        sent = deltas(tokenizer, ids)
        assert "".join(sent) == tokenizer.decode(ids) == text
        assert "\ufffd" in text or "\ufffd" not in "".join(sent)

    check()


def test_special_tokens_that_are_markers_are_spelled() -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    vocab = tokenizer._full.get_vocab()
    detokenizer = IncrementalDetokenizer(tokenizer, frozenset({"<|im_start|>"}))
    first, *_ = byte_ids(tokenizer, "🙂")
    ids = [vocab["<|im_start|>"], vocab["<|im_end|>"], first, vocab["<|im_start|>"]]
    texts = [detokenizer.push(token_id) for token_id in ids]
    assert texts == ["<|im_start|>", "", "", "\ufffd<|im_start|>"]
