"""What rounding to int8 costs the default model in quality.

    OMP_NUM_THREADS=1 python -m bench.quality

Prints Markdown: the perplexity of a fixed text, how often the likeliest next token is the one of
float32, and how far greedy answers go before they differ from float32's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from bench.figures import Figures, table
from engine.catalog import resolve
from engine.config import EngineConfig
from engine.forward import LeanForward
from engine.host_cache import common_prefix
from engine.loader import load_model
from engine.model_runner import TransformersRunner

_ROOT = Path(__file__).parents[1]
# Texts that do not change.
_TEXTS = [_ROOT / "LICENSE", *sorted((_ROOT / "docs/decisions").glob("000[1-9]-*.md"))]
_PIECE = 512
_PROMPTS, _PROMPT, _ANSWER = 20, 48, 32


@dataclass(frozen=True, slots=True)
class Loaded:
    """The default model as the worker runs it, with the fixed text in its tokens."""

    forward: LeanForward
    token_ids: list[int]

    @property
    def pieces(self) -> list[list[int]]:
        """The text in pieces that are read each on its own."""
        ids = self.token_ids
        return [ids[start : start + _PIECE] for start in range(0, len(ids), _PIECE)]


@dataclass(frozen=True, slots=True)
class Quality:
    """Perplexity in float32 and in int8, and the share of places with the same likeliest token."""

    float32: float
    int8: float
    agreement: float


def load(quant: str) -> Loaded:
    """Load the default model with its weights rounded as `quant` says."""
    config = EngineConfig(resolve(None), _PIECE, _PROMPTS, device="cpu", quant=quant)
    loaded = load_model(config, lambda done, total: None)
    forward = TransformersRunner(loaded.model, config).forward
    assert isinstance(forward, LeanForward), "the default model has a lean path"
    text = "\n".join(path.read_text(encoding="utf-8") for path in _TEXTS)
    ids = Tokenizer.from_str(loaded.ready.tokenizer_json).encode(text).ids
    return Loaded(forward, ids)


@torch.inference_mode()
def compare(exact: Loaded, rounded: Loaded) -> Quality:
    """Read the text with both."""
    losses, agreed = torch.zeros(2), 0
    for piece in exact.pieces:
        both = [_logits(loaded.forward, piece) for loaded in (exact, rounded)]
        targets = torch.tensor(piece[1:])
        losses += torch.stack([F.cross_entropy(g[:-1], targets, reduction="sum") for g in both])
        agreed += int((both[0].argmax(-1) == both[1].argmax(-1)).sum())
    read = len(exact.token_ids)
    # A piece's first token is not guessed.
    float32, int8 = (losses / (read - len(exact.pieces))).exp().tolist()
    return Quality(float32, int8, agreed / read)


def _logits(forward: LeanForward, ids: list[int]) -> torch.Tensor:
    """Logits `[len(ids), vocab]` of a piece of text read in one pass."""
    window = forward.slot_cache.open([0], torch.arange(len(ids))[None], [len(ids)])
    return forward.model.logits(torch.tensor([ids]), forward.slot_cache, window, len(ids))[0]


@torch.inference_mode()
def answer(loaded: Loaded) -> list[list[int]]:
    """Greedy answers to prompts from all over the text, computed together."""
    starts = range(0, len(loaded.token_ids) - _PROMPT, len(loaded.token_ids) // _PROMPTS)
    prompts = [loaded.token_ids[start : start + _PROMPT] for start in starts]
    forward, slots = loaded.forward, range(len(prompts))
    steps = [torch.cat([forward.prefill(slot, prompts[slot], 0) for slot in slots]).argmax(-1)]
    for place in range(_PROMPT, _PROMPT + _ANSWER - 1):
        logits = forward.decode(slots, steps[-1][:, None].tolist(), [place] * len(slots))
        steps.append(logits.argmax(-1))
    answers: list[list[int]] = torch.stack(steps, dim=1).tolist()
    return answers


def figures(quality: Quality, answers: Sequence[tuple[list[int], list[int]]]) -> Figures:
    """The rows of the report; `answers` are pairs of float32's and int8's."""
    same = [common_prefix(exact, rounded) for exact, rounded in answers]
    return {
        "perplexity float32": quality.float32,
        "perplexity int8": quality.int8,
        "perplexity %": 100 * (quality.int8 / quality.float32 - 1),
        "same likeliest token %": 100 * quality.agreement,
        "greedy answers": len(same),
        "of them the same to the end": sum(length == _ANSWER for length in same),
        "tokens before they differ": sum(same) / len(same),
    }


def main() -> None:
    """Measure and print."""
    exact, rounded = load("none"), load("int8")
    answers = list(zip(answer(exact), answer(rounded), strict=True))
    title = f"{len(exact.token_ids)} tokens; answers of {_ANSWER}"
    print(table(title, {"SmolLM2-135M": figures(compare(exact, rounded), answers)}))


if __name__ == "__main__":
    main()
