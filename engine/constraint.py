"""Constrained decoding in the worker: which tokens an answer may go on with."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from numpy.typing import NDArray

from engine.messages import Constraint, ThinkingBudget

Mask = NDArray[np.uint32]
_T = TypeVar("_T")

_logger = logging.getLogger(__name__)
_LIMITS = LLParserLimits(verbose_errors=False)
_CACHED_GRAMMARS = 32


class ConstraintError(Exception):
    """An answer cannot be held to its constraint any longer."""


class Vocabulary:
    """The tokens as bytes, and masks over them: bit `i % 32` of word `i // 32` allows id `i`.

    Raises ValueError for a tokenizer that llguidance cannot read.
    """

    def __init__(
        self, tokenizer_json: str, eos_token_ids: Collection[int], vocab_size: int
    ) -> None:
        self.tokenizer = LLTokenizer(tokenizer_json, eos_token=list(eos_token_ids))
        self._words = (vocab_size + 31) // 32
        self.ends = self.only(eos_token_ids)

    def spelling(self, token_id: int) -> bytes:
        """The bytes that a token adds to the text; a control token's are its name."""
        known = token_id < self.tokenizer.vocab_size
        return self.tokenizer.decode_bytes([token_id]) if known else b""

    def is_control(self, token_id: int) -> bool:
        """Whether the token is no text."""
        known = token_id < self.tokenizer.vocab_size
        return not known or self.tokenizer.is_special_token(token_id)

    def spell(self, data: bytes) -> list[int]:
        """Tokens that add exactly `data`, control tokens where it names them."""
        token_ids = self.tokenizer.tokenize_bytes(data, parse_special=True)
        if self.tokenizer.decode_bytes(token_ids) != data:
            raise ConstraintError("the tokenizer does not keep the text")
        return token_ids

    def only(self, token_ids: Collection[int]) -> Mask:
        """The mask that allows these ids."""
        mask = np.zeros(self._words, np.uint32)
        for token_id in token_ids:
            mask[token_id // 32] |= np.uint32(1 << token_id % 32)
        return mask

    def fit(self, packed: bytes) -> Mask:
        """llguidance's mask, cut or padded: models may have more ids than their tokenizers."""
        found = np.frombuffer(packed, np.uint32)[: self._words]
        return np.pad(found, (0, self._words - len(found)))


class Scanner:
    """Finds markers in a stream of bytes that arrives in pieces."""

    def __init__(self) -> None:
        self._tail = b""

    def find(self, data: bytes, markers: Sequence[bytes]) -> tuple[bytes, bytes] | None:
        """The marker that is complete first, and the bytes after it; None while there is none."""
        text = self._tail + data
        ends = [(text.index(marker) + len(marker), marker) for marker in markers if marker in text]
        if not ends:
            kept = max(map(len, markers)) - 1  # what may be a marker's beginning
            self._tail = text[-kept:] if kept else b""
            return None
        self._tail = b""
        end, marker = min(ends)
        return marker, text[end:]


class TriggerWatch:
    """Finds the text that begins a call, outside the thinking."""

    def __init__(self, constraint: Constraint) -> None:
        opened, close = constraint.thinking or ("", "")
        self._trigger = (constraint.trigger or "").encode()
        self._markers = [m for m in (self._trigger, (opened or "").encode()) if m]
        self._close = close.encode()
        self._thinking = opened is None
        self._scanner = Scanner()
        # The answer's first bytes, as long as they may become a marker that has to stand there.
        self._start: bytes | None = b"" if constraint.at_start else None
        self._lost = False

    def find(self, data: bytes, control: bool) -> bytes | None:
        """Take a token's bytes; return those after the trigger once that is complete."""
        while not self._lost:
            found = self._find(data, control)
            if found is None:
                return None
            marker, data = found
            if not self._thinking and marker == self._trigger:
                return data
            self._thinking = not self._thinking
        return None

    def _find(self, data: bytes, control: bool) -> tuple[bytes, bytes] | None:
        if self._thinking:
            return self._scanner.find(data, [self._close])
        if self._start is None:
            return self._scanner.find(data, self._markers)
        if control and data not in self._markers:
            return None  # a header before the text, such as Llama's <|python_tag|>
        text = self._start = (self._start + data).lstrip()
        for marker in self._markers:
            if text.startswith(marker):
                self._start = b""
                return marker, text[len(marker) :]
        self._lost = not any(marker.startswith(text) for marker in self._markers)
        return None


class Hold(Protocol):
    """One thing that an answer is held to; both methods raise ConstraintError."""

    def mask(self) -> Mask | None:
        """The ids that may come next, None for all."""

    def accept(self, token_id: int) -> None:
        """Take the id that was chosen."""


class BudgetHold:
    """Counts an answer's thinking; at the cap the ids of its closing marker are forced."""

    def __init__(self, budget: ThinkingBudget, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._left = budget.tokens
        self._close = budget.close.encode()
        self._close_ids = vocabulary.spell(self._close)
        self._open = None if budget.open is None else budget.open.encode()
        self._scanner = Scanner()
        self._inside = self._open is None
        self._forced: deque[int] = deque()
        self._force_when_spent()

    def mask(self) -> Mask | None:
        """The next id of the closing marker where the thinking has to end."""
        return self._vocabulary.only([self._forced[0]]) if self._forced else None

    def accept(self, token_id: int) -> None:
        """Count the id that was chosen."""
        if self._forced:
            self._forced.popleft()
            self._inside = bool(self._forced)
            return
        self._left -= self._inside
        self._follow(self._vocabulary.spelling(token_id))
        self._force_when_spent()

    def _follow(self, data: bytes) -> None:
        while marker := self._close if self._inside else self._open:
            found = self._scanner.find(data, [marker])
            if found is None:
                return
            self._inside, data = not self._inside, found[1]

    def _force_when_spent(self) -> None:
        if self._inside and self._left <= 0:
            self._forced.extend(self._close_ids)
            self._scanner = Scanner()


class GrammarHold:
    """Where an answer stands in its grammar: watched for a call, held to it, or over."""

    def __init__(
        self, constraint: Constraint, vocabulary: Vocabulary, compiled: Future[LLMatcher]
    ) -> None:
        self._vocabulary = vocabulary
        self._compiled = compiled
        self._watch = TriggerWatch(constraint) if constraint.trigger else None
        self._repeat = constraint.repeat
        self._matcher = None if self._watch else self._new_matcher()
        self._over = False

    def mask(self) -> Mask | None:
        """The ids that may come next, None for all."""
        if self._over:
            return self._vocabulary.ends
        if self._matcher is None:
            return None
        mask = self._vocabulary.fit(self._matcher.compute_bitmask())
        if self._matcher.is_error() or not mask.any():
            raise ConstraintError(f"no token fits the grammar ({self._matcher.stop_reason()})")
        return mask

    def accept(self, token_id: int) -> None:
        """Take the id that was chosen."""
        if self._matcher:
            self._consume(self._matcher, [token_id])
        elif self._watch and not self._over:
            data = self._vocabulary.spelling(token_id)
            rest = self._watch.find(data, self._vocabulary.is_control(token_id))
            if rest is not None:
                self._matcher = self._new_matcher()
                self._consume(self._matcher, self._vocabulary.spell(rest))

    def _new_matcher(self) -> LLMatcher:
        matcher = self._compiled.result().deep_copy()
        if matcher.is_error():
            raise ConstraintError(f"the grammar does not compile ({matcher.stop_reason()})")
        return matcher

    def _consume(self, matcher: LLMatcher, token_ids: list[int]) -> None:
        if not matcher.consume_tokens(token_ids):
            raise ConstraintError("the text does not follow the grammar")
        if matcher.is_stopped():
            self._matcher = None
            self._over = self._watch is None or not self._repeat


class ConstraintState:
    """What one answer is held to. A hold that fails is let go and logged: the answer goes on."""

    def __init__(self, holds: Sequence[Callable[[], Hold]]) -> None:
        # Made when first needed: until then their grammar compiles beside the prefill.
        self._waiting = list(holds)
        self._holds: list[Hold] = []

    def mask(self) -> Mask | None:
        """The ids that may come next as packed bits, None for all; the first hold decides."""
        masks = (self._guarded(hold, lambda hold: hold.mask()) for hold in self._made())
        return next((mask for mask in masks if mask is not None), None)

    def accept(self, token_id: int) -> None:
        """Take the id that was chosen, unless it ends the answer."""
        for hold in self._made():
            self._guarded(hold, lambda hold: hold.accept(token_id))

    def _made(self) -> list[Hold]:
        waiting, self._waiting = self._waiting, []
        for make in waiting:
            try:
                self._holds.append(make())
            except Exception as error:
                _log(error)
        return list(self._holds)

    def _guarded(self, hold: Hold, action: Callable[[Hold], _T]) -> _T | None:
        try:
            return action(hold)
        except Exception as error:  # a library's fault must not end the step of all
            _log(error)
            self._holds.remove(hold)
            return None


class ConstraintCompiler:
    """Makes the states of a worker's answers; grammars compile in a thread of their own.

    The vocabulary takes tens of megabytes: it is read when the first constraint comes.
    """

    def __init__(
        self, tokenizer_json: str, eos_token_ids: Collection[int], vocab_size: int
    ) -> None:
        self._vocabulary_args = (tokenizer_json, tuple(eos_token_ids), vocab_size)
        self._vocabulary: Future[Vocabulary] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammar")
        self._compiled: OrderedDict[str, Future[LLMatcher]] = OrderedDict()

    def begin(
        self, constraint: Constraint | None, thinking: ThinkingBudget | None
    ) -> ConstraintState | None:
        """The state of a new answer, None when it is free; returns at once, never raises."""
        if constraint is None and thinking is None:
            return None
        if self._vocabulary is None:
            self._vocabulary = self._thread.submit(Vocabulary, *self._vocabulary_args)
        vocabulary = self._vocabulary
        holds: list[Callable[[], Hold]] = []
        if thinking is not None:
            holds.append(lambda: BudgetHold(thinking, vocabulary.result()))
        if constraint is not None:
            compiled = self._compile(constraint.grammar, vocabulary)
            holds.append(lambda: GrammarHold(constraint, vocabulary.result(), compiled))
        return ConstraintState(holds)

    def _compile(self, grammar: str, vocabulary: Future[Vocabulary]) -> Future[LLMatcher]:
        compiled = self._compiled.pop(grammar, None)
        if compiled is None:
            compiled = self._thread.submit(_matcher, grammar, vocabulary)
        self._compiled[grammar] = compiled
        if len(self._compiled) > _CACHED_GRAMMARS:
            self._compiled.popitem(last=False)
        return compiled


def _matcher(grammar: str, vocabulary: Future[Vocabulary]) -> LLMatcher:
    compiled = LLMatcher.grammar_from_lark(grammar)
    tokenizer = vocabulary.result().tokenizer
    return LLMatcher(tokenizer, compiled, log_level=0, limits=_LIMITS)


def _log(error: Exception) -> None:
    _logger.warning("an answer goes on without its constraint: %s", error)
