"""How a model runs over slots: batched by its class or leanly, or one by one."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from engine.kv_cache import SlotCache
from engine.lean_model import LeanModel
from engine.packed_linear import StoredWeights, stored_weights

# One mask for all layers, one for each kind of layer, or none.
Masks = torch.Tensor | Mapping[str, torch.Tensor | None] | None


class Forward(Protocol):
    """The model over slots: `prefill` one of them, `decode` a few tokens of many.

    `slot_cache` holds every token's state in a place of its own, so that single tokens can be
    computed again, dropped and copied; None where there is none of ours. If it is not `cuttable`,
    the recurrent states of a slot stand after all of its tokens.
    """

    @property
    def slot_cache(self) -> SlotCache | None:
        """The keys and values of all slots."""

    @property
    def weights(self) -> StoredWeights:
        """What the weights take in memory."""

    def prefill(self, slot: int, token_ids: Sequence[int], start: int) -> torch.Tensor:
        """Compute tokens at `start` and on; return the last one's logits `[1, vocab]`."""

    def decode(
        self, slots: Sequence[int], token_ids: Sequence[Sequence[int]], positions: Sequence[int]
    ) -> torch.Tensor:
        """Compute each slot's tokens from its position on; return logits `[all tokens, vocab]`.

        Each slot takes one token where the `slot_cache` is missing or not `cuttable`.
        """


class _RowForward(ABC):
    """Puts slots into rows of one set of tensors: rows of different lengths decode in one call."""

    slot_cache: SlotCache

    def prefill(self, slot: int, token_ids: Sequence[int], start: int) -> torch.Tensor:
        """Compute tokens at `start` and on; return the last one's logits `[1, vocab]`."""
        end = start + len(token_ids)
        return self._run([slot], [list(token_ids)], [list(range(start, end))], 1)[:, 0]

    def decode(
        self, slots: Sequence[int], token_ids: Sequence[Sequence[int]], positions: Sequence[int]
    ) -> torch.Tensor:
        """Compute each slot's tokens from its position on; return logits `[all tokens, vocab]`."""
        order = [slots.index(slot) for slot in self.slot_cache.align(slots)]
        longest = max(len(row) for row in token_ids)
        places = [
            range(start, start + len(row)) for start, row in zip(positions, token_ids, strict=True)
        ]
        logits = self._run(
            [slots[i] for i in order],
            [_padded(token_ids[i], longest) for i in order],
            [_padded(places[i], longest) for i in order],
            longest,
        ).flatten(0, 1)
        rows = [order.index(i) * longest for i in range(len(slots))]
        wanted = [r + k for r, row in zip(rows, token_ids, strict=True) for k in range(len(row))]
        return logits if wanted == list(range(len(logits))) else logits[wanted]

    @abstractmethod
    def _run(
        self, slots: list[int], token_ids: list[list[int]], positions: list[list[int]], keep: int
    ) -> torch.Tensor:
        """Compute `[n, q]` tokens of aligned slots.

        Returns logits `[n, keep, vocab]` of each row's last `keep` tokens.
        """


class SlotForward(_RowForward):
    """The class's own forward pass on all rows."""

    def __init__(self, model: PreTrainedModel, slots: int, ctx: int) -> None:
        self.model = model
        self._config = model.config.get_text_config(decoder=True)
        self.slot_cache = SlotCache(model.config, slots, ctx)

    @property
    def weights(self) -> StoredWeights:
        """What the weights take in memory."""
        return stored_weights([self.model])

    def _run(
        self, slots: list[int], token_ids: list[list[int]], positions: list[list[int]], keep: int
    ) -> torch.Tensor:
        where = torch.tensor(positions, device=self.model.device)
        window = self.slot_cache.open(slots, where, [row[-1] + 1 for row in positions])
        output = self.model(
            input_ids=torch.tensor(token_ids, device=self.model.device),
            position_ids=where,
            attention_mask=self._attention_mask(self.slot_cache.masks(window)),
            cache=self.slot_cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        # A class that does not know the argument gives them all.
        return output.logits[:, -keep:]  # type: ignore[no-any-return]

    def _attention_mask(self, masks: dict[str, torch.Tensor]) -> Masks:
        if self._config._attn_implementation == "eager":
            lowest = torch.finfo(self.model.dtype).min
            zero = torch.zeros((), dtype=self.model.dtype, device=self.model.device)
            masks = {name: torch.where(mask, zero, lowest) for name, mask in masks.items()}
        # Classes with several kinds of layers take a mask for each, as `generate` gives them.
        if getattr(self._config, "layer_types", None) is None:
            return next(iter(masks.values()))
        return masks


class LeanForward(_RowForward):
    """A lean model on all rows."""

    def __init__(self, model: LeanModel, config: PreTrainedConfig, slots: int, ctx: int) -> None:
        self.model = model
        self.slot_cache = SlotCache(config, slots, ctx)

    @property
    def weights(self) -> StoredWeights:
        """What the weights take in memory."""
        return self.model.weights

    def _run(
        self, slots: list[int], token_ids: list[list[int]], positions: list[list[int]], keep: int
    ) -> torch.Tensor:
        device = self.model.device
        where = torch.tensor(positions, device=device)
        window = self.slot_cache.open(slots, where, [row[-1] + 1 for row in positions])
        tokens = torch.tensor(token_ids, device=device)
        return self.model.logits(tokens, self.slot_cache, window, keep)


class SequenceForward:
    """A cache object of transformers for each slot, stepped one by one: right for every class.

    Recurrent and convolution states cannot be padded or cut, so rows are never put together.
    `resumes` is that of `prefill_in_pieces`.
    """

    slot_cache: SlotCache | None = None

    def __init__(self, model: PreTrainedModel, slots: int, resumes: bool) -> None:
        self._model = model
        self._resumes = resumes
        # Where a class knows positions, it may not count them itself (Bamba's begins at 0 again).
        self._knows_positions = "position_ids" in inspect.signature(model.forward).parameters
        self._caches: list[DynamicCache | None] = [None] * slots

    @property
    def weights(self) -> StoredWeights:
        """What the weights take in memory."""
        return stored_weights([self._model])

    def prefill(self, slot: int, token_ids: Sequence[int], start: int) -> torch.Tensor:
        """Compute tokens at `start` and on; return the last one's logits `[1, vocab]`."""
        if start == 0:
            self._caches[slot] = DynamicCache(config=self._model.config)
        return prefill_in_pieces(
            lambda ids, at: self._run(slot, ids, at), token_ids, start, self._resumes
        )

    def decode(
        self, slots: Sequence[int], token_ids: Sequence[Sequence[int]], positions: Sequence[int]
    ) -> torch.Tensor:
        """Compute one token for each slot; return logits `[n, vocab]`."""
        return torch.cat(list(map(self._run, slots, token_ids, positions)))

    def _run(self, slot: int, token_ids: Sequence[int], start: int) -> torch.Tensor:
        positions = list(range(start, start + len(token_ids)))
        ids, where = torch.tensor([token_ids, positions], device=self._model.device)
        output = self._model(
            input_ids=ids[None],
            cache=self._caches[slot],
            use_cache=True,
            logits_to_keep=1,
            **({"position_ids": where[None]} if self._knows_positions else {}),
        )
        return output.logits[:, -1]  # type: ignore[no-any-return]


def prefill_in_pieces(
    run: Callable[[Sequence[int], int], torch.Tensor],
    token_ids: Sequence[int],
    start: int,
    resumes: bool,
) -> torch.Tensor:
    """Call `run(token_ids, start)` and give what it returns for the last token.

    `resumes` tells whether the class takes up its state when several tokens follow (Jamba's
    recurrent layers start anew); if not, all chunks but the first go in token by token.
    """
    if start == 0 or resumes:
        return run(token_ids, start)
    pieces = [run([token_id], position) for position, token_id in enumerate(token_ids, start)]
    return pieces[-1]


def _padded(row: Sequence[int], length: int) -> list[int]:
    # The last token again, at its own place: it writes there what is there, and disturbs nothing.
    return [*row, *[row[-1]] * (length - len(row))]
