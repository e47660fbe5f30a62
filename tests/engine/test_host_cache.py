"""HostCache: blocks found by content, bounded by bytes."""

from __future__ import annotations

import random

from engine.host_cache import BLOCK, HostCache, common_prefix

BYTES = 10  # of one token


class Saver:
    """Saves tokens as their number of bytes, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def __call__(self, start: int, end: int) -> memoryview:
        self.asked.append((start, end))
        return memoryview(bytes(BYTES * (end - start)))


def add(cache: HostCache, token_ids: list[int], tenant: str = "a") -> list[tuple[int, int]]:
    saver = Saver()
    cache.add(tenant, token_ids, saver)
    return saver.asked


def found(cache: HostCache, token_ids: list[int], tenant: str = "a") -> int:
    """How many tokens are found; the blocks have to be theirs, one after the other."""
    found = cache.find(tenant, token_ids)
    held = [token_id for block in found.blocks for token_id in block.token_ids]
    assert held[: found.tokens] == token_ids[: found.tokens]
    assert [b.start for b in found.blocks] == [0, *(b.end for b in found.blocks)][:-1]
    return found.tokens


def tokens(seed: int, count: int) -> list[int]:
    return list(range(seed, seed + count))


ROOM = 100 * BLOCK * BYTES


def test_what_was_added_is_found_to_its_last_token() -> None:
    cache = HostCache(ROOM)
    for count in (1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5):
        prompt = tokens(1000 * count, count)
        add(cache, prompt)
        assert found(cache, prompt) == count
        assert found(cache, [*prompt, 7, 8]) == count


def test_a_prompt_is_found_to_the_token_where_it_differs() -> None:
    cache = HostCache(ROOM)
    prompt = tokens(0, 3 * BLOCK + 5)
    add(cache, prompt)
    assert found(cache, [*prompt[: 2 * BLOCK + 7], -1, *prompt[2 * BLOCK + 8 :]]) == 2 * BLOCK + 7
    assert found(cache, prompt[: BLOCK + 9]) == BLOCK + 9
    assert found(cache, [*prompt[: BLOCK + 9], -1]) == BLOCK + 9
    assert found(cache, [-1, *prompt[1:]]) == 0
    assert found(cache, []) == 0


def test_a_beginning_that_prompts_share_is_stored_once() -> None:
    cache = HostCache(ROOM)
    beginning = tokens(0, 2 * BLOCK)
    add(cache, [*beginning, 1, 2])
    assert add(cache, [*beginning, 3]) == [(2 * BLOCK, 2 * BLOCK + 1)]
    assert cache.nbytes == (2 * BLOCK + 3) * BYTES


def test_tenants_do_not_find_each_others_prompts() -> None:
    cache = HostCache(ROOM)
    prompt = tokens(0, 2 * BLOCK)
    add(cache, prompt, "a")
    assert found(cache, prompt, "b") == 0
    assert add(cache, prompt, "b") == [(0, BLOCK), (BLOCK, 2 * BLOCK)]


def test_the_end_of_what_was_used_longest_ago_goes_first() -> None:
    cache = HostCache(4 * BLOCK * BYTES)
    old, new = tokens(0, 2 * BLOCK), tokens(5000, 2 * BLOCK)
    add(cache, old)
    add(cache, new)
    assert found(cache, old) == 2 * BLOCK
    add(cache, tokens(9000, BLOCK))
    assert (found(cache, new), found(cache, old)) == (BLOCK, 2 * BLOCK)
    assert (cache.evictions, cache.nbytes) == (1, 4 * BLOCK * BYTES)


def test_a_prompt_that_is_larger_than_the_cache_keeps_its_beginning() -> None:
    cache = HostCache(2 * BLOCK * BYTES)
    prompt = tokens(0, 5 * BLOCK)
    add(cache, tokens(7000, BLOCK))
    add(cache, prompt)
    assert found(cache, prompt) == 2 * BLOCK
    assert (cache.evictions, cache.nbytes) == (1, 2 * BLOCK * BYTES)
    add(cache, prompt)
    assert (found(cache, prompt), cache.evictions) == (2 * BLOCK, 1)


def test_without_room_nothing_is_kept() -> None:
    cache = HostCache(BYTES)
    add(cache, tokens(0, BLOCK))
    assert (cache.nbytes, cache.evictions, found(cache, tokens(0, BLOCK))) == (0, 0, 0)


def test_its_bytes_are_those_of_its_blocks_and_below_the_cap_after_any_use() -> None:
    rnd = random.Random(1)
    cache = HostCache(7 * BLOCK * BYTES)
    for _ in range(500):
        prompt = tokens(rnd.randrange(4), rnd.randrange(1, 5 * BLOCK))
        if rnd.random() < 0.5:
            prompt = [
                *prompt[: rnd.randrange(len(prompt) + 1)],
                *tokens(8, rnd.randrange(1, BLOCK)),
            ]
        add(cache, prompt, rnd.choice("ab"))
        assert cache.nbytes == sum(b.payload.nbytes for b in cache._blocks.values()) <= cache.cap
        assert found(cache, prompt) >= 0
    assert cache.evictions > 0


def test_common_prefix_counts_the_equal_beginning() -> None:
    rnd = random.Random(2)
    for _ in range(300):
        a = [rnd.randrange(2) for _ in range(rnd.randrange(12))]
        b = [rnd.randrange(2) for _ in range(rnd.randrange(12))]
        expected = 0
        while expected < min(len(a), len(b)) and a[expected] == b[expected]:
            expected += 1
        assert common_prefix(a, tuple(b)) == expected


def points(cache: HostCache, token_ids: list[int], tenant: str = "a") -> list[int]:
    return [point.end for point in cache.points(tenant, token_ids)]


def add_point(cache: HostCache, token_ids: list[int], size: int, tenant: str = "a") -> None:
    cache.add_point(tenant, token_ids, lambda: memoryview(bytes(size)))


def test_state_points_are_found_among_the_tokens_that_they_follow() -> None:
    cache = HostCache(ROOM)
    prompt = tokens(0, 3 * BLOCK)
    for end in (5, BLOCK, BLOCK + 1, 2 * BLOCK + 9):
        add_point(cache, prompt[:end], 7)
    assert points(cache, prompt) == [5, BLOCK, BLOCK + 1, 2 * BLOCK + 9]
    assert points(cache, prompt[: BLOCK + 1]) == [5, BLOCK, BLOCK + 1]
    assert points(cache, prompt[:BLOCK]) == [5, BLOCK]
    assert points(cache, [*prompt[:BLOCK], -1, -2]) == [5, BLOCK]
    assert points(cache, [-1, *prompt[1:]]) == points(cache, []) == []
    assert points(cache, prompt, tenant="b") == []
    assert (cache.nbytes, cache.point_bytes) == (28, 28)
    assert found(cache, prompt) == 0


def test_a_state_point_is_saved_once_and_counted_until_it_goes() -> None:
    cache = HostCache(2 * BLOCK * BYTES + 100)
    prompt = tokens(0, BLOCK)
    add_point(cache, prompt, 60)
    add_point(cache, prompt, 61)
    add(cache, prompt)
    assert (cache.nbytes, cache.point_bytes) == (BLOCK * BYTES + 60, 60)
    add(cache, tokens(5000, 2 * BLOCK))
    assert (points(cache, prompt), cache.point_bytes, cache.evictions) == ([], 0, 2)


def test_a_state_point_larger_than_the_cache_pushes_nothing_out() -> None:
    cache = HostCache(BLOCK * BYTES)
    prompt = tokens(0, BLOCK)
    add(cache, prompt)
    add_point(cache, prompt, BLOCK * BYTES + 1)
    assert (found(cache, prompt), cache.evictions, cache.point_bytes) == (BLOCK, 0, 0)


def test_a_long_conversation_s_early_state_points_go_before_those_of_its_last_messages() -> None:
    cache = HostCache(ROOM)
    prompt = tokens(0, 5 * BLOCK)
    size = ROOM // 4
    for count in (1, 2, 3, 4):
        add_point(cache, prompt[: count * BLOCK], size)
        points(cache, prompt)
    add_point(cache, tokens(5000, BLOCK), size)
    assert points(cache, prompt) == [2 * BLOCK, 3 * BLOCK, 4 * BLOCK]
