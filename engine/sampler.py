"""Choosing the next token of every row from the logits.

Filters follow transformers' logits processors (`generation/logits_process.py`) and their order:
repetition penalty, OpenAI's frequency and presence penalties, temperature, top_k, top_p, min_p.
The draw is an exponential race, `argmax p / e` with `e ~ Exp(1)`, the same law as Gumbel-max
(Maddison et al. 2014, "A* Sampling"). Its noise is a hash of (seed, position, token id), so a text
depends neither on its batch mates nor on how many steps ran before. Everything stays on the
device; nothing here waits for it. On the CPU `engine/native_draw.py` draws, where it can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import torch

from engine.constraint import Mask
from engine.native_draw import native_draw
from engine.request import SamplingParams

_MASK64 = 2**64 - 1
# Halvings of a range of logarithms that is some 31 wide: what is left is below 1e-4.
_TOP_P_STEPS = 20
# Logits whose noise fits a core's cache.
_CACHED = 2**16
_NO_MASKS: Mapping[int, Mask] = MappingProxyType({})


class Sampler:
    """Draws ids for rows of logits; knows each slot's settings and the tokens to penalise."""

    def __init__(self, slots: int, vocab_size: int, device: torch.device) -> None:
        self._params = [SamplingParams()] * slots
        self._shape = (slots, vocab_size)
        self._device = device
        # Made when the first request asks for a penalty: most never do.
        self._seen: torch.Tensor | None = None
        self._counts: torch.Tensor | None = None

    def begin(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int]) -> None:
        """Prepare `slot` for a new answer."""
        self._params[slot] = params
        if params.penalises:
            seen, counts = self._penalty_tables()
            seen[slot] = False
            seen[slot, torch.tensor(prompt_ids, device=self._device)] = True
            counts[slot] = 0

    def sample(
        self,
        logits: torch.Tensor,
        slots: Sequence[int],
        positions: Sequence[int],
        masks: Mapping[int, Mask] = _NO_MASKS,
    ) -> torch.Tensor:
        """Return ids `[n]` for logits `[n, vocab]`, which may be changed.

        `positions` are the new tokens' positions, `masks` the ids that a row may choose from. A
        slot without penalties may have several rows.
        """
        params = [self._params[slot] for slot in slots]
        if penalised := [row for row, p in enumerate(params) if p.penalises]:
            logits = self._penalise(logits, penalised, slots)
        if masks:
            keep_allowed(logits, masks)
        drawn = [row for row, p in enumerate(params) if p.temperature > 0]
        some_greedy = len(drawn) < len(params)
        ids = logits.argmax(-1) if some_greedy else torch.empty_like(logits[:, 0], dtype=torch.long)
        if drawn:
            ids[drawn] = _draw(
                logits, drawn, [params[row] for row in drawn], [positions[row] for row in drawn]
            )
        if penalised:
            self._remember(ids[penalised], [slots[row] for row in penalised])
        return ids

    def _penalty_tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._seen is None or self._counts is None:
            self._seen = torch.zeros(self._shape, dtype=torch.bool, device=self._device)
            self._counts = torch.zeros(self._shape, dtype=torch.float32, device=self._device)
        return self._seen, self._counts

    def _penalise(
        self, logits: torch.Tensor, rows: Sequence[int], slots: Sequence[int]
    ) -> torch.Tensor:
        seen, counts = self._penalty_tables()
        of_rows = [slots[row] for row in rows]
        params = [self._params[slot] for slot in of_rows]
        logits = logits.float()
        if not logits.is_cpu:
            logits[rows] = penalise(logits[rows], params, seen[of_rows], counts[of_rows])
            return logits
        # How many tokens were used is known here: the rest of the vocabulary is not touched.
        for row, slot, param in zip(rows, of_rows, params, strict=True):
            used = seen[slot].nonzero()[:, 0]
            part = logits[row, used][None], [param], seen[slot, used], counts[slot, used]
            logits[row, used] = penalise(*part)[0]
        return logits

    def _remember(self, ids: torch.Tensor, slots: Sequence[int]) -> None:
        seen, counts = self._penalty_tables()
        index = torch.tensor(slots, device=self._device)
        seen[index, ids] = True
        counts[index, ids] += 1


def penalise(
    logits: torch.Tensor,
    params: Sequence[SamplingParams],
    seen: torch.Tensor,
    counts: torch.Tensor,
) -> torch.Tensor:
    """Lower the logits `[n, vocab]` of tokens already used.

    `seen` marks tokens of prompt and answer: a positive logit is divided by repetition_penalty, a
    negative one multiplied (Keskar et al. 2019, as transformers does). `counts` is how often the
    answer has each token: `logit - count * frequency_penalty - (count > 0) * presence_penalty`
    (OpenAI's API reference).
    """
    repetition = _column([p.repetition_penalty for p in params], logits)
    frequency = _column([p.frequency_penalty for p in params], logits)
    presence = _column([p.presence_penalty for p in params], logits)
    repeated = torch.where(logits > 0, logits / repetition, logits * repetition)
    return torch.where(seen, repeated, logits) - counts * frequency - (counts > 0) * presence


def keep_allowed(logits: torch.Tensor, masks: Mapping[int, Mask]) -> None:
    """Lower the logits `[n, vocab]` of ids whose bit in their row's mask is 0, in place."""
    rows = list(masks)
    packed = torch.from_numpy(np.stack([masks[row] for row in rows]).view(np.int32))
    bits = torch.arange(32, dtype=torch.int32, device=logits.device)
    allowed = packed.to(logits.device)[:, :, None] >> bits & 1
    kept = allowed.flatten(1)[:, : logits.shape[-1]].bool()
    logits[rows] = _keep(logits[rows], kept)


def keep_top_k(logits: torch.Tensor, top_k: Sequence[int]) -> torch.Tensor:
    """Keep each row's `top_k` largest logits, and those equal to the last of them."""
    sizes = [min(k, logits.shape[-1]) for k in top_k]
    largest = logits.topk(max(sizes)).values
    last = torch.tensor(sizes, device=logits.device)[:, None] - 1
    return _keep(logits, logits >= largest.gather(-1, last))


def keep_top_p(logits: torch.Tensor, top_p: Sequence[float]) -> torch.Tensor:
    """Keep the fewest most probable tokens whose probabilities reach `top_p`.

    Nucleus sampling, Holtzman et al. 2019. The least kept probability is found by bisection on its
    logarithm: a sort takes three times as long on a CPU. Tokens within 1e-4 of that probability,
    relatively, may stay as well.
    """
    probs = logits.softmax(-1)
    wanted = _column(top_p, logits)
    high = probs.max(-1, keepdim=True).values
    # Tokens below this hold less than 1 - top_p together: the threshold cannot be lower.
    low = torch.minimum((1 - wanted).clamp(min=1e-9) / probs.shape[-1], high)
    if probs.is_cpu:
        # The rest of a row has no part in it; what is left differs in length.
        rows = zip(*(column[:, None] for column in (probs, low, high, wanted)), strict=True)
        low = torch.cat([_least_kept(p[p >= least][None], least, *r) for p, least, *r in rows])
    else:
        low = _least_kept(probs, low, high, wanted)
    return _keep(logits, probs >= low)


def _least_kept(
    probs: torch.Tensor, low: torch.Tensor, high: torch.Tensor, wanted: torch.Tensor
) -> torch.Tensor:
    """The least probability kept `[n, 1]`, between `low` and `high`, of rows `probs` `[n, m]`."""
    for _ in range(_TOP_P_STEPS):
        middle = (low * high).sqrt()
        enough = (probs * (probs >= middle)).sum(-1, keepdim=True) >= wanted
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    return low


def keep_min_p(logits: torch.Tensor, min_p: Sequence[float]) -> torch.Tensor:
    """Keep tokens at least `min_p` times as probable as the likeliest one (Nguyen et al. 2024)."""
    floor = logits.max(-1, keepdim=True).values + _column(min_p, logits).log()
    return _keep(logits, logits >= floor)


def exponential_noise(
    seeds: Sequence[int], positions: Sequence[int], vocab_size: int, device: torch.device
) -> torch.Tensor:
    """Return Exp(1) noise `[n, vocab]` in float32, a function of seed, position and token id only.

    Seeds are taken modulo 2^64. The hash is lowbias32 (Wellons 2018) over the token id, once with
    each half of a 64-bit key that SplitMix64 (Steele et al. 2014) makes of seed and position.
    """
    keys = [noise_key(seed, position) for seed, position in zip(seeds, positions, strict=True)]
    halves = torch.tensor(keys, device=device).view(torch.int32).view(-1, 2)
    token_ids = torch.arange(vocab_size, dtype=torch.int32, device=device)
    bits = _mix32(_mix32(token_ids ^ halves[:, :1]) ^ halves[:, 1:])
    uniform = ((bits & 0x7FFFFFFF).float() + 0.5) * 2**-31
    return -torch.log1p(-uniform.clamp_(max=1 - 2**-24))


def _draw(
    logits: torch.Tensor,
    rows: list[int],
    params: Sequence[SamplingParams],
    positions: Sequence[int],
) -> torch.Tensor:
    """Draw an id for each of `rows`, natively if that is possible."""
    keys = [noise_key(p.seed, position) for p, position in zip(params, positions, strict=True)]
    if (ids := native_draw(logits, rows, params, keys)) is not None:
        return torch.tensor(ids)
    # On the CPU so many at once that what is computed stays in its cache.
    size = max(1, _CACHED // logits.shape[-1]) if logits.is_cpu else len(rows)
    parts = [slice(start, start + size) for start in range(0, len(rows), size)]
    return torch.cat(
        [torch_draw(logits[rows[part]].float(), params[part], positions[part]) for part in parts]
    )


def torch_draw(
    logits: torch.Tensor, params: Sequence[SamplingParams], positions: Sequence[int]
) -> torch.Tensor:
    """Draw an id `[n]` for each row of logits `[n, vocab]` in float32."""
    # The largest logit becomes 0 first: a tiny temperature then cannot overflow.
    temperature = _column([p.temperature for p in params], logits).clamp(min=1e-30)
    logits = (logits - logits.max(-1, keepdim=True).values) / temperature
    if rows := [row for row, p in enumerate(params) if p.top_k > 0]:
        logits[rows] = keep_top_k(logits[rows], [params[row].top_k for row in rows])
    if rows := [row for row, p in enumerate(params) if p.top_p < 1]:
        logits[rows] = keep_top_p(logits[rows], [params[row].top_p for row in rows])
    if rows := [row for row, p in enumerate(params) if p.min_p > 0]:
        logits[rows] = keep_min_p(logits[rows], [params[row].min_p for row in rows])
    seeds = [p.seed for p in params]
    race = exponential_noise(seeds, positions, logits.shape[-1], logits.device)
    return (logits.exp() / race).argmax(-1)


def _keep(logits: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    return logits.masked_fill(~kept, -torch.inf)


def _column(values: Sequence[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device=like.device)[:, None]


def noise_key(seed: int, position: int) -> int:
    """A signed 64-bit key; different for neighbouring seeds and positions."""
    key = _splitmix64(_splitmix64(seed) + position)
    return key - 2**64 if key >= 2**63 else key


def _splitmix64(state: int) -> int:
    z = (state + 0x9E3779B97F4A7C15) & _MASK64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK64
    return z ^ (z >> 31)


def _mix32(x: torch.Tensor) -> torch.Tensor:
    # int32 has no unsigned shift in torch: the masks drop the copies of the sign bit.
    x = (x ^ ((x >> 16) & 0xFFFF)) * 0x7FEB352D
    x = (x ^ ((x >> 15) & 0x1FFFF)) * (0x846CA68B - 2**32)
    return x ^ ((x >> 16) & 0xFFFF)
