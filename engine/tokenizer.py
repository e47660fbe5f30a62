"""Text to token ids and back: the server's side of the model's tokenizer, without torch."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import tokenizers

from engine.errors import ModelError
from engine.messages import Ready
from engine.text_pool import Abandoned, Cancelled, never

# One `encode` of 8 MB takes 1.2 GB of memory, so long texts are encoded in pieces.
PIECE = 32_768
# Without a place to cut a piece may grow to this, which takes 80 MB.
LONGEST_PIECE = 16 * PIECE

_EMPTY_MODEL = {"type": "BPE", "vocab": {}, "merges": []}
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")

# Normalizers that work character by character and pre-tokenizers that look no further than a
# word: only with these does a cut between words leave everything else as it is.
_LOCAL_STEPS = frozenset(
    {
        *("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Prepend"),
        *("ByteLevel", "Split", "Digits", "Metaspace", "Punctuation", "Whitespace"),
        *("WhitespaceSplit", "Sequence"),
    }
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a prompt; control tokens are recognised in it only where `control` is set.

    A segment with `control` that is not the prompt's first begins with a control token.
    """

    text: str
    control: bool = False


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """The first `ids` of a prompt that has `total` tokens."""

    ids: tuple[int, ...]
    total: int


def is_control(content: str) -> bool:
    """Whether an added token is a control token; runs of whitespace are words like others."""
    return bool(content.strip(" \t\r\n▁"))


def _byte_characters() -> dict[str, int]:
    """How byte-level vocabularies spell each byte (GPT-2's encoder.py, bytes_to_unicode)."""
    spelled = {chr(b): b for b in (*range(33, 127), *range(161, 173), *range(174, 256))}
    others = (b for b in range(256) if b not in spelled.values())
    return spelled | {chr(256 + n): b for n, b in enumerate(others)}


_BYTES = _byte_characters()


class Tokenizer:
    """The model's tokenizer; safe to use from several threads.

    Three tokenizers share one vocabulary: one that recognises control tokens, one that takes their
    spellings for plain text, and one for plain text that continues a text, which therefore gets no
    prefix space. Raises ModelError when the tokenizer cannot be read.
    """

    def __init__(self, ready: Ready) -> None:
        try:
            spec = json.loads(ready.tokenizer_json)
            self._full = tokenizers.Tokenizer.from_str(ready.tokenizer_json)
            self._plain = _plain_tokenizer(self._full, spec, spec)
            self._continued = _plain_tokenizer(self._full, spec, _without_prefix(spec))
        except Exception as error:  # the library raises bare Exception
            raise ModelError(f"The tokenizer cannot be read: {error}") from error
        # A tokenizer.json may come with its training run's limits.
        self._full.no_truncation()
        self._full.no_padding()
        self._prefix_at_start_only = any(
            step.get("prepend_scheme") == "first" for step in _steps(spec["pre_tokenizer"])
        )
        self._byte_level = "ByteLevel" in {step["type"] for step in _steps(spec["decoder"])}
        self._special = {
            id: token.content
            for id, token in self._full.get_added_tokens_decoder().items()
            if token.special
        }
        self._token_bytes: dict[int, bytes] = {}
        self._frame = _frame(self._full)
        self._cut = self._cut_pattern(spec)

    def control_tokens(self) -> list[tokenizers.AddedToken]:
        """The added tokens, special or not, that text must not produce by spelling them."""
        added = self._full.get_added_tokens_decoder().values()
        return [token for token in added if is_control(token.content)]

    def encode(
        self, segments: Iterable[Segment], limit: int, cancelled: Cancelled = never
    ) -> EncodedPrompt:
        """Encode a rendered prompt, keeping at most `limit` ids but counting all.

        Raises Abandoned between two pieces once it is `cancelled`.
        """
        ids: list[int] = []
        total = 0
        for tokenizer, text in self._pieces(segments):
            if cancelled():
                raise Abandoned
            # Unlike `encode`, the batch call releases the GIL, and it computes no offsets.
            encoding = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0]
            total += len(encoding)
            if len(ids) < limit:
                ids += encoding.ids[: limit - len(ids)]
        return EncodedPrompt(tuple(ids), total)

    def encode_text(self, text: str, limit: int, cancelled: Cancelled = never) -> EncodedPrompt:
        """Encode a plain text, framed as the tokenizer's own post-processor frames texts.

        A control token spelled in `text` is plain text. The rest is as in `encode`.
        """
        before, after = self._frame
        bare = self.encode([Segment(text)], limit, cancelled)
        return EncodedPrompt(
            (*before, *bare.ids, *after)[:limit], len(before) + bare.total + len(after)
        )

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, special tokens left out."""
        return self._full.decode(list(ids), skip_special_tokens=True)

    def special_token(self, token_id: int) -> str | None:
        """How a token is spelled that is left out of text; None for the others."""
        return self._special.get(token_id)

    def token_bytes(self, token_id: int, first: bool) -> bytes:
        """The UTF-8 bytes a token adds to a text, `first` when it begins one.

        Some decoders drop the space before a text's first word. Ids without a token give nothing.
        """
        if first:
            text = self.decode([token_id])
            return self.token_bytes(token_id, False) if "\ufffd" in text else text.encode()
        known = self._token_bytes.get(token_id)
        if known is None:
            known = self._token_bytes[token_id] = self._find_bytes(token_id)
        return known

    def _find_bytes(self, token_id: int) -> bytes:
        # What a token adds after another is seen by decoding it after itself.
        once, twice = self.decode([token_id]), self.decode([token_id, token_id])
        if "\ufffd" not in twice:
            return twice[len(once) :].encode()
        token = self._full.id_to_token(token_id) or ""
        if self._byte_level and all(character in _BYTES for character in token):
            return bytes(_BYTES[character] for character in token)
        if byte := _BYTE_TOKEN.fullmatch(token):
            return bytes([int(byte[1], 16)])
        return twice[len(once) :].encode()

    def _pieces(self, segments: Iterable[Segment]) -> Iterator[tuple[tokenizers.Tokenizer, str]]:
        for index, segment in enumerate(segments):
            if segment.control:
                yield self._full, segment.text
                continue
            continues = index > 0 and self._prefix_at_start_only
            for text in self._split(segment.text):
                yield self._continued if continues else self._plain, text
                continues = True

    def _split(self, text: str) -> Iterator[str]:
        """Cut a long text where its ids stay the same.

        After `LONGEST_PIECE` characters without such a place it is cut anyway: there, and only
        there, ids may differ from those of the whole.
        """
        start = 0
        while start < len(text):
            longest = start + LONGEST_PIECE
            cut = self._cut.search(text, start + PIECE, longest + 1) if self._cut else None
            end = cut.start() if cut else min(longest, len(text))
            yield text[start:end]
            start = end

    def _cut_pattern(self, spec: dict[str, Any]) -> re.Pattern[str] | None:
        """Where a long text may be cut without changing its ids, or None for nowhere.

        BPE and Unigram treat both sides of a place alone when no vocabulary entry reaches over it.
        The places: before a space after a word, and after a single newline before a word, where
        every usual pre-tokenizer cuts too and none looks across.
        """
        steps = _steps([spec["normalizer"], spec["pre_tokenizer"]])
        if spec["model"]["type"] not in ("BPE", "Unigram") or not all(map(_is_local, steps)):
            return None
        before_space = self._reaching(r".(?= )", " ", "Ġ", "▁")
        after_newline = self._reaching(r"(?<=\n).", "\n", "Ċ")
        space = rf"(?<=[^\s{before_space}])(?= )"
        newline = rf"(?<=\S\n)(?=[^\W_{after_newline}])"
        # An unknown newline may be fused with its unknown neighbours.
        known = any(self._full.token_to_id(t) is not None for t in ("Ċ", "\n", "<0x0A>"))
        return re.compile(f"{space}|{newline}" if known else space)

    def _reaching(self, neighbour: str, *spellings: str) -> str:
        """The characters, for use in a regex class, that share an entry with a cut's own."""
        found: set[str] = set()
        for token, token_id in self._full.get_vocab().items():
            if len(token) > 1 and any(spelling in token for spelling in spellings):
                text = self.token_bytes(token_id, False).decode("utf-8", "replace")
                found.update(re.findall(neighbour, text))
        # A part of a character may be a part of any.
        partial = r"\x80-\U0010ffff" if "\ufffd" in found else ""
        return re.escape("".join(sorted(found))) + partial


def _plain_tokenizer(
    full: tokenizers.Tokenizer, spec: dict[str, Any], steps: dict[str, Any]
) -> tokenizers.Tokenizer:
    """A tokenizer over `full`'s vocabulary that takes control tokens' spellings for text."""
    shell = {**steps, "model": _EMPTY_MODEL, "added_tokens": [], "post_processor": None}
    plain = tokenizers.Tokenizer.from_str(
        json.dumps({**shell, "truncation": None, "padding": None})
    )
    plain.model = _unspelled_model(full, spec)
    plain.add_tokens(
        [
            tokenizers.AddedToken(**_flags(token), special=is_control(token["content"]))
            for token in spec["added_tokens"]
        ]
    )
    plain.encode_special_tokens = True
    return plain


def _flags(token: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in token.items() if name not in ("id", "special")}


def _unspelled_model(full: tokenizers.Tokenizer, spec: dict[str, Any]) -> tokenizers.models.Model:
    """The model of `full`, shared where it cannot find a control token in plain text by itself.

    Unigram, and BPE with `ignore_merges`, look whole words up in the vocabulary: there control
    tokens get names that nobody can spell.
    """
    model = spec["model"]
    control = {t["content"] for t in spec["added_tokens"] if is_control(t["content"])}
    hidden = secrets.token_hex(16)
    source = full
    if model["type"] == "Unigram":
        source = _bare(model, [[hidden * (p in control) + p, s] for p, s in model["vocab"]])
    elif model.get("ignore_merges") and not control.isdisjoint(model["vocab"]):
        control -= {"".join(pair) for pair in model["merges"]} | {model.get("unk_token")}
        source = _bare(model, {hidden * (t in control) + t: i for t, i in model["vocab"].items()})
    shared: tokenizers.models.Model = source.model
    return shared


def _bare(model: dict[str, Any], vocab: Any) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(json.dumps({"model": {**model, "vocab": vocab}}))


def _steps(step: Any) -> Iterator[dict[str, Any]]:
    """Every step in a tree of normalizers, pre-tokenizers or decoders."""
    if isinstance(step, list):
        for part in step:
            yield from _steps(part)
    elif isinstance(step, dict):
        yield step
        for name in ("normalizers", "pretokenizers", "decoders"):
            yield from _steps(step.get(name))


def _is_local(step: dict[str, Any]) -> bool:
    if step["type"] == "Replace":
        return "String" in step["pattern"]
    return step["type"] in _LOCAL_STEPS


def _without_prefix(step: Any) -> Any:
    """The tokenizer's JSON with every step that puts a space before a text switched off."""
    if isinstance(step, list):
        return [_without_prefix(part) for part in step if not _is_prepend(part)]
    if not isinstance(step, dict):
        return step
    changed = {
        name: _without_prefix(part)
        for name, part in step.items()
        if name in ("normalizer", "normalizers", "pre_tokenizer", "pretokenizers")
    }
    off = {"add_prefix_space": False, "prepend_scheme": "never"}
    switches = {name: value for name, value in off.items() if name in step}
    if _is_prepend(step.get("normalizer")):
        changed["normalizer"] = None
    return {**step, **changed, **switches}


def _is_prepend(step: Any) -> bool:
    return isinstance(step, dict) and step.get("type") == "Prepend"


def _frame(full: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that the post-processor puts before and after a text."""
    bare = full.encode("a", add_special_tokens=False).ids
    framed = full.encode("a", add_special_tokens=True).ids
    for start in range(len(framed) - len(bare) + 1):
        if framed[start : start + len(bare)] == bare:
            return framed[:start], framed[start + len(bare) :]
    return [], []
