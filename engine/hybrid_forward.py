"""How models with recurrent layers run over slots: batched, each prompt by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from transformers import PreTrainedModel

from engine.forward import Masks, SlotForward
from engine.hybrid_cache import STATE_TYPES, HybridCache


class HybridForward(SlotForward):
    """The class's own forward pass on all rows, which never sees a padded or an idle one.

    `resumes` tells whether the class takes up its state when several tokens follow (Jamba's
    recurrent layers start anew); if not, all chunks but the first go in token by token.
    """

    def __init__(self, model: PreTrainedModel, slots: int, ctx: int, resumes: bool) -> None:
        super().__init__(model, slots, ctx)
        self.slot_cache = HybridCache(model.config, slots, ctx)
        self._resumes = resumes

    def prefill(self, slot: int, token_ids: Sequence[int], start: int) -> torch.Tensor:
        """Compute tokens at `start` and on; return the last one's logits `[1, vocab]`."""
        if start == 0 or self._resumes:
            return super().prefill(slot, token_ids, start)
        pieces = [
            super(HybridForward, self).prefill(slot, [token_id], position)
            for position, token_id in enumerate(token_ids, start)
        ]
        return pieces[-1]

    def _attention_mask(self, masks: dict[str, torch.Tensor]) -> Masks:
        if not masks:
            return None
        by_type = super()._attention_mask(masks)
        assert isinstance(by_type, Mapping), "kinds of layers that differ have masks of their own"
        # Recurrent layers would need masks for padding only.
        return {**dict.fromkeys(STATE_TYPES), **by_type}
