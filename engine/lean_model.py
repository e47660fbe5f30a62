"""The common dense decoder (Llama, Mistral, Qwen2, Qwen3), written out without module overhead.

RMSNorm, rotary positions, grouped-query attention and SwiGLU. Matrices that share an input are one
matrix, and each layer is a dozen calls on all rows together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from engine.allocator import release_pages
from engine.kv_cache import SlotCache, Window, layer_types
from engine.lean_attention import Attention, Heads, TorchAttention
from engine.model_files import LEAN_CLASSES
from engine.native_attention import NativeAttention
from engine.native_library import native_library
from engine.packed_linear import StoredWeights, stored_weights
from engine.weight_format import Int8Format, WeightFormat

# Those whose angles depend on the position alone.
_ROPE_TYPES = frozenset({"default", "linear", "llama3", "yarn"})


@dataclass(frozen=True, slots=True)
class LeanLayer:
    """One layer's weights; Qwen3's queries and keys have `head_norm` `[heads + kv_heads, dim]`."""

    kind: str
    query_key_value: nn.Module
    head_norm: torch.Tensor | None
    output: nn.Module
    gate_up: nn.Module
    down: nn.Module


@dataclass(frozen=True, slots=True)
class LeanModel:
    """The weights and how they are used."""

    embedding: nn.Module
    layers: Sequence[LeanLayer]
    head: nn.Module
    attention: Attention
    device: torch.device
    is_int8: bool

    @property
    def weights(self) -> StoredWeights:
        """What all weights take in memory."""
        parts = [getattr(self, f.name) for f in fields(self)]
        parts += [getattr(layer, f.name) for layer in self.layers for f in fields(layer)]
        tensors = [part for part in parts if isinstance(part, torch.Tensor)]
        bare = StoredWeights(sum(t.numel() for t in tensors), sum(t.nbytes for t in tensors))
        return bare + stored_weights(part for part in parts if isinstance(part, nn.Module))

    def logits(
        self, token_ids: torch.Tensor, cache: SlotCache, window: Window, keep: int = 1
    ) -> torch.Tensor:
        """Compute tokens `[n, q]` of the window; return logits `[n, keep, vocab]` of the last."""
        hidden = self.hidden(token_ids, cache, window)[:, -keep:]
        return torch.unflatten(self.head(hidden.flatten(0, 1)), 0, hidden.shape[:2])

    def hidden(self, token_ids: torch.Tensor, cache: SlotCache, window: Window) -> torch.Tensor:
        """Compute tokens `[n, q]` of the window up to the head: `[n, q, dim]`."""
        attend = self.attention.open(cache, window)
        hidden = self.embedding(token_ids.flatten())
        for layer, states in zip(self.layers, cache.layers, strict=True):
            joined = layer.query_key_value(hidden)
            layer.output(attend(joined, states, layer.kind, layer.head_norm), hidden)
            layer.down(layer.gate_up(hidden), hidden)
        return torch.unflatten(hidden, 0, token_ids.shape)


def is_lean(model: PreTrainedModel) -> bool:
    """Whether `build_lean` knows everything that the class computes."""
    if type(model).__name__ not in LEAN_CLASSES or model.config.hidden_act != "silu":
        return False
    rotary, attention = model.model.rotary_emb, model.model.layers[0].self_attn
    turns_all = 2 * rotary.inv_freq.numel() == attention.head_dim
    in_one_place = len({parameter.device for parameter in model.parameters()}) == 1
    plain = all(type(m) is nn.Linear for m in model.modules() if isinstance(m, nn.Linear))
    return rotary.rope_type in _ROPE_TYPES and turns_all and in_one_place and plain


@torch.no_grad()
def build_lean(model: PreTrainedModel, store: WeightFormat) -> LeanModel:
    """Make a lean model of a transformers model's weights, which keeps working.

    What a layer has needed besides is given back before the next, so that the peak is no matter of
    chance.
    """
    config, decoder = model.config, model.model
    kinds = layer_types(config)
    layers = [_layer(layer, k, store) for layer, k in zip(decoder.layers, kinds, strict=True)]
    release_pages()
    head = store.reader(decoder.norm.weight, config.rms_norm_eps, model.lm_head)
    release_pages()
    return LeanModel(
        embedding=store.embedding(decoder.embed_tokens),
        layers=layers,
        head=head,
        attention=_attention(model),
        device=model.device,
        is_int8=isinstance(store, Int8Format),
    )


def _attention(model: PreTrainedModel) -> Attention:
    """The native kernel where there is one for the model, else torch."""
    is_plain = model.device.type == "cpu" and model.dtype == torch.float32
    library = native_library() if is_plain else None
    heads = heads_of(model)
    return NativeAttention(heads, library) if library else TorchAttention(heads)


def heads_of(model: PreTrainedModel) -> Heads:
    """What the layers' attention has in common."""
    config, rotary = model.config, model.model.rotary_emb
    return Heads(
        config.num_attention_heads,
        config.num_key_value_heads,
        config.rms_norm_eps,
        rotary.inv_freq.float(),
        float(rotary.attention_scaling),
    )


def _layer(layer: Any, kind: str, store: WeightFormat) -> LeanLayer:
    release_pages()
    attention, mlp = layer.self_attn, layer.mlp
    before, between = layer.input_layernorm, layer.post_attention_layernorm
    projections = attention.q_proj, attention.k_proj, attention.v_proj
    return LeanLayer(
        kind=kind,
        query_key_value=store.reader(before.weight, before.variance_epsilon, *projections),
        head_norm=_head_norm(attention) if hasattr(attention, "q_norm") else None,
        output=store.writer(attention.o_proj),
        gate_up=store.reader(between.weight, between.variance_epsilon, mlp.gate_proj, mlp.up_proj),
        down=store.gated_writer(mlp.down_proj),
    )


def _head_norm(attention: Any) -> torch.Tensor:
    """Weights `[heads + kv_heads, dim]` of the norms of queries and keys."""
    config, queries, keys = attention.config, attention.q_norm.weight, attention.k_norm.weight
    rows = (
        queries.expand(config.num_attention_heads, -1),
        keys.expand(config.num_key_value_heads, -1),
    )
    return torch.cat(rows)
