"""Corrections to the tokenizer that transformers builds from a GGUF file.

Its converter knows some of the ways in which vocabularies split text (`tokenizer.ggml.pre`) and
takes GPT-2's way for the rest, which gives wrong ids on, for one, a number after blank lines.
"""

from __future__ import annotations

from typing import Any

from engine.errors import ModelError
from engine.gguf_header import Value

Spec = dict[str, Any]
Metadata = dict[str, Value]

# The names are llama.cpp's, and so is which name splits how (src/llama-vocab.cpp).
_GPT2 = {
    *("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "gigachat"),
    *("jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "exaone4"),
    *("modern-bert", "default"),
}
_EACH_DIGIT = {
    *("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
}
_SAME_SPLIT = {
    "stablelm2": "qwen2",
    "hunyuan": "qwen2",
    "glm4": "llama-bpe",
    "chatglm-bpe": "llama-bpe",
}
# These take a word that is in the vocabulary whole, without trying merges, and begin with BOS.
_WHOLE_WORDS = {
    *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    "tekken",
}
_CONTROL, _USER_DEFINED = 3, 4


def adds_bos(metadata: Metadata) -> bool | None:
    """Tell whether plain text begins with BOS where the file does not say so itself."""
    if "tokenizer.ggml.add_bos_token" in metadata:
        return None
    return True if metadata.get("tokenizer.ggml.pre") in _WHOLE_WORDS else None


def correct(spec: Spec, metadata: Metadata, known_splits: dict[str, str]) -> None:
    """Correct a serialized tokenizer in place; `known_splits` are transformers' own, by name.

    Raises ModelError when nobody here knows how the vocabulary splits text.
    """
    if metadata.get("tokenizer.ggml.model") != "gpt2":
        return
    pre = str(metadata.get("tokenizer.ggml.pre", "default"))
    _correct_split(spec, pre, known_splits)
    if pre in _WHOLE_WORDS:
        spec["model"]["ignore_merges"] = True
    _correct_added_tokens(spec, metadata)


def _correct_split(spec: Spec, pre: str, known_splits: dict[str, str]) -> None:
    if pre in _EACH_DIGIT:
        spec["pre_tokenizer"] = _split_then_bytes(r"\p{N}", gpt2_after=True)
    elif pre in _SAME_SPLIT:
        spec["pre_tokenizer"] = _split_then_bytes(known_splits[_SAME_SPLIT[pre]], gpt2_after=False)
    elif pre not in known_splits and pre not in _GPT2:
        raise ModelError(
            f"the way its tokenizer splits text ({pre[:40]!r}) is not known here. "
            "Use the model's safetensors folder"
        )


def _split_then_bytes(pattern: str, gpt2_after: bool) -> Spec:
    """Return a pre-tokenizer: cut out each match, then spell in bytes, cut as GPT-2 does or not."""
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    spell = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": gpt2_after,
    }
    return {"type": "Sequence", "pretokenizers": [split, spell]}


def _correct_added_tokens(spec: Spec, metadata: Metadata) -> None:
    """Give every control and user-defined token its own id and spelling.

    The converter respells those with characters outside the byte alphabet (DeepSeek's wide bars)
    and adds the end-of-text token again behind the vocabulary, where the model has no row for it.
    """
    tokens = metadata.get("tokenizer.ggml.tokens", ())
    kinds = metadata.get("tokenizer.ggml.token_type", ())
    if not isinstance(tokens, tuple) or not isinstance(kinds, tuple):
        return
    marked = {
        i: (str(token), kind == _CONTROL)
        for i, (token, kind) in enumerate(zip(tokens, kinds, strict=False))
        if kind in (_CONTROL, _USER_DEFINED) and token
    }
    vocab: dict[str, int] = spec["model"]["vocab"]
    for spelling in [s for s, i in vocab.items() if i in marked]:
        del vocab[spelling]
    vocab.update({token: i for i, (token, _) in marked.items()})
    kept = [a for a in spec["added_tokens"] if a["id"] < len(tokens) and a["id"] not in marked]
    added = [_added_token(i, token, special) for i, (token, special) in marked.items()]
    spec["added_tokens"] = sorted(kept + added, key=lambda a: int(a["id"]))


def _added_token(token_id: int, content: str, special: bool) -> Spec:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": content, **flags, "special": special}
