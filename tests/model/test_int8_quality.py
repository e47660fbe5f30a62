"""The gate that int8 has to pass to be the default: perplexity within 1 % of float32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.catalog import resolve
from engine.kv_cache import SlotCache
from engine.lean_model import LeanModel, build_lean
from engine.loader import converted
from engine.model_files import read_header
from engine.weight_format import Int8Format, PlainFormat

pytestmark = pytest.mark.model
ROOT = Path(__file__).parents[2]
# Texts that do not change.
TEXTS = [ROOT / "LICENSE", *sorted((ROOT / "docs/decisions").glob("000[1-9]-*.md"))]
PIECE = 512


def logits_of(model: LeanModel, config: object, ids: list[int]) -> torch.Tensor:
    """Logits `[len(ids), vocab]` of a piece of text read in one pass."""
    cache = SlotCache(config, 1, PIECE)
    window = cache.open([0], torch.arange(len(ids))[None], [len(ids)])
    return model.head(model.hidden(torch.tensor([ids]), cache, window)[0])


@torch.inference_mode()
def test_perplexity_is_within_one_percent_of_float32(capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(1)
    path = resolve(None).path
    folder = converted(path, read_header(path), "float32", lambda done, total: None)
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()
    ids = AutoTokenizer.from_pretrained(str(folder))("\n".join(t.read_text() for t in TEXTS))
    pieces = [ids.input_ids[i : i + PIECE] for i in range(0, len(ids.input_ids), PIECE)]
    exact, rounded = build_lean(model, PlainFormat()), build_lean(model, Int8Format())
    losses, agreed = torch.zeros(2), 0
    for piece in pieces:
        both = [logits_of(lean, model.config, piece) for lean in (exact, rounded)]
        targets = torch.tensor(piece[1:])
        losses += torch.stack([F.cross_entropy(g[:-1], targets, reduction="sum") for g in both])
        agreed += int((both[0].argmax(-1) == both[1].argmax(-1)).sum())
    tokens = len(ids.input_ids)
    plain, int8 = (losses / tokens).exp().tolist()
    with capsys.disabled():
        print(f"\nperplexity {plain:.3f} in float32, {int8:.3f} in int8", end="")
        print(f" ({int8 / plain - 1:+.2%}); same likeliest token {agreed / tokens:.1%} of {tokens}")
    assert int8 < 1.01 * plain
    assert agreed > 0.9 * tokens
