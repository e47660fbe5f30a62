import json
import threading
from typing import Any
from unittest.mock import patch

import pytest
import tokenizers
from hypothesis import given, settings

from engine.errors import ModelError
from engine.text_pool import Abandoned
from engine.tokenizer import PIECE, EncodedPrompt, Segment, Tokenizer
from tests.engine.small_tokenizers import (
    ADDED,
    KINDS,
    SPECIAL,
    byte_level,
    metaspace,
    ready,
    smollm2,
    texts,
    unigram,
    words,
)

ALL = 10**9
kinds = pytest.mark.parametrize("kind", KINDS)


def library(kind: str) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(KINDS[kind]())


def blind(tokenizer_json: str) -> tokenizers.Tokenizer:
    """The library's tokenizer, made to recognise no control token."""
    spec = json.loads(tokenizer_json)
    for token in spec["added_tokens"]:
        token["special"] = True
    plain = tokenizers.Tokenizer.from_str(json.dumps(spec))
    plain.encode_special_tokens = True
    return plain


def byte_level_step(use_regex: bool) -> dict[str, Any]:
    options = {"add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}
    return {"type": "ByteLevel", **options}


def plain_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode([Segment(text)], ALL).ids)


@kinds
def test_long_text_cut_into_pieces_has_the_ids_of_the_whole(kind: str) -> None:
    tokenizer = Tokenizer(ready(KINDS[kind]()))

    @settings(max_examples=60)
    @given(text=texts)
    def check(text: str) -> None:
        uncut = plain_ids(tokenizer, text)
        with patch("engine.tokenizer.PIECE", 3):
            encoded = tokenizer.encode([Segment(text)], ALL)
        assert list(encoded.ids) == uncut
        assert encoded.total == len(uncut)

    check()


@kinds
def test_long_text_is_really_cut(kind: str) -> None:
    tokenizer = Tokenizer(ready(KINDS[kind]()))
    with patch("engine.tokenizer.PIECE", 3):
        assert len(list(tokenizer._split("one two three\nAnd four"))) == 5


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unigram"])
def test_plain_text_has_the_ids_the_library_gives(kind: str) -> None:
    tokenizer, reference = Tokenizer(ready(KINDS[kind]())), blind(KINDS[kind]())

    @settings(max_examples=40)
    @given(text=texts)
    def check(text: str) -> None:
        assert plain_ids(tokenizer, text) == reference.encode(text, None, False, False).ids

    check()


def test_a_text_that_cannot_be_cut_safely_is_encoded_whole() -> None:
    spec = json.loads(byte_level())
    spec["normalizer"] = {"type": "Replace", "pattern": {"Regex": "o w"}, "content": "0"}
    tokenizer = Tokenizer(ready(json.dumps(spec)))
    with patch("engine.tokenizer.PIECE", 3):
        assert list(tokenizer._split("hello world again")) == ["hello world again"]


def test_a_stretch_without_a_place_to_cut_has_a_longest_length() -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    with patch("engine.tokenizer.PIECE", 2), patch("engine.tokenizer.LONGEST_PIECE", 4):
        assert list(tokenizer._split("abcd efghijk")) == ["abcd", " efg", "hijk"]
        assert tokenizer.decode(plain_ids(tokenizer, "abcd efghijk")) == "abcd efghijk"


@pytest.mark.parametrize("text", ["end\n\nend", "end \nend", "end\nend", "hello\nassistant\n"])
@kinds
def test_newline_is_cut_from_the_next_word_only_where_no_token_holds_both(
    kind: str, text: str
) -> None:
    tokenizer = Tokenizer(ready(KINDS[kind]()))
    whole = plain_ids(tokenizer, text)
    with patch("engine.tokenizer.PIECE", 1):
        assert plain_ids(tokenizer, text) == whole


def test_no_cut_where_a_vocabulary_entry_reaches_over_it() -> None:
    spec = json.loads(byte_level())
    spec["pre_tokenizer"] = byte_level_step(use_regex=False)
    spec["model"]["vocab"]["oĠ"] = 9000
    spec["model"]["merges"].insert(0, ["o", "Ġ"])
    tokenizer = Tokenizer(ready(json.dumps(spec)))
    with patch("engine.tokenizer.PIECE", 1):
        assert list(tokenizer._split("to do it so be")) == ["to do it", " so be"]
        assert 9000 in plain_ids(tokenizer, "to do it")


@kinds
@pytest.mark.parametrize("token", [*SPECIAL[1:], *ADDED])
def test_spelled_control_token_is_plain_text(kind: str, token: str) -> None:
    spelled = library(kind)
    tokenizer = Tokenizer(ready(KINDS[kind]()))
    token_id = spelled.token_to_id(token)
    ids = plain_ids(tokenizer, f"a{token}b {token}")
    assert token_id not in ids
    if kind != "unigram":  # it has no pieces for "<" and the like
        assert tokenizer.decode(ids) == f"a{token}b {token}"


def test_control_segment_has_its_control_tokens() -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    text = "<|im_start|>user\nhi<|im_end|><think>"
    encoded = tokenizer.encode([Segment(text, control=True)], ALL)
    assert list(encoded.ids) == library("byte level").encode(text).ids


def test_whitespace_tokens_are_words_not_control_tokens() -> None:
    full = tokenizers.Tokenizer.from_str(byte_level())
    full.add_tokens([tokenizers.AddedToken(" " * 16, normalized=False)])
    tokenizer = Tokenizer(ready(full.to_str()))
    text = "a" + " " * 16 + "b"
    assert plain_ids(tokenizer, text) == full.encode(text).ids
    assert " " * 16 not in [token.content for token in tokenizer.control_tokens()]


def test_word_lookup_does_not_find_control_tokens() -> None:
    # ignore_merges, as in Llama 3, takes a word that stands in the vocabulary as it is.
    spec = json.loads(byte_level())
    spec["model"]["ignore_merges"] = True
    spec["pre_tokenizer"] = byte_level_step(use_regex=False)
    tokenizer = Tokenizer(ready(json.dumps(spec)))
    ids = plain_ids(tokenizer, "<|im_end|>")
    assert len(ids) > 1
    assert tokenizer.decode(ids) == "<|im_end|>"


@pytest.mark.parametrize("kind", ["metaspace first", "metaspace always", "prepend"])
def test_plain_segment_inside_a_prompt_is_prefixed_as_in_the_whole(kind: str) -> None:
    tokenizer = Tokenizer(ready(KINDS[kind]()))
    segments = [
        Segment("<|im_start|>", control=True),
        Segment("hello world"),
        Segment("<|im_end|>hello", control=True),
    ]
    expected = library(kind).encode("<|im_start|>hello world<|im_end|>hello", None, False, False)
    assert list(tokenizer.encode(segments, ALL).ids) == expected.ids


def test_all_ids_are_counted_but_only_the_first_kept() -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    ids = plain_ids(tokenizer, "hello 12345" * 2)
    encoded = tokenizer.encode([Segment("hello 12345"), Segment("hello 12345")], 3)
    assert encoded == EncodedPrompt(tuple(ids[:3]), len(ids))


def test_encoding_stops_between_two_pieces_when_it_is_cancelled() -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    looks = iter([False, False, True])
    with pytest.raises(Abandoned):
        tokenizer.encode_text("word " * PIECE, 1, lambda: next(looks))
    assert next(looks, None) is None


def test_text_prompt_is_framed_by_the_post_processor() -> None:
    tokenizer = Tokenizer(ready(metaspace("first")))
    text = "hello <s> world"
    bare = plain_ids(tokenizer, text)
    assert tokenizer.encode_text(text, ALL) == EncodedPrompt((1, *bare), len(bare) + 1)
    assert tokenizer.encode_text(text, 2) == EncodedPrompt((1, bare[0]), len(bare) + 1)


def test_text_prompt_is_framed_at_its_end_too() -> None:
    full = tokenizers.Tokenizer.from_str(byte_level())
    full.post_processor = tokenizers.processors.TemplateProcessing(
        "<s> $A </s>", None, [("<s>", 1), ("</s>", 2)]
    )
    tokenizer = Tokenizer(ready(full.to_str()))
    assert list(tokenizer.encode_text("hello", ALL).ids) == full.encode("hello").ids
    assert list(tokenizer.encode_text("", ALL).ids) == [1, 2]


def test_training_limits_in_the_file_are_ignored() -> None:
    full = tokenizers.Tokenizer.from_str(byte_level())
    full.enable_truncation(2)
    full.enable_padding(length=64)
    tokenizer = Tokenizer(ready(full.to_str()))
    text = "hello world, hello there"
    for control in (False, True):
        encoded = tokenizer.encode([Segment(text, control)], ALL)
        assert list(encoded.ids) == library("byte level").encode(text).ids


def test_threads_may_share_a_tokenizer() -> None:
    tokenizer = Tokenizer(ready(byte_level()))
    inputs = [f"hello {n} 世界 <think>" * 50 for n in range(8)]
    results: dict[str, list[int]] = {}

    def work(text: str) -> None:
        results[text] = plain_ids(tokenizer, text)

    threads = [threading.Thread(target=work, args=[text]) for text in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {text: plain_ids(tokenizer, text) for text in inputs}


def test_unreadable_tokenizer_is_a_model_error() -> None:
    for broken in ("", "{}", "[1]", '{"model": {"type": "Nope"}, "added_tokens": []}'):
        with pytest.raises(ModelError, match="The tokenizer cannot be read"):
            Tokenizer(ready(broken))


def test_unigram_keeps_its_other_words() -> None:
    tokenizer = Tokenizer(ready(unigram()))
    text = "hello there, user"
    assert plain_ids(tokenizer, text) == library("unigram").encode(text).ids


@pytest.mark.model
def test_smollm2_text_in_pieces_has_the_ids_of_the_whole() -> None:
    tokenizer, reference = Tokenizer(smollm2()), blind(smollm2().tokenizer_json)

    @settings(max_examples=300)
    @given(text=texts)
    def check(text: str) -> None:
        with patch("engine.tokenizer.PIECE", 3):
            assert plain_ids(tokenizer, text) == reference.encode(text).ids

    check()


@pytest.mark.model
def test_smollm2_plain_text_round_trips() -> None:
    tokenizer = Tokenizer(smollm2())

    @settings(max_examples=300)
    # Not any text: its vocabulary lacks some bytes, 0x16 and 0xF1 among them.
    @given(text=words)
    def check(text: str) -> None:
        assert tokenizer.decode(tokenizer.encode_text(text, ALL).ids) == text

    check()
