"""Computed prompt tokens in host memory, found by their content, the least used go first.

Blocks hold the keys and values of tokens. State points hold the state of recurrent layers after all
tokens up to them, without which such a model cannot go on from the tokens before.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.state_points import MOST_POINTS

BLOCK = 32
# What a point's name has beyond that of the block that would end there.
_POINT = b"point"
# Bytes of a block's name: tenants must not be able to make two prompts collide.
_DIGEST = 32


class Payload(Protocol):
    """What a store saves of some tokens; only the store looks inside."""

    @property
    def nbytes(self) -> int:
        """Its size."""


@dataclass(frozen=True, slots=True)
class Block:
    """Tokens from `start` on of every prompt that begins with all tokens up to them.

    `parent` is the name of the block before it. A state point is one whose payload is the state
    after its tokens.
    """

    parent: bytes
    start: int
    token_ids: tuple[int, ...]
    payload: Payload

    @property
    def end(self) -> int:
        """Where the next block begins."""
        return self.start + len(self.token_ids)

    @property
    def is_point(self) -> bool:
        """Whether the payload is a state."""
        return len(self.parent) > _DIGEST


@dataclass(frozen=True, slots=True)
class Found:
    """The first `tokens` of a prompt; the last of `blocks` may hold more than belong to it."""

    tokens: int = 0
    blocks: tuple[Block, ...] = ()


class HostCache:
    """At most `cap` bytes of blocks, each of `BLOCK` tokens; the last of a prompt may be shorter.

    A block's name is a hash over its tenant and all tokens up to its end, so a beginning that
    prompts share is stored once. Blocks go from the end of what was used longest ago. `nbytes` is
    what blocks and state points take, `point_bytes` the part of the points.
    """

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.nbytes = self.point_bytes = 0
        self.evictions = 0
        self._blocks: OrderedDict[bytes, Block] = OrderedDict()
        self._children: dict[bytes, set[bytes]] = {}

    def find(self, tenant: str, token_ids: Sequence[int]) -> Found:
        """Give the longest known beginning of these tokens."""
        names, parent, known = [], _root(tenant), 0
        while len(token_ids) - known >= BLOCK:
            name = _name(parent, token_ids[known : known + BLOCK])
            if name not in self._blocks:
                break
            names.append(name)
            parent, known = name, known + BLOCK
        name, shared = self._closest_child(parent, token_ids[known : known + BLOCK])
        if shared:
            names.append(name)
        self._touch(names)
        return Found(known + shared, tuple(self._blocks[name] for name in names))

    def add(
        self, tenant: str, token_ids: Sequence[int], save: Callable[[int, int], Payload]
    ) -> None:
        """Keep these tokens, as far as there is room; `save(start, end)` gives those that are new.

        Everything that was used longer ago makes way. What `save` raises is passed on; what came
        before it is kept.
        """
        names: list[bytes] = []
        try:
            self._add(tenant, token_ids, save, names)
        finally:
            self._touch(names)

    def points(self, tenant: str, token_ids: Sequence[int]) -> list[Block]:
        """Give the known state points among these tokens and at their end, in their order."""
        found: list[bytes] = []
        for parent, start in _parents(tenant, token_ids):
            rest = tuple(token_ids[start : start + BLOCK])
            here = [
                (self._blocks[name].end, name) for name in self._children.get(parent + _POINT, ())
            ]
            found += [
                name
                for end, name in sorted(here)
                if self._blocks[name].token_ids == rest[: end - start]
            ]
        # They are large: no more than a prompt's newest live as long as its tokens.
        self._touch(found[-MOST_POINTS:])
        return [self._blocks[name] for name in found]

    def add_point(self, tenant: str, token_ids: Sequence[int], save: Callable[[], Payload]) -> None:
        """Keep the state after these tokens, which `save` gives if it is new, if there is room."""
        *_, (parent, start) = _parents(tenant, token_ids)
        ids = tuple(token_ids[start:])
        name = _name(parent, ids) + _POINT
        if name not in self._blocks:
            self._insert(name, Block(parent + _POINT, start, ids, save()), [])
        # Newer than the tokens before it: without it they are of no use.
        self.points(tenant, token_ids)

    def _add(
        self,
        tenant: str,
        token_ids: Sequence[int],
        save: Callable[[int, int], Payload],
        names: list[bytes],
    ) -> None:
        """Add blocks as long as there is room, each one's name to `names`."""
        parent = _root(tenant)
        for start in range(0, len(token_ids), BLOCK):
            ids = tuple(token_ids[start : start + BLOCK])
            name = _name(parent, ids)
            if name in self._blocks:
                self._blocks.move_to_end(name)
            else:
                block = Block(parent, start, ids, save(start, start + len(ids)))
                if not self._insert(name, block, names):
                    break
            names.append(name)
            parent = name

    def _closest_child(self, parent: bytes, rest: Sequence[int]) -> tuple[bytes, int]:
        """Give the block after `parent` that begins most like `rest`, and how far it does."""
        shared = {
            name: common_prefix(self._blocks[name].token_ids, rest)
            for name in self._children.get(parent, ())
        }
        name = max(shared, key=shared.__getitem__, default=b"")
        return name, shared.get(name, 0)

    def _insert(self, name: bytes, block: Block, newest: list[bytes]) -> bool:
        """Add a block unless that would push out one of `newest`, the ones before it."""
        size = block.payload.nbytes
        if size > self.cap:
            return False
        self._blocks[name] = block
        self._children.setdefault(block.parent, set()).add(name)
        self._count(block, size)
        while self.nbytes > self.cap:
            oldest = next(iter(self._blocks))
            if oldest == name or oldest in newest:
                self._drop(name)
                return False
            self._drop(oldest)
            self.evictions += 1
        return True

    def _drop(self, name: bytes) -> None:
        block = self._blocks.pop(name)
        self._count(block, -block.payload.nbytes)
        self._children[block.parent].discard(name)
        if not self._children[block.parent]:
            del self._children[block.parent]

    def _count(self, block: Block, size: int) -> None:
        self.nbytes += size
        if block.is_point:
            self.point_bytes += size

    def _touch(self, names: list[bytes]) -> None:
        # A beginning is of more use than what follows it, so it counts as used later.
        for name in reversed(names):
            self._blocks.move_to_end(name)


def _root(tenant: str) -> bytes:
    return hashlib.blake2b(tenant.encode(), digest_size=_DIGEST, person=b"tenant").digest()


def _parents(tenant: str, token_ids: Sequence[int]) -> Iterator[tuple[bytes, int]]:
    """Give where each block begins, and the name of the one before it."""
    parent = _root(tenant)
    for start in range(0, len(token_ids), BLOCK):
        yield parent, start
        parent = _name(parent, token_ids[start : start + BLOCK])


def _name(parent: bytes, token_ids: Sequence[int]) -> bytes:
    return hashlib.blake2b(parent + array("q", token_ids).tobytes(), digest_size=_DIGEST).digest()


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Count the equal tokens at the beginning of both."""
    low, high = 0, min(len(a), len(b))
    # Comparing slices is far faster than comparing tokens, so halve instead of walking.
    while low < high:
        middle = (low + high + 1) // 2
        if tuple(a[low:middle]) == tuple(b[low:middle]):
            low = middle
        else:
            high = middle - 1
    return low
