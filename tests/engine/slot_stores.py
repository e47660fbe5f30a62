"""Slot stores for tests: one that has nothing to store, and one that checks what it is told."""

from __future__ import annotations

from engine.host_cache import Payload


class NoStore:
    """The store of a runner that keeps no state, or whose states are of no matter."""

    cuttable = True

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        pass

    def save(self, slot: int, start: int, end: int) -> memoryview:
        return memoryview(bytes(end - start))

    def load(self, slot: int, start: int, payload: Payload) -> None:
        pass


class TokenPayload(list[int]):
    """Tokens as they were saved; each has ten bytes."""

    @property
    def nbytes(self) -> int:
        return 10 * len(self)


class TokenStore:
    """Holds tokens for states, so that a test can see whether a slot has the right ones."""

    def __init__(self, slots: int, cuttable: bool = True) -> None:
        self.cuttable = cuttable
        self.held: list[list[int]] = [[] for _ in range(slots)]
        self.moves: list[str] = []

    def compute(self, slot: int, start: int, token_ids: list[int]) -> None:
        """The model computes tokens at `start` and on."""
        self.held[slot][start:] = token_ids

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        assert source != target
        assert len(self.held[target]) >= start and len(self.held[source]) >= end
        self.held[target][start:] = self.held[source][start:end]
        self.moves.append(f"copy {source}>{target} {start}:{end}")

    def save(self, slot: int, start: int, end: int) -> TokenPayload:
        assert len(self.held[slot]) >= end
        self.moves.append(f"save {slot} {start}:{end}")
        return TokenPayload(self.held[slot][start:end])

    def load(self, slot: int, start: int, payload: Payload) -> None:
        assert isinstance(payload, TokenPayload)
        assert len(self.held[slot]) >= start
        self.held[slot][start:] = payload
        self.moves.append(f"load {slot} {start}:{start + len(payload)}")
