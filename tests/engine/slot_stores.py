"""Slot stores for tests: one that has nothing to store, and one that checks what it is told."""

from __future__ import annotations

from engine.host_cache import Payload


class NoStore:
    """The store of a runner that keeps no state, or whose states are of no matter."""

    movable = cuttable = True

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        pass

    def save(self, slot: int, start: int, end: int) -> memoryview:
        return memoryview(bytes(end - start))

    def load(self, slot: int, start: int, payload: Payload) -> None:
        pass

    def save_state(self, slot: int) -> memoryview:
        return memoryview(b"")

    def load_state(self, slot: int, payload: Payload) -> None:
        pass


class TokenPayload(list[int]):
    """Tokens as they were saved; each has ten bytes."""

    @property
    def nbytes(self) -> int:
        return 10 * len(self)


class TokenStore:
    """Holds tokens for states, so that a test can see whether a slot has the right ones.

    `states` are the tokens that each slot's recurrent state has seen.
    """

    def __init__(self, slots: int, cuttable: bool = True, movable: bool = True) -> None:
        self.cuttable, self.movable = cuttable, movable
        self.held: list[list[int]] = [[] for _ in range(slots)]
        self.states: list[list[int]] = [[] for _ in range(slots)]
        self.moves: list[str] = []

    def compute(self, slot: int, start: int, token_ids: list[int]) -> None:
        """The model computes tokens at `start` and on."""
        past = self.held[slot][:start] if self.cuttable else self.states[slot] if start else []
        assert past == self.held[slot][:start]
        self.held[slot][start:] = token_ids
        self.states[slot] = list(self.held[slot])

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        assert source != target and self.movable
        assert len(self.held[target]) >= start and len(self.held[source]) >= end
        self.held[target][start:] = self.held[source][start:end]
        self.moves.append(f"copy {source}>{target} {start}:{end}")

    def save(self, slot: int, start: int, end: int) -> TokenPayload:
        assert len(self.held[slot]) >= end and self.movable
        self.moves.append(f"save {slot} {start}:{end}")
        return TokenPayload(self.held[slot][start:end])

    def load(self, slot: int, start: int, payload: Payload) -> None:
        assert isinstance(payload, TokenPayload)
        assert len(self.held[slot]) >= start
        self.held[slot][start:] = payload
        self.moves.append(f"load {slot} {start}:{start + len(payload)}")

    def save_state(self, slot: int) -> TokenPayload:
        assert self.movable and not self.cuttable
        self.moves.append(f"save state {slot} {len(self.states[slot])}")
        return TokenPayload(self.states[slot])

    def load_state(self, slot: int, payload: Payload) -> None:
        assert isinstance(payload, TokenPayload) and not self.cuttable
        self.states[slot] = list(payload)
        self.moves.append(f"load state {slot} {len(payload)}")
