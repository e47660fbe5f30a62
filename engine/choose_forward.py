"""Choosing a model's fastest path that computes what its class computes."""

from __future__ import annotations

import logging

import torch
from transformers import PreTrainedModel

from engine.config import EngineConfig
from engine.errors import ModelError
from engine.forward import Forward, LeanForward, SequenceForward, SlotForward
from engine.hybrid_cache import is_hybrid
from engine.hybrid_forward import HybridForward
from engine.int8_linear import int8_is_supported
from engine.kv_cache import has_only_attention
from engine.lean_model import LeanModel, build_lean, is_lean
from engine.native_library import native_library
from engine.packed_linear import pack_linears
from engine.weight_format import Int8Format, PlainFormat

_logger = logging.getLogger(__name__)

# Any ids do that every vocabulary has, as long as they differ.
_PROBE = (1, 8, 15, 22, 29, 3, 10, 17, 24, 31, 5, 12)
# What rounding to int8 may change; a mistake changes the logits wholly.
_INT8_TOLERANCE = 0.3


@torch.inference_mode()
def choose_forward(model: PreTrainedModel, config: EngineConfig) -> Forward:
    """Pick the fastest path that the class's layers fit and whose logits agree with the plain one.

    The plain one takes later tokens one by one, as every class's `generate` does. Raises ModelError
    when int8 is asked for and not to be had.
    """
    if config.quant == "int8" and not (is_lean(model) and wants_int8(config, model.device)):
        raise ModelError(f"{type(model).__name__} cannot run in int8 here. Use --quant none.")
    expected = _probe(SequenceForward(model, 2, resumes=False))
    if lean := _choose_lean(model, config, expected):
        _release(model)
        return LeanForward(lean, model.config, config.slots, config.ctx)
    room = len(_PROBE) + 1
    if has_only_attention(model.config) and _takes_slots(SlotForward(model, 2, room), expected):
        pack_linears(model)
        return SlotForward(model, config.slots, config.ctx)
    resumes = _agree(_probe(SequenceForward(model, 2, resumes=True)), expected)
    if is_hybrid(model.config) and _takes_slots(HybridForward(model, 2, room, resumes), expected):
        pack_linears(model)
        return HybridForward(model, config.slots, config.ctx, resumes)
    _logger.info("%s runs one sequence at a time", type(model).__name__)
    return SequenceForward(model, config.slots, resumes)


def wants_int8(config: EngineConfig, device: torch.device) -> bool:
    """Whether the CPU may round the weights: when asked, or when no precision is asked for.

    Unasked only with native kernels: without them an answer may change with the requests beside it
    and with what the prompt cache holds, which rounding makes more of.
    """
    if device.type != "cpu" or not int8_is_supported():
        return False
    if config.quant == "auto":
        return config.dtype == "auto" and native_library() is not None
    return config.quant == "int8"


def _choose_lean(
    model: PreTrainedModel, config: EngineConfig, expected: torch.Tensor
) -> LeanModel | None:
    if not is_lean(model):
        return None
    if wants_int8(config, model.device):
        lean = build_lean(model, Int8Format())
        if _runs_alike(lean, model, expected, _INT8_TOLERANCE):
            return lean
        if config.quant == "int8":
            raise ModelError(f"{type(model).__name__} loses too much in int8. Use --quant none.")
        _logger.warning("%s loses too much in int8, so it stays as it is", type(model).__name__)
    lean = build_lean(model, PlainFormat())
    return lean if _runs_alike(lean, model, expected) else None


def _runs_alike(
    lean: LeanModel, model: PreTrainedModel, expected: torch.Tensor, tolerance: float | None = None
) -> bool:
    got = _probe(LeanForward(lean, model.config, 2, len(_PROBE) + 1))
    return _agree(got, expected, tolerance)


def _takes_slots(forward: SlotForward, expected: torch.Tensor) -> bool:
    try:
        return _agree(_probe(forward), expected)
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
        _logger.info("%s does not take the slot cache: %s", type(forward.model).__name__, error)
        return False


def _agree(logits: torch.Tensor, expected: torch.Tensor, tolerance: float | None = None) -> bool:
    # Two right paths differ by rounding, some units in the last place; a mask, a position or a
    # state that a class does not heed changes the logits by far more.
    tolerance = tolerance or torch.finfo(logits.dtype).eps ** 0.5
    return bool((logits - expected).norm() <= tolerance * expected.norm())


def _probe(forward: Forward) -> torch.Tensor:
    """Logits `[2, vocab]` after two prompts of different lengths, one prefilled in two pieces."""
    forward.prefill(0, _PROBE[:3], 0)
    forward.prefill(1, _PROBE[:9], 0)
    forward.prefill(1, _PROBE[9:], 9)
    return forward.decode([0, 1], [_PROBE[3:4], _PROBE[4:5]], [3, len(_PROBE)])


def _release(model: PreTrainedModel) -> None:
    """Let go of the class's own weights."""
    for parameter in model.parameters():
        parameter.data = torch.empty(0, dtype=parameter.dtype, device=parameter.device)
