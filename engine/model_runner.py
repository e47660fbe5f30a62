"""Runs a transformers model on the scheduler's batches: the only file that calls the model."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from engine.batch import Batch, DecodeRow, OutOfMemory, PrefillChunk, RequestFailed
from engine.choose_forward import choose_forward
from engine.config import EngineConfig
from engine.constraint import Mask
from engine.forward import LeanForward
from engine.host_cache import Payload
from engine.hybrid_cache import HybridCache, SavedState
from engine.kv_cache import SlotCache
from engine.messages import Ready
from engine.request import SamplingParams
from engine.sampler import Sampler
from engine.slot import Sequence as TokenSequence


class TransformersRunner:
    """Runs batches with any causal language model of transformers."""

    def __init__(self, model: PreTrainedModel, config: EngineConfig) -> None:
        self._config = config
        self._device = model.device
        self.vocab_size: int = model.config.get_text_config(decoder=True).vocab_size
        self._sampler = Sampler(config.slots, self.vocab_size, model.device)
        self._routed_layers = _count_experts(model)
        self._step_seconds = 0.0
        self.forward = choose_forward(model, config)

    @torch.inference_mode()
    def run(self, batch: Batch) -> list[int]:
        """Return the ids after the batch's tokens; raises RequestFailed and OutOfMemory."""
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
    def movable(self) -> bool:
        """Whether single tokens can be copied, saved and loaded."""
        return self.forward.slot_cache is not None

    @property
    def cuttable(self) -> bool:
        """Whether a slot's last tokens can be dropped."""
        return self.forward.slot_cache is not None and self.forward.slot_cache.cuttable

    @property
    def checks_guesses(self) -> bool:
        """Whether a row may have guesses, which are dropped again where they are wrong."""
        return self.cuttable

    @torch.inference_mode()
    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Copy tokens `[start, end)` of slot `source` to the same place of slot `target`."""
        self._slot_cache.copy(source, target, start, end)

    @torch.inference_mode()
    def save(self, slot: int, start: int, end: int) -> torch.Tensor:
        """Give a copy of a slot's tokens `[start, end)` in host memory; raises MemoryError."""
        with _memory_errors():
            return self._slot_cache.save(slot, start, end)

    @torch.inference_mode()
    def load(self, slot: int, start: int, payload: Payload) -> None:
        """Put what `save` gave into a slot at token `start`; raises MemoryError."""
        assert isinstance(payload, torch.Tensor)
        with _memory_errors():
            self._slot_cache.load(slot, start, payload)

    @torch.inference_mode()
    def save_state(self, slot: int) -> SavedState:
        """Give a copy of the state after all of a slot's tokens; raises MemoryError."""
        with _memory_errors():
            return self._hybrid_cache.save_state(slot)

    @torch.inference_mode()
    def load_state(self, slot: int, payload: Payload) -> None:
        """Put what `save_state` gave into a slot."""
        assert isinstance(payload, SavedState)
        self._hybrid_cache.load_state(slot, payload)

    @property
    def _hybrid_cache(self) -> HybridCache:
        assert isinstance(self.forward.slot_cache, HybridCache)
        return self.forward.slot_cache

    @property
    def _slot_cache(self) -> SlotCache:
        assert self.forward.slot_cache, "only a movable runner is asked for tokens"
        return self.forward.slot_cache

    def warm_up(self, on_step: Callable[[int, int], None]) -> None:
        """Run the largest prefill and both ends of decode, calling `on_step(done, total)`."""
        prompt = (0,) * max(1, min(self._config.prefill_chunk, self._config.ctx - 1))
        sequence = TokenSequence("warm-up", prompt, 1, SamplingParams(), answer_ids=[0])
        rows = tuple(DecodeRow(sequence, slot, 1) for slot in range(self._config.slots))
        batches = [
            Batch(PrefillChunk(sequence, 0, 0, len(prompt)), ()),
            Batch(None, rows[:1]),
            Batch(None, rows),
        ]
        for done, batch in enumerate(batches, start=1):
            begun = time.monotonic()
            self.run(batch)
            self._step_seconds = max(self._step_seconds, time.monotonic() - begun)
            on_step(done, len(batches))

    def describe(self, loaded: Ready) -> Ready:
        """Complete what loading told of the model by what became of it here."""
        is_int8 = isinstance(self.forward, LeanForward) and self.forward.model.is_int8
        return replace(
            loaded,
            weight_bytes=self.forward.weights.nbytes,
            bits_per_weight=self.forward.weights.bits_per_weight,
            dtype="int8" if is_int8 else loaded.dtype,
            runtime=self.runtime(),
            keeps_prompts=self.movable,
            routed_layers=self._routed_layers,
            step_seconds=self._step_seconds,
        )

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
        logits = self.forward.decode(
            [row.slot for row in rows],
            [row.token_ids for row in rows],
            [row.position for row in rows],
        )
        tokens = [(row, place) for row in rows for place, _ in enumerate(row.token_ids, 1)]
        # The masks are made while the device is still at work on the logits.
        masks = _masks([row.sequence for row, _ in tokens])
        slots = [row.slot for row, _ in tokens]
        return self._sampler.sample(logits, slots, [row.position + k for row, k in tokens], masks)


def is_out_of_memory(error: Exception) -> bool:
    """Whether it says that the device, or for the CPU the system, has no memory left."""
    # torch has a class of its own for accelerators only.
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "DefaultCPUAllocator" in str(
        error
    )


@contextlib.contextmanager
def _memory_errors() -> Iterator[None]:
    """Raise MemoryError for torch's own errors that say the same."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        _free_device_memory()
        raise MemoryError(str(error)) from error


def _free_device_memory() -> None:
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()


def _masks(sequences: Sequence[TokenSequence]) -> dict[int, Mask]:
    """The mask of each row that has one."""
    constraints = [(row, s.constraint) for row, s in enumerate(sequences) if s.constraint]
    masks = [(row, constraint.mask()) for row, constraint in constraints]
    return {row: mask for row, mask in masks if mask is not None}


def _count_experts(model: PreTrainedModel) -> int:
    """Count the modules that hold a layer's routed experts."""
    return sum(type(module).__name__.endswith("Experts") for module in model.modules())


def use_threads(threads: int) -> None:
    """Compute with `threads` CPU threads; 0 leaves it at one for each physical core."""
    if threads:
        torch.set_num_threads(threads)
