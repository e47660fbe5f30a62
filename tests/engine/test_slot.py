from __future__ import annotations

import pytest

from engine.request import SamplingParams
from engine.slot import Sequence, SequenceStatus


def sequence(max_tokens: int = 3) -> Sequence:
    return Sequence("a", (1, 2), max_tokens, SamplingParams())


def test_sequence_goes_from_waiting_over_prefill_to_decode() -> None:
    seq = sequence()
    states = [seq.status]
    seq.slot = 0
    states.append(seq.status)
    seq.append(5, {9})
    states.append(seq.status)
    assert states == [SequenceStatus.WAITING, SequenceStatus.PREFILL, SequenceStatus.DECODE]


@pytest.mark.parametrize(
    ("ids", "finish"), [([5, 9], "stop"), ([5, 6, 7], "length"), ([5, 6, 9], "stop")]
)
def test_sequence_finishes_at_an_end_id_or_at_its_length(ids: list[int], finish: str) -> None:
    seq = sequence()
    for token_id in ids:
        assert seq.finish is None
        seq.append(token_id, {9})
    assert seq.finish == finish
    assert seq.status is SequenceStatus.FINISHED
