from __future__ import annotations

import json
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from engine.errors import ModelError
from engine.gguf_header import Value
from engine.gguf_tokenizer import adds_bos, correct
from tests.engine.model_folders import CONTROL, MERGES, vocabulary

WIDE = "<\uff5cUser\uff5c>"
ONE_TO_THREE = r"\p{N}{1,3}|\P{N}+"


def metadata(pre: str, extra: list[str] | None = None) -> dict[str, Value]:
    tokens = vocabulary(extra or [])
    kinds = [3 if t in CONTROL or t == WIDE else 4 if t == "<think>" else 1 for t in tokens]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tuple(tokens),
        "tokenizer.ggml.token_type": tuple(kinds),
    }


def spec(extra: list[str] | None = None) -> dict[str, Any]:
    """A serialized tokenizer as transformers' converter leaves it: GPT-2's split."""
    vocab = {token: i for i, token in enumerate(vocabulary(extra or []))}
    merges = [(left, right) for left, right in map(str.split, MERGES)]
    backend = Tokenizer(models.BPE(vocab, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.add_special_tokens(CONTROL)
    data: dict[str, Any] = json.loads(backend.to_str())
    return data


def tokens(data: dict[str, Any], text: str) -> list[str]:
    encoding = Tokenizer.from_str(json.dumps(data)).encode(text)
    return list(encoding.tokens)


def test_each_digit_is_cut_out_before_anything_else() -> None:
    data = spec()
    assert tokens(data, "\n\n1") == ["Ċ", "Ċ", "1"]
    correct(data, metadata("smollm"), {})
    assert tokens(data, "\n\n1") == ["ĊĊ", "1"]
    assert tokens(data, "  1") == ["ĠĠ", "1"]


def test_kind_that_transformers_knows_is_left_alone() -> None:
    data = spec()
    correct(data, metadata("qwen2"), {"qwen2": ONE_TO_THREE})
    assert data["pre_tokenizer"]["type"] == "ByteLevel"


def test_kind_that_splits_like_another_gets_its_pattern() -> None:
    data = spec()
    correct(data, metadata("glm4"), {"llama-bpe": ONE_TO_THREE})
    assert data["pre_tokenizer"]["pretokenizers"][0]["pattern"] == {"Regex": ONE_TO_THREE}


@pytest.mark.parametrize("pre", ["gpt-2", "default"])
def test_gpt2_kind_keeps_gpt2s_split(pre: str) -> None:
    data = spec()
    correct(data, metadata(pre), {})
    assert data["pre_tokenizer"]["type"] == "ByteLevel"


def test_unknown_kind_is_refused_rather_than_split_wrongly() -> None:
    with pytest.raises(ModelError, match=r"\('bloom'\) is not known here"):
        correct(spec(), metadata("bloom"), {})


def test_other_tokenizer_models_are_left_alone() -> None:
    data, fields = spec(), metadata("bloom")
    fields["tokenizer.ggml.model"] = "llama"
    correct(data, fields, {})
    assert data == spec()


def test_llama3_takes_whole_words_without_merges() -> None:
    data = spec(["abab"])
    assert tokens(data, "abab") == ["ab", "ab"]
    correct(data, metadata("llama-bpe", ["abab"]), {"llama-bpe": r"\p{L}+"})
    assert tokens(data, "abab") == ["abab"]


def test_control_token_outside_the_byte_alphabet_keeps_its_id() -> None:
    data = spec([WIDE, "<think>"])
    ids = {token: i for i, token in enumerate(vocabulary([WIDE, "<think>"]))}
    vocab = data["model"]["vocab"]
    vocab["Ġrespelled"] = vocab.pop(WIDE)
    behind = {"id": 9999, "content": WIDE, "special": True}
    data["added_tokens"].append(data["added_tokens"][0] | behind)
    correct(data, metadata("gpt-2", [WIDE, "<think>"]), {})
    backend = Tokenizer.from_str(json.dumps(data))
    assert backend.encode(f"a{WIDE}<think>").ids == [ids["a"], ids[WIDE], ids["<think>"]]
    assert backend.get_vocab_size() == len(ids)
    backend.encode_special_tokens = True
    assert ids[WIDE] not in backend.encode(WIDE).ids


def test_bos_follows_the_file_then_the_kind() -> None:
    assert adds_bos(metadata("llama-bpe")) is True
    assert adds_bos(metadata("smollm")) is None
    assert adds_bos({**metadata("llama-bpe"), "tokenizer.ggml.add_bos_token": False}) is None
