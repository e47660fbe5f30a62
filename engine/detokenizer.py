"""Turns token ids into text while they arrive."""

from __future__ import annotations

import codecs

from engine.tokenizer import Tokenizer


class IncrementalDetokenizer:
    """One answer's text, a token at a time, at constant cost per token.

    The text of all tokens together is the tokenizer's decoding of all ids, except that an
    unfinished character at the end is held back until it is complete. Special tokens have no text,
    except for those among `spelled`.
    """

    # Not the library's DecodeStream: it holds bytes back that never become a character, and
    # decodes all of them again at each token.

    def __init__(self, tokenizer: Tokenizer, spelled: frozenset[str] = frozenset()) -> None:
        self._tokenizer = tokenizer
        self._spelled = spelled
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._first = True

    def push(self, token_id: int) -> str:
        """The text that `token_id` completes, often empty inside a character."""
        special = self._tokenizer.special_token(token_id)
        if special is not None:
            return self._decoder.decode(special.encode()) if special in self._spelled else ""
        added = self._tokenizer.token_bytes(token_id, self._first)
        self._first = False
        return self._decoder.decode(added)
