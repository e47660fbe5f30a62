"""How much memory a model will take, before any weight is read; never imports torch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import PREFILL_CHUNK
from engine.model_files import DTYPE_BYTES, ModelHeader
from engine.native_compiler import int8_kernels_expected

# The worker without weights and cache: Python, torch, transformers, tokenizer (SmolLM2).
WORKER_BYTES = 380_000_000


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes of a worker at its peak: weights, cache of all slots, and everything else.

    On the CPU the cache takes memory as it fills; this is with all slots full.
    """

    weights_bytes: int
    cache_bytes: int
    overhead_bytes: int

    @property
    def total_bytes(self) -> int:
        """Return the sum of the three."""
        return self.weights_bytes + self.cache_bytes + self.overhead_bytes


def expected_quant(header: ModelHeader, dtype: str, quant: str) -> str:
    """What a `quant` of auto will come to on the CPU: int8, or none.

    Only the worker knows for sure, as it compares the logits of both.
    """
    if quant != "auto":
        return quant
    return "int8" if header.is_lean and dtype == "auto" and int8_kernels_expected() else "none"


def estimate_memory(
    header: ModelHeader, dtype: str, quant: str, ctx: int, slots: int
) -> MemoryEstimate:
    """Estimate the worker's memory for `slots` slots of `ctx` tokens.

    A `dtype` of auto counts as float32, a `quant` as what it is expected to come to. The cache
    counts sliding-window layers as full ones and leaves out linear layers' constant state. Keys
    and values: 2 x layers x heads x head size x bytes a token.
    """
    width = DTYPE_BYTES.get(dtype, 4)
    token = 2 * header.cache_layers * header.kv_heads * header.head_dim * width
    # Embedding and head are laid out differently, so tied ones are stored twice.
    stored = header.parameters + header.embedding * header.is_tied
    is_int8 = expected_quant(header, dtype, quant) == "int8"
    weights, cache = stored * (1 if is_int8 else width), token * ctx * slots
    # While loading the class runs once on the mapped file; then weights are laid out anew, the
    # head, the largest, last.
    loading = max(header.parameters * width, weights + header.embedding * width)
    steps = PREFILL_CHUNK * header.vocab_size * 4
    return MemoryEstimate(weights, cache, WORKER_BYTES + max(loading - weights - cache, steps))
