"""Finds stop strings in a text that arrives in pieces."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


class StopStrings:
    """Ends a text before the first stop string in it, at constant cost per character.

    The stop string that starts first counts; of several that start together, the first in the
    list. The result does not depend on how the text is cut into pieces: what could still become a
    stop string is held back. Empty stop strings are ignored.

    An automaton of all stop strings (Aho and Corasick, 1975): a node stands for the longest end of
    the text that begins a stop string, so that text is all that needs holding back.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._next: dict[tuple[int, str], int] = {}
        self._depth = [0]
        self._fail = [0]
        self._ends: list[int | None] = [None]
        # The first stop string, by its place in the list, that continues beyond the node.
        self._beyond = [len(self._stops)]
        for index, stop in enumerate(self._stops):
            self._add(index, stop)
        self._link()
        self._node = 0
        self._position = 0
        self._held: deque[str] = deque()
        self._best: tuple[int, int] | None = None

    def push(self, text: str) -> tuple[str, str | None]:
        """Add text; gives the text that may be sent, and the stop string once one ended it.

        Not to be called again after a match.
        """
        if len(self._depth) == 1:
            return text, None
        for character in text:
            self._held.append(character)
            self._step(character)
            if self._best and self._is_final(self._best):
                return self._finish(self._best)
        return self._release(), None

    def flush(self) -> tuple[str, str | None]:
        """End of the text: what was held back, up to a stop string that a longer one outbid."""
        if self._best:
            return self._finish(self._best)
        return self._take(len(self._held)), None

    def _add(self, index: int, stop: str) -> None:
        node = 0
        for character in stop:
            self._beyond[node] = min(self._beyond[node], index)
            child = self._next.setdefault((node, character), len(self._depth))
            if child == len(self._depth):
                self._depth.append(self._depth[node] + 1)
                self._fail.append(0)
                self._ends.append(None)
                self._beyond.append(len(self._stops))
            node = child
        if node and self._ends[node] is None:
            self._ends[node] = index

    def _link(self) -> None:
        """Give each node the node of its longest proper end, and the stop string ending there."""
        for (parent, character), child in sorted(
            self._next.items(), key=lambda edge: self._depth[edge[1]]
        ):
            if parent:
                self._fail[child] = self._follow(self._fail[parent], character)
            if self._ends[child] is None:
                self._ends[child] = self._ends[self._fail[child]]

    def _follow(self, node: int, character: str) -> int:
        while node and (node, character) not in self._next:
            node = self._fail[node]
        return self._next.get((node, character), 0)

    def _step(self, character: str) -> None:
        self._node = self._follow(self._node, character)
        self._position += 1
        index = self._ends[self._node]
        if index is not None:
            found = self._position - len(self._stops[index]), index
            self._best = min(self._best or found, found)

    def _is_final(self, best: tuple[int, int]) -> bool:
        # A stop string may be under way that starts earlier, or together and ranks higher.
        return best < (self._position - self._depth[self._node], self._beyond[self._node])

    def _finish(self, best: tuple[int, int]) -> tuple[str, str | None]:
        start, index = best
        return self._take(start - self._position + len(self._held)), self._stops[index]

    def _release(self) -> str:
        start = self._position - self._depth[self._node]
        if self._best:
            start = min(start, self._best[0])
        return self._take(start - self._position + len(self._held))

    def _take(self, count: int) -> str:
        return "".join(self._held.popleft() for _ in range(count))
