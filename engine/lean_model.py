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
from torch.nn import functional as F
from transformers import PreTrainedModel

from engine.kv_cache import SlotCache, Window, layer_types
from engine.packed_linear import weight_bytes
from engine.weight_format import Int8Format, WeightFormat

_CLASSES = frozenset(
    {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
)
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
    """The weights and how they are used; `frequencies` `[dim / 2]` are the rotary ones."""

    embedding: nn.Module
    layers: Sequence[LeanLayer]
    head: nn.Module
    frequencies: torch.Tensor
    rotary_scale: torch.Tensor
    heads: int
    kv_heads: int
    epsilon: float
    is_int8: bool

    @property
    def weight_bytes(self) -> int:
        """What all weights take in memory."""
        parts = [getattr(self, f.name) for f in fields(self)]
        parts += [getattr(layer, f.name) for layer in self.layers for f in fields(layer)]
        tensors = [part.nbytes for part in parts if isinstance(part, torch.Tensor)]
        return sum(tensors) + weight_bytes(part for part in parts if isinstance(part, nn.Module))

    def logits(
        self, token_ids: torch.Tensor, cache: SlotCache, window: Window, keep: int = 1
    ) -> torch.Tensor:
        """Compute tokens `[n, q]` of the window; return logits `[n, keep, vocab]` of the last."""
        hidden = self.hidden(token_ids, cache, window)[:, -keep:]
        return torch.unflatten(self.head(hidden.flatten(0, 1)), 0, hidden.shape[:2])

    def hidden(self, token_ids: torch.Tensor, cache: SlotCache, window: Window) -> torch.Tensor:
        """Compute tokens `[n, q]` of the window up to the head: `[n, q, dim]`."""
        angles = window.positions.view(-1, 1, 1) * self.frequencies
        rotation = torch.polar(self.rotary_scale.expand_as(angles), angles)
        hidden = self.embedding(token_ids.flatten())
        masks = {kind: _additive(m, hidden.dtype) for kind, m in cache.masks(window).items()}
        for layer, states in zip(self.layers, cache.layers, strict=True):
            queries, keys, values = self._heads(layer, hidden, rotation)
            keys, values = states.update(_by_row(keys, token_ids), _by_row(values, token_ids))
            hidden += layer.output(_attend(queries, keys, values, masks[layer.kind]))
            gate, up = layer.gate_up(hidden).chunk(2, -1)
            hidden += layer.down(F.silu(gate).mul_(up))
        return torch.unflatten(hidden, 0, token_ids.shape)

    def _heads(
        self, layer: LeanLayer, hidden: torch.Tensor, rotation: torch.Tensor
    ) -> Sequence[torch.Tensor]:
        """Queries `[tokens, heads, dim]`, keys and values `[tokens, kv_heads, dim]`."""
        joined = layer.query_key_value(hidden)
        heads = joined.view(len(joined), self.heads + 2 * self.kv_heads, -1)
        turned, values = torch.split(heads, [self.heads + self.kv_heads, self.kv_heads], 1)
        if layer.head_norm is not None:
            turned = F.rms_norm(turned, turned.shape[-1:], eps=self.epsilon) * layer.head_norm
        queries, keys = torch.split(_rotate(turned, rotation), [self.heads, self.kv_heads], 1)
        return queries, keys, values


def is_lean(model: PreTrainedModel) -> bool:
    """Whether `build_lean` knows everything that the class computes."""
    if type(model).__name__ not in _CLASSES or model.config.hidden_act != "silu":
        return False
    rotary, attention = model.model.rotary_emb, model.model.layers[0].self_attn
    turns_all = 2 * rotary.inv_freq.numel() == attention.head_dim
    in_one_place = len({parameter.device for parameter in model.parameters()}) == 1
    plain = all(type(m) is nn.Linear for m in model.modules() if isinstance(m, nn.Linear))
    return rotary.rope_type in _ROPE_TYPES and turns_all and in_one_place and plain


@torch.no_grad()
def build_lean(model: PreTrainedModel, store: WeightFormat) -> LeanModel:
    """Make a lean model of a transformers model's weights, which keeps working."""
    config, decoder, rotary = model.config, model.model, model.model.rotary_emb
    kinds = layer_types(config)
    return LeanModel(
        embedding=store.embedding(decoder.embed_tokens),
        layers=[_layer(layer, k, store) for layer, k in zip(decoder.layers, kinds, strict=True)],
        head=store.reader(decoder.norm.weight, config.rms_norm_eps, model.lm_head),
        frequencies=rotary.inv_freq.float(),
        rotary_scale=torch.tensor(float(rotary.attention_scaling), device=model.device),
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        epsilon=config.rms_norm_eps,
        is_int8=isinstance(store, Int8Format),
    )


def _layer(layer: Any, kind: str, store: WeightFormat) -> LeanLayer:
    attention, mlp = layer.self_attn, layer.mlp
    before, between = layer.input_layernorm, layer.post_attention_layernorm
    projections = attention.q_proj, attention.k_proj, attention.v_proj
    return LeanLayer(
        kind=kind,
        query_key_value=store.reader(before.weight, before.variance_epsilon, *projections),
        head_norm=_head_norm(attention) if hasattr(attention, "q_norm") else None,
        output=store.writer(attention.o_proj),
        gate_up=store.reader(between.weight, between.variance_epsilon, mlp.gate_proj, mlp.up_proj),
        # The product of gate and up has peaks that no turn of the hidden state reaches.
        down=store.writer(mlp.down_proj, outlying=True),
    )


def _head_norm(attention: Any) -> torch.Tensor:
    """Weights `[heads + kv_heads, dim]` of the norms of queries and keys."""
    config, queries, keys = attention.config, attention.q_norm.weight, attention.k_norm.weight
    rows = (
        queries.expand(config.num_attention_heads, -1),
        keys.expand(config.num_key_value_heads, -1),
    )
    return torch.cat(rows)


def _rotate(heads: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Turn `[tokens, heads, dim]`, whose halves are the parts of complex numbers, by position."""
    real, imaginary = heads.float().chunk(2, -1)
    turned = torch.complex(real, imaginary) * rotation
    return torch.cat((turned.real, turned.imag), -1).to(heads.dtype)


def _by_row(states: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """`[n, heads, q, dim]` of `[n * q, heads, dim]`."""
    return torch.unflatten(states, 0, token_ids.shape).transpose(1, 2)


def _attend(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Attention of queries `[n * q, heads, dim]` to keys `[n, kv_heads, end, dim]`.

    Either a group's heads are taken as queries at one place; or there is one row, then the group is
    the axis of heads and keys are shared along it.
    """
    rows, kv_heads, _, dim = keys.shape
    grouped = queries.view(len(queries), kv_heads, -1, dim)
    if len(queries) == rows:
        return F.scaled_dot_product_attention(grouped, keys, values, mask).flatten(1)
    if rows > 1:
        return _attend_rows(torch.unflatten(grouped, 0, (rows, -1)), keys, values, mask)
    grouped = grouped.permute(1, 2, 0, 3)
    shape = (-1, grouped.shape[1], -1, -1)
    keys, values = keys[0, :, None].expand(shape), values[0, :, None].expand(shape)
    seen = F.scaled_dot_product_attention(grouped, keys, values, mask)
    return seen.permute(2, 0, 1, 3).flatten(1)


def _attend_rows(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Attention of queries `[n, q, kv_heads, group, dim]`, several in each of several rows."""
    group = queries.shape[3]
    places = queries.transpose(1, 2)
    seen = F.scaled_dot_product_attention(
        places.flatten(2, 3), keys, values, mask.repeat_interleave(group, 2)
    )
    return torch.unflatten(seen, 2, (-1, group)).transpose(1, 2).flatten(0, 1).flatten(1)


def _additive(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """0 where a query may look, else minus infinity: converted once, not by every layer."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -torch.inf)
