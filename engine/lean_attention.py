"""Attention of a lean model: from the joined projection of new tokens to what they have seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional as F

from engine.kv_cache import SlotCache, SlotLayer, Window


@dataclass(frozen=True, slots=True)
class Heads:
    """What all layers share; rotary `frequencies` `[dim / 2]`, and a scale of what they turn."""

    count: int
    kv_count: int
    epsilon: float
    frequencies: torch.Tensor
    rotary_scale: float

    @property
    def dim(self) -> int:
        """Length of one head."""
        return 2 * len(self.frequencies)


class Rotations:
    """Cosines and sines of all positions of a context.

    Made once for all: torch computes an element that is left over from a whole vector by other
    instructions, so its last bit would depend on the other tokens.
    """

    def __init__(self, heads: Heads) -> None:
        self._frequencies, self._scale = heads.frequencies, heads.rotary_scale
        self._ctx = 0

    def at(self, positions: torch.Tensor, ctx: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Give `[n, dim / 2]` each at positions `[n]`; raises IndexError beyond `ctx`."""
        if self._ctx != ctx:
            self._ctx = ctx
            places = torch.arange(ctx, device=self._frequencies.device)
            angles = (places[:, None] * self._frequencies).double()
            self._cosines, self._sines = (
                (part * self._scale).float() for part in (angles.cos(), angles.sin())
            )
        return self._cosines[positions], self._sines[positions]


class LayerAttention(Protocol):
    """Attention of one forward pass, called layer by layer."""

    def __call__(
        self, joined: torch.Tensor, states: SlotLayer, kind: str, head_norm: torch.Tensor | None
    ) -> torch.Tensor:
        """Store keys and values of `joined` `[tokens, (heads + 2 * kv_heads) * dim]`, and attend.

        Returns `[tokens, heads * dim]`; may overwrite `joined`. `head_norm` holds the weights
        `[heads + kv_heads, dim]` of a norm of queries and keys.
        """


class Attention(Protocol):
    """Makes a `LayerAttention` for each forward pass."""

    def open(self, cache: SlotCache, window: Window) -> LayerAttention:
        """Prepare what all layers of the pass share."""


class TorchAttention:
    """Attention by torch, on any device and in any precision."""

    def __init__(self, heads: Heads) -> None:
        self._heads = heads
        self._rotations = Rotations(heads)

    def open(self, cache: SlotCache, window: Window) -> LayerAttention:
        """Make the masks, and take the turns for the window's positions."""
        cosines, sines = self._rotations.at(window.positions.flatten(), cache.ctx)
        rotation = torch.complex(cosines, sines)[:, None]
        return _TorchPass(self._heads, rotation, cache.masks(window), window)


class _TorchPass:
    def __init__(
        self,
        heads: Heads,
        rotation: torch.Tensor,
        masks: dict[str, torch.Tensor],
        window: Window,
    ) -> None:
        self._heads, self._rotation, self._masks = heads, rotation, masks
        self._shape = window.positions.shape
        self._additive: dict[str, torch.Tensor] = {}

    def __call__(
        self, joined: torch.Tensor, states: SlotLayer, kind: str, head_norm: torch.Tensor | None
    ) -> torch.Tensor:
        """Attend in one layer."""
        heads = self._heads
        split = joined.view(len(joined), heads.count + 2 * heads.kv_count, heads.dim)
        turned, values = torch.split(split, [heads.count + heads.kv_count, heads.kv_count], 1)
        if head_norm is not None:
            turned = F.rms_norm(turned, turned.shape[-1:], eps=heads.epsilon) * head_norm
        queries, keys = torch.split(
            _rotate(turned, self._rotation), [heads.count, heads.kv_count], 1
        )
        keys, values = states.update(self._by_row(keys), self._by_row(values))
        return _attend(queries, keys, values, self._mask(kind, joined.dtype))

    def _by_row(self, states: torch.Tensor) -> torch.Tensor:
        """`[n, heads, q, dim]` of `[n * q, heads, dim]`."""
        return torch.unflatten(states, 0, self._shape).transpose(1, 2)

    def _mask(self, kind: str, dtype: torch.dtype) -> torch.Tensor:
        """0 where a query may look, else minus infinity: converted once, not by every layer."""
        if kind not in self._additive:
            mask = self._masks[kind]
            zeros = torch.zeros_like(mask, dtype=dtype)
            self._additive[kind] = zeros.masked_fill_(~mask, -torch.inf)
        return self._additive[kind]


def _rotate(heads: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Turn `[tokens, heads, dim]`, whose halves are the parts of complex numbers, by position."""
    real, imaginary = heads.float().chunk(2, -1)
    turned = torch.complex(real, imaginary) * rotation
    return torch.cat((turned.real, turned.imag), -1).to(heads.dtype)


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
