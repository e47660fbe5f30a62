"""Finds markers in a text that arrives in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Whitespace before a marker is dropped; a longer run is text, or it would be held back for ever.
_LONGEST_SPACE = 256


class Markers:
    """Finds the first of some markers, and what at the end of a text could become one."""

    def __init__(self, markers: Iterable[str]) -> None:
        self._markers = sorted(set(markers), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self._markers)) or "(?!)")
        self._prefixes = {m[:n] for m in self._markers for n in range(1, len(m))}

    def split(self, text: str) -> tuple[str, str, str]:
        """The text before the first marker, the marker (or nothing), and the rest."""
        match = self._pattern.search(text)
        if match:
            return text[: match.start()], match[0], text[match.end() :]
        longest = min(len(text), len(self._markers[0]) - 1) if self._markers else 0
        held = next((n for n in range(longest, 0, -1) if text[-n:] in self._prefixes), 0)
        return text[: len(text) - held], "", text[len(text) - held :]

    def __bool__(self) -> bool:
        return bool(self._markers)


def without_space(text: str) -> tuple[str, str]:
    """Split the whitespace off the end, as far as it may be dropped."""
    space = min(len(text) - len(text.rstrip()), _LONGEST_SPACE)
    return text[: len(text) - space], text[len(text) - space :]
