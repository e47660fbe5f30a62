"""How models with recurrent layers run over slots: batched, each prompt by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from transformers import PreTrainedModel

from engine.forward import Masks, SlotForward, prefill_in_pieces
from engine.hybrid_cache import STATE_TYPES, HybridCache


class HybridForward(SlotForward):
    """The class's own forward pass on all rows, which never sees a padded or an idle one.

    `resumes` is that of `prefill_in_pieces`.
    """

    def __init__(self, model: PreTrainedModel, slots: int, ctx: int, resumes: bool) -> None:
        super().__init__(model, slots, ctx)
        self.slot_cache = HybridCache(model.config, slots, ctx)
        self._resumes = resumes

    def prefill(self, slot: int, token_ids: Sequence[int], start: int) -> torch.Tensor:
        """Compute tokens at `start` and on; return the last one's logits `[1, vocab]`."""
        run = super().prefill
        return prefill_in_pieces(
            lambda ids, at: run(slot, ids, at), token_ids, start, self._resumes
        )

    def _attention_mask(self, masks: dict[str, torch.Tensor]) -> Masks:
        if not masks:
            return None
        by_type = super()._attention_mask(masks)
        assert isinstance(by_type, Mapping), "kinds of layers that differ have masks of their own"
        # Recurrent layers would need masks for padding only.
        return {**dict.fromkeys(STATE_TYPES), **by_type}
