"""Runs a transformers model on the scheduler's batches: the only file that calls the model."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from transformers import DynamicCache, PreTrainedModel

from engine.config import EngineConfig
from engine.constraint import Mask
from engine.host_cache import Payload
from engine.kv_cache import SlotCache, has_only_attention
from engine.packed_linear import pack_linears
from engine.request import SamplingParams
from engine.sampler import Sampler
from engine.scheduler import Batch, DecodeRow, OutOfMemory, PrefillChunk, RequestFailed
from engine.slot import Sequence as TokenSequence

_logger = logging.getLogger(__name__)

# Any ids do that every vocabulary has, as long as they differ.
_PROBE = (1, 8, 15, 22, 29, 3, 10, 17, 24, 31, 5, 12)


class Forward(Protocol):
    """The model over slots: `prefill` one of them, `decode` one token for many.

    `slot_cache` holds every token's state in a place of its own, so that single tokens can be
    computed again, dropped and copied; None where the state can only go forward.
    """

    @property
    def slot_cache(self) -> SlotCache | None:
        """The keys and values of all slots."""

    def prefill(self, slot: int, token_ids: Sequence[int], start: int) -> torch.Tensor:
        """Compute tokens at `start` and on; return the last one's logits `[1, vocab]`."""

    def decode(
        self, slots: Sequence[int], token_ids: Sequence[int], positions: Sequence[int]
    ) -> torch.Tensor:
        """Compute one token for each slot; return logits `[n, vocab]`."""


class SlotForward:
    """All slots in one set of tensors: rows of different lengths decode in a single call."""

    def __init__(self, model: PreTrainedModel, slots: int, ctx: int) -> None:
        self._model = model
        self._config = model.config.get_text_config(decoder=True)
        self.slot_cache = SlotCache(model.config, slots, ctx)

    def prefill(self, slot: int, token_ids: Sequence[int], start: int) -> torch.Tensor:
        """Compute tokens at `start` and on; return the last one's logits `[1, vocab]`."""
        end = start + len(token_ids)
        return self._run([slot], [list(token_ids)], [list(range(start, end))])

    def decode(
        self, slots: Sequence[int], token_ids: Sequence[int], positions: Sequence[int]
    ) -> torch.Tensor:
        """Compute one token for each slot; return logits `[n, vocab]`."""
        order = [slots.index(slot) for slot in self.slot_cache.align(slots)]
        logits = self._run(
            [slots[i] for i in order],
            [[token_ids[i]] for i in order],
            [[positions[i]] for i in order],
        )
        if order == list(range(len(slots))):
            return logits
        return logits[[order.index(i) for i in range(len(slots))]]

    def _run(
        self, slots: list[int], token_ids: list[list[int]], positions: list[list[int]]
    ) -> torch.Tensor:
        where = torch.tensor(positions, device=self._model.device)
        window = self.slot_cache.open(slots, where, [row[-1] + 1 for row in positions])
        output = self._model(
            input_ids=torch.tensor(token_ids, device=self._model.device),
            position_ids=where,
            attention_mask=self._attention_mask(self.slot_cache.masks(window)),
            cache=self.slot_cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1]  # type: ignore[no-any-return]

    def _attention_mask(
        self, masks: dict[str, torch.Tensor]
    ) -> torch.Tensor | dict[str, torch.Tensor]:
        if self._config._attn_implementation == "eager":
            lowest = torch.finfo(self._model.dtype).min
            zero = torch.zeros((), dtype=self._model.dtype, device=self._model.device)
            masks = {name: torch.where(mask, zero, lowest) for name, mask in masks.items()}
        # Classes with several kinds of layers take a mask for each, as `generate` gives them.
        if getattr(self._config, "layer_types", None) is None:
            return next(iter(masks.values()))
        return masks


class SequenceForward:
    """A cache object of transformers for each slot, stepped one by one: right for every class.

    Recurrent and convolution states cannot be padded or cut, so rows are never put together.
    `resumes` tells whether the class takes up its state when several tokens follow (Jamba's
    recurrent layers start anew); if not, all chunks but the first go in token by token.
    """

    slot_cache: SlotCache | None = None

    def __init__(self, model: PreTrainedModel, slots: int, resumes: bool) -> None:
        self._model = model
        self._resumes = resumes
        self._caches: list[DynamicCache | None] = [None] * slots

    def prefill(self, slot: int, token_ids: Sequence[int], start: int) -> torch.Tensor:
        """Compute tokens at `start` and on; return the last one's logits `[1, vocab]`."""
        if start == 0:
            self._caches[slot] = DynamicCache(config=self._model.config)
        elif not self._resumes:
            for token_id in token_ids[:-1]:
                self._run(slot, [token_id])
            token_ids = token_ids[-1:]
        return self._run(slot, list(token_ids))

    def decode(
        self, slots: Sequence[int], token_ids: Sequence[int], positions: Sequence[int]
    ) -> torch.Tensor:
        """Compute one token for each slot; return logits `[n, vocab]`."""
        rows = zip(slots, token_ids, strict=True)
        return torch.cat([self._run(slot, [token_id]) for slot, token_id in rows])

    def _run(self, slot: int, token_ids: list[int]) -> torch.Tensor:
        output = self._model(
            input_ids=torch.tensor([token_ids], device=self._model.device),
            cache=self._caches[slot],
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1]  # type: ignore[no-any-return]


class TransformersRunner:
    """Runs batches with any causal language model of transformers."""

    def __init__(self, model: PreTrainedModel, config: EngineConfig) -> None:
        self._config = config
        self._device = model.device
        self.vocab_size: int = model.config.get_text_config(decoder=True).vocab_size
        self._sampler = Sampler(config.slots, self.vocab_size, model.device)
        self.forward = choose_forward(model, config)

    @torch.inference_mode()
    def run(self, batch: Batch) -> list[int]:
        """Return one new id for each of `batch.sampled`; raises RequestFailed and OutOfMemory."""
        try:
            return self._run(batch)
        except (MemoryError, RuntimeError) as error:
            if not (self.cuttable and is_out_of_memory(error)):
                raise
            _free_device_memory()
            raise OutOfMemory("The step ran out of memory.") from error

    def _run(self, batch: Batch) -> list[int]:
        sampled = []
        if batch.prefill:
            sampled += self._prefill(batch.prefill)
        if batch.decode:
            sampled.append(self._decode(batch.decode))
        # The one place where the host waits for the device.
        return torch.cat(sampled).tolist() if sampled else []

    @property
    def cuttable(self) -> bool:
        """Whether single tokens can be dropped, copied, saved and loaded."""
        return self.forward.slot_cache is not None

    @torch.inference_mode()
    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Copy tokens `[start, end)` of slot `source` to the same place of slot `target`."""
        self._slot_cache.copy(source, target, start, end)

    @torch.inference_mode()
    def save(self, slot: int, start: int, end: int) -> torch.Tensor:
        """Give a copy of a slot's tokens `[start, end)` in host memory."""
        return self._slot_cache.save(slot, start, end)

    @torch.inference_mode()
    def load(self, slot: int, start: int, payload: Payload) -> None:
        """Put what `save` gave into a slot at token `start`."""
        assert isinstance(payload, torch.Tensor)
        self._slot_cache.load(slot, start, payload)

    @property
    def _slot_cache(self) -> SlotCache:
        assert self.forward.slot_cache, "only a cuttable runner is asked for tokens"
        return self.forward.slot_cache

    def warm_up(self, on_step: Callable[[int, int], None]) -> None:
        """Run the largest prefill and both ends of decode, calling `on_step(done, total)`."""
        prompt = (0,) * max(1, min(self._config.prefill_chunk, self._config.ctx - 1))
        sequence = TokenSequence("warm-up", prompt, 1, SamplingParams(), answer_ids=[0])
        rows = tuple(DecodeRow(sequence, slot, 0) for slot in range(self._config.slots))
        batches = [
            Batch(PrefillChunk(sequence, 0, 0, len(prompt)), ()),
            Batch(None, rows[:1]),
            Batch(None, rows),
        ]
        for done, batch in enumerate(batches, start=1):
            self.run(batch)
            on_step(done, len(batches))

    def runtime(self) -> dict[str, str]:
        """Name what computes here."""
        cuda = self._device.type == "cuda"
        return {
            # A plain string: what reads torch's own class from the pipe imports torch.
            "torch": str(torch.__version__),
            "device": torch.cuda.get_device_name(self._device) if cuda else platform.machine(),
            "forward": type(self.forward).__name__,
            "threads": str(torch.get_num_threads()),
        }

    def _prefill(self, chunk: PrefillChunk) -> list[torch.Tensor]:
        sequence = chunk.sequence
        token_ids = sequence.prompt_ids[chunk.start : chunk.end]
        try:
            logits = self.forward.prefill(chunk.slot, token_ids, chunk.start)
            if not chunk.is_last:
                return []
            self._sampler.begin(chunk.slot, sequence.sampling, sequence.prompt_ids)
            return [self._sampler.sample(logits, [chunk.slot], [chunk.end], _masks([sequence]))]
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            raise RequestFailed(f"prefill failed: {error}", sequence.request_id) from error

    def _decode(self, rows: tuple[DecodeRow, ...]) -> torch.Tensor:
        slots = [row.slot for row in rows]
        positions = [row.position for row in rows]
        token_ids = [row.sequence.answer_ids[-1] for row in rows]
        logits = self.forward.decode(slots, token_ids, positions)
        # The masks are made while the device is still at work on the logits.
        masks = _masks([row.sequence for row in rows])
        return self._sampler.sample(logits, slots, [position + 1 for position in positions], masks)


def is_out_of_memory(error: Exception) -> bool:
    """Whether it says that the device, or for the CPU the system, has no memory left."""
    # torch has a class of its own for accelerators only.
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "DefaultCPUAllocator" in str(
        error
    )


def _free_device_memory() -> None:
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()


def _masks(sequences: Sequence[TokenSequence]) -> dict[int, Mask]:
    """The mask of each row that has one."""
    constraints = [(row, s.constraint) for row, s in enumerate(sequences) if s.constraint]
    masks = [(row, constraint.mask()) for row, constraint in constraints]
    return {row: mask for row, mask in masks if mask is not None}


def use_threads(threads: int) -> None:
    """Compute with `threads` CPU threads; 0 leaves it at one for each physical core."""
    if threads:
        torch.set_num_threads(threads)


@torch.inference_mode()
def choose_forward(model: PreTrainedModel, config: EngineConfig) -> Forward:
    """Pick the fastest path that the class's layers fit and whose logits agree with the plain one.

    The plain one takes later tokens one by one, as every class's `generate` does.
    """
    expected = _probe(SequenceForward(model, 2, resumes=False))
    if has_only_attention(model.config) and _takes_slots(model, expected):
        pack_linears(model)
        return SlotForward(model, config.slots, config.ctx)
    resumes = _agree(_probe(SequenceForward(model, 2, resumes=True)), expected)
    _logger.info("%s runs one sequence at a time", type(model).__name__)
    return SequenceForward(model, config.slots, resumes)


def _takes_slots(model: PreTrainedModel, expected: torch.Tensor) -> bool:
    try:
        return _agree(_probe(SlotForward(model, 2, len(_PROBE) + 1)), expected)
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
        _logger.info("%s does not take the slot cache: %s", type(model).__name__, error)
        return False


def _agree(logits: torch.Tensor, expected: torch.Tensor) -> bool:
    # Two right paths differ by rounding, some units in the last place; a mask, a position or a
    # state that a class does not heed changes the logits by far more.
    tolerance = torch.finfo(logits.dtype).eps ** 0.5
    return bool((logits - expected).norm() <= tolerance * expected.norm())


def _probe(forward: Forward) -> torch.Tensor:
    """Logits `[2, vocab]` after two prompts of different lengths, one prefilled in two pieces."""
    forward.prefill(0, _PROBE[:3], 0)
    forward.prefill(1, _PROBE[:9], 0)
    forward.prefill(1, _PROBE[9:], 9)
    return forward.decode([0, 1], _PROBE[3:5], [3, len(_PROBE)])
