from __future__ import annotations

import pytest

from engine.chunk_size import SMALLEST_CHUNK, ChunkSize

DECODE, CHUNK, TOKEN = 0.030, 0.010, 0.001


def seconds(prefilled: int, decoded: int) -> float:
    """A machine on which a chunk costs 10 ms and 1 ms for each token, and a decode step 30 ms."""
    return (CHUNK + TOKEN * prefilled if prefilled else 0) + (DECODE if decoded else 0)


def settled(full: int = 256, decoded: int = 1) -> ChunkSize:
    size = ChunkSize(full)
    for _ in range(5):
        size.learn(0, decoded, seconds(0, decoded))
    for _ in range(30):
        chunk = size.beside(decoded)
        size.learn(chunk, decoded, seconds(chunk, decoded))
    return size


def test_a_prompt_that_is_alone_is_computed_in_full_chunks() -> None:
    assert ChunkSize(256).beside(0) == settled().beside(0) == 256


def test_a_step_with_a_prompt_takes_up_to_three_times_as_long_as_one_without() -> None:
    chunk = settled().beside(1)
    assert seconds(chunk, 1) <= 3 * DECODE < seconds(chunk + 4, 1)


def test_prompts_that_wait_for_free_slots_get_their_share_of_the_time() -> None:
    size = settled()
    assert size.beside(1, prompts=3) == pytest.approx(3 * size.beside(1), abs=8)


def test_a_machine_that_is_slow_at_prompts_still_computes_the_smallest_chunk() -> None:
    size = ChunkSize(256)
    size.learn(0, 1, 0.001)
    size.learn(256, 0, 100.0)
    assert size.beside(1) == SMALLEST_CHUNK


def test_no_chunk_is_larger_than_a_full_one() -> None:
    size = ChunkSize(100)
    size.learn(0, 1, 10.0)
    size.learn(100, 0, 0.1)
    assert size.beside(1) == 100


def test_before_anything_was_measured_a_chunk_beside_answers_is_small() -> None:
    assert ChunkSize(256).beside(3) == 32


@pytest.mark.parametrize(
    ("decoded", "expected"), [(1, 100), (2, 100), (4, 200), (5, 200), (16, 200)]
)
def test_decoding_more_tokens_is_measured_apart(decoded: int, expected: int) -> None:
    size = ChunkSize(256)
    size.learn(200, 0, 0.2)
    size.learn(0, 1, 0.050)
    size.learn(0, 4, 0.100)
    assert size.beside(decoded) == expected


def test_a_slow_step_is_soon_forgotten() -> None:
    size = settled()
    usual = size.beside(1)
    size.learn(0, 1, 10 * DECODE)
    assert size.beside(1) > usual
    for _ in range(20):
        size.learn(0, 1, DECODE)
    assert abs(size.beside(1) - usual) <= 4


def test_a_step_of_no_time_at_all_is_no_matter() -> None:
    size = ChunkSize(256)
    size.learn(10, 0, 0.0)
    size.learn(0, 1, 0.0)
    assert size.beside(1) == 32
