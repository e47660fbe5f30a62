"""How much of a prompt one step computes, so that answers beside it keep their pace.

A step that decodes `d` tokens and computes `c` of a prompt takes `decode(d) + c * per_token`. It
shall take no more than `_PACE` steps without a prompt. A slot that stays free while another prompt
waits for it costs more answers than pace is worth, so each such prompt adds as much time again:

    c = (_PACE - 1) * decode(d) * prompts / per_token

Both times are running means of what steps took. `per_token` holds a chunk's fixed costs too, spread
over its tokens; it is measured anew with every chunk, so that `c` settles where the whole fits.
"""

from __future__ import annotations

# Smaller chunks would read all weights for next to nothing, and save no memory to speak of.
SMALLEST_CHUNK = 8
# Chunks grow by this much, so that few sizes occur.
_GRAIN = 4
_PACE = 3
_WEIGHT = 0.25
# Until a step without a prompt was seen, it is taken to cost as much as this many tokens of one.
_FIRST_DECODE = 16


class ChunkSize:
    """Learns how long steps take; knows no clock. `full` is the most tokens of a chunk."""

    def __init__(self, full: int) -> None:
        self._full = full
        self._per_token: float | None = None
        # By the tokens decoded, in powers of two: they cost the less each, the more there are.
        self._decode: dict[int, float] = {}

    def beside(self, decoded: int, prompts: int = 1) -> int:
        """Return the tokens of a chunk beside `decoded` tokens of answers.

        `prompts` are those with a slot or one to go to, the chunk's own among them.
        """
        if not decoded:
            return self._full
        wanted = (_PACE - 1) * self._decode_in_tokens(decoded) * prompts
        whole = round(wanted / _GRAIN) * _GRAIN
        return min(max(whole, SMALLEST_CHUNK), self._full)

    def learn(self, prefilled: int, decoded: int, seconds: float) -> None:
        """Take note of a step's duration and of how many tokens of each kind it computed."""
        if prefilled:
            beside = self._decode_seconds(decoded) or 0.0 if decoded else 0.0
            alone = max(0.0, seconds - beside)
            self._per_token = _mean(self._per_token, alone / prefilled)
        elif decoded:
            size = decoded.bit_length()
            self._decode[size] = _mean(self._decode.get(size), seconds)

    def _decode_in_tokens(self, decoded: int) -> float:
        seconds = self._decode_seconds(decoded)
        if seconds is None or not self._per_token:
            return _FIRST_DECODE
        return seconds / self._per_token

    def _decode_seconds(self, decoded: int) -> float | None:
        """Give the mean of the nearest size known; of those below where there are any."""
        size = decoded.bit_length()
        below = [known for known in self._decode if known <= size]
        nearest = max(below) if below else min(self._decode, default=0)
        return self._decode.get(nearest)


def _mean(before: float | None, value: float) -> float:
    return value if before is None else before + _WEIGHT * (value - before)
