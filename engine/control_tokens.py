"""Keeps client text from producing control tokens while a chat template renders it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tokenizers import AddedToken

from engine.tokenizer import PIECE, Segment

# Supplementary private-use characters: no template knows them, none trims or changes them.
_PRIVATE = range(0xF0000, 0xFFFFE)
# A search keeps the interpreter lock to its end; one over so many characters takes 2 ms.
_WINDOW = 2**18


class ControlTokens:
    """A tokenizer's control tokens: masks their spellings in client text.

    Where client text spells a control token, the characters that could begin or end one are
    replaced, one for one, by private-use characters drawn anew in each process; so a template
    still sees a text of the same length and spacing. `segments` puts them back after rendering
    and says which stretches of the prompt are plain text.
    """

    def __init__(self, tokens: Sequence[AddedToken]) -> None:
        contents = [token.content for token in tokens]
        self.contents = frozenset(contents)
        self._pattern = re.compile(_longest_of(contents) if contents else "(?!)")
        self._strips = {token.content: (token.lstrip, token.rstrip) for token in tokens}
        # An unfinished spelling may be finished by the template's text or by other client text.
        self._heads = {c[:n] for c in contents for n in range(1, len(c)) if not c[:n].isalnum()}
        self._tails = {c[n:] for c in contents for n in range(1, len(c)) if not c[n:].isalnum()}
        self._longest = max(map(len, contents), default=1) - 1
        sources = sorted({end for content in contents for end in (content[0], content[-1])})
        marks = [chr(c) for c in secrets.SystemRandom().sample(_PRIVATE, len(sources) + 2)]
        self.end_mark, self._escape, *rest = marks
        self._table = str.maketrans(dict(zip(sources, rest, strict=True)))
        self._sources = dict(zip(rest, sources, strict=True))
        self._mark = re.compile(f"[{''.join(marks)}]")
        self._marked = re.compile(f"{self._escape}({self._mark.pattern})|{self._mark.pattern}")

    def mask(self, value: Any) -> Any:
        """Mask every string in a JSON value, keys too."""
        if isinstance(value, str):
            return self._mask_text(value)
        if isinstance(value, list | tuple):
            return [self.mask(item) for item in value]
        if isinstance(value, dict):
            return {self.mask(key): self.mask(item) for key, item in value.items()}
        return value

    def unmask(self, text: str) -> str:
        """The text as the client wrote it."""
        return _replace(self._marked, lambda m: m[1] or self._sources.get(m[0], ""), text, 2)

    def segments(self, rendered: str) -> tuple[Segment, ...]:
        """Split a rendered prompt into segments, masks undone.

        A stretch between two control tokens is plain when it holds masked text. So is a long one,
        which the tokenizer may then cut.
        """
        found: list[Segment] = []
        control = ""
        for token, section in self._sections(rendered):
            if len(control) > PIECE:
                found.append(Segment(control, control=True))
                control = ""
            control += token
            if len(section) > PIECE or self._mark.search(section):
                found += [Segment(control, control=True), Segment(self.unmask(section))]
                control = ""
            else:
                control += section
        found.append(Segment(control, control=True))
        return tuple(segment for segment in found if segment.text)

    def _sections(self, rendered: str) -> Iterator[tuple[str, str]]:
        """Yield each control token with the text after it; before the first stands an empty one."""
        token, start = "", 0
        for match in _matches(self._pattern, rendered, self._longest + 1):
            begin, end = self._extent(rendered, match, start)
            yield token, rendered[start:begin]
            token, start = rendered[begin:end], end
        yield token, rendered[start:]

    def _extent(self, text: str, match: re.Match[str], start: int) -> tuple[int, int]:
        # Some tokens swallow the whitespace next to them.
        left, right = self._strips[match[0]]
        begin, end = match.span()
        if left:
            begin = start + len(text[start:begin].rstrip())
        if right and (space := re.compile(r"\s+").match(text, end)):
            end = space.end()
        return max(begin, start), end

    def _mask_text(self, text: str) -> str:
        text = _replace(self._mark, lambda m: self._escape + m[0], text, 1)
        text = _replace(
            self._pattern, lambda m: m[0].translate(self._table), text, self._longest + 1
        )
        longest = min(len(text), self._longest)
        head = next((n for n in range(longest, 0, -1) if text[:n] in self._tails), 0)
        tail = next((n for n in range(longest, 0, -1) if text[-n:] in self._heads), 0)
        if head:
            text = text[:head].translate(self._table) + text[head:]
        if tail:
            text = text[:-tail] + text[-tail:].translate(self._table)
        return text


def _matches(pattern: re.Pattern[str], text: str, longest: int) -> Iterator[re.Match[str]]:
    """Find what `finditer` finds, window by window; no match is of more than `longest` characters.

    The pattern must not look around its match.
    """
    start = 0
    for window in range(_WINDOW, len(text) + _WINDOW, _WINDOW):
        for match in pattern.finditer(text, start, window + longest):
            if match.start() >= window:
                break
            yield match
            start = match.end()
        start = max(start, window)


def _replace(
    pattern: re.Pattern[str], new: Callable[[re.Match[str]], str], text: str, longest: int
) -> str:
    """Do what `pattern.sub` does, window by window."""
    pieces: list[str] = []
    end = 0
    for match in _matches(pattern, text, longest):
        pieces += text[end : match.start()], new(match)
        end = match.end()
    return "".join(pieces) + text[end:] if pieces else text


def _longest_of(words: list[str]) -> str:
    """A regular expression for the longest of `words`, shaped as a trie so that it never crawls."""
    branches: dict[str, list[str]] = {}
    for word in words:
        if word:
            branches.setdefault(word[0], []).append(word[1:])
    if not branches:
        return ""
    body = "|".join(re.escape(first) + _longest_of(rest) for first, rest in branches.items())
    optional = "" in words
    return f"(?:{body})" + "?" * optional if optional or len(branches) > 1 else body
