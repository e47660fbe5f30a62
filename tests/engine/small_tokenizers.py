"""Small tokenizers of the usual kinds, trained on the spot, and what a worker says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from engine.messages import Ready

SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
# Added, but not marked special, as Qwen3 has them.
ADDED = ["<think>", "</think>", "<tool_call>"]

CORPUS = [
    "The quick brown fox jumps over the lazy dog, doesn't it? Yes; it does.\n\nIt's 1234 or 56.\n",
    "def add(a, b):\n    return a + b  # adds\n\nfor i in range(10):\n\tprint(add(i, 2))\n",
    "中文没有空格。你好。世界。日本語もある。\nмышь ждёт дым\n",
    *["the end\n\n"] * 9,
    "user\nassistant\nsystem\nhello world, hello there\n" * 3,
]

# Pieces of text that pre-tokenizers, normalizers and byte-wise tokens are touchy about.
WORDS = [
    *(
        " ",
        "  ",
        "\n",
        "\n\n",
        "\nIt",
        "\t",
        "\r\n",
        "\u00a0",
        "\u3000",
        "hello",
        " world",
        "it's",
        "12",
    ),
    *("é", "e\u0301", "中文", "。", "👩\u200d👩\u200d👧", "🙂", "//", "};", "_", "الس", "\ufffd"),
    *("▁", "x" * 9, *SPECIAL, *ADDED, "<|im_", "|>", "<"),
]
words = st.lists(st.sampled_from(WORDS), max_size=40).map("".join)
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=40).map("".join)


def ready(tokenizer_json: str, template: str | None = None, **special_tokens: str) -> Ready:
    """A worker's Ready message with this tokenizer."""
    return Ready(tokenizer_json, template, special_tokens, (2,), 0, 32.0, "cpu", "float32")


@cache
def smollm2() -> Ready:
    """What the worker says of the real SmolLM2; for tests marked `model`."""
    # Imported here, since torch comes along.
    from engine.catalog import resolve
    from engine.config import EngineConfig
    from engine.loader import load_model

    return load_model(EngineConfig(resolve(None), ctx=512), lambda done, total: None).ready


@cache
def byte_level() -> str:
    """Byte-level BPE of SmolLM2's and Qwen's shape."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return _trained(tokenizer, alphabet=pre_tokenizers.ByteLevel.alphabet())


@cache
def metaspace(scheme: str) -> str:
    """BPE over words that begin with ▁, rare characters as bytes; a text begins with BOS."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    return _with_byte_fallback(_trained(tokenizer))


@cache
def prepend() -> str:
    """The older shape of the same: no pre-tokenizer, a normalizer that writes ▁."""
    spec = json.loads(metaspace("always"))
    spec["pre_tokenizer"] = None
    spec["normalizer"] = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ],
    }
    return json.dumps(spec)


@cache
def unigram() -> str:
    """A Unigram model, which holds its control tokens in the vocabulary."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=250, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer.to_str()


def _trained(tokenizer: Tokenizer, alphabet: list[str] | None = None) -> str:
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=SPECIAL,
        initial_alphabet=alphabet or [],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in ADDED])
    return tokenizer.to_str()


def _with_byte_fallback(tokenizer_json: str) -> str:
    spec = json.loads(tokenizer_json)
    vocab = spec["model"]["vocab"]
    first = max(token["id"] for token in spec["added_tokens"]) + 1
    vocab |= {token: first + n for n, token in enumerate(ADDED)}
    vocab |= {f"<0x{byte:02X}>": first + len(ADDED) + byte for byte in range(256)}
    for token in spec["added_tokens"]:
        token["id"] = vocab[token["content"]]
    spec["model"]["byte_fallback"] = True
    return json.dumps(spec)


KINDS: dict[str, Callable[[], str]] = {
    "byte level": byte_level,
    "metaspace first": lambda: metaspace("first"),
    "metaspace always": lambda: metaspace("always"),
    "metaspace never": lambda: metaspace("never"),
    "prepend": prepend,
    "unigram": unigram,
}
