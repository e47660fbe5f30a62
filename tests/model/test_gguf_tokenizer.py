"""llama.cpp is the oracle: the same file must give the same ids (recorded in tests/data)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from engine.catalog import resolve
from engine.config import EngineConfig
from engine.loader import load_model
from engine.messages import Ready

RECORDED = Path(__file__).parents[1] / "data" / "smollm2_llama_cpp_ids.json"
ROWS: list[dict[str, Any]] = json.loads(RECORDED.read_text("utf-8"))["texts"]

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def ready() -> Ready:
    config = EngineConfig(resolve(None), ctx=512, device="cpu")
    return load_model(config, lambda done, total: None).ready


@pytest.fixture(params=["plain", "control"])
def tokenizer(request: pytest.FixtureRequest, ready: Ready) -> tuple[str, Tokenizer]:
    """The tokenizer with control-token spellings taken as text, and as tokens."""
    tokenizer = Tokenizer.from_str(ready.tokenizer_json)
    tokenizer.encode_special_tokens = request.param == "plain"
    return request.param, tokenizer


def test_ids_are_llama_cpps(tokenizer: tuple[str, Tokenizer]) -> None:
    kind, ours = tokenizer
    different = [
        row["text"]
        for row in ROWS
        if ours.encode(row["text"], add_special_tokens=False).ids != row[kind]
    ]
    assert different == []


def test_no_special_tokens_are_added_to_plain_text(tokenizer: tuple[str, Tokenizer]) -> None:
    kind, ours = tokenizer
    assert all(ours.encode(row["text"]).ids == row[kind] for row in ROWS)


def test_decoding_gives_the_text_back(tokenizer: tuple[str, Tokenizer]) -> None:
    _, ours = tokenizer
    for row in ROWS:
        ids = ours.encode(row["text"]).ids
        assert ours.decode(ids, skip_special_tokens=False) == row["text"]


def test_smollm2_is_loaded_as_it_is(ready: Ready) -> None:
    assert ready.eos_token_ids == (0, 2)
    assert ready.weight_bytes == 134_515_008 * 4
    assert ready.bits_per_weight == 32
    assert ready.chat_template is not None and "SmolLM" in ready.chat_template
