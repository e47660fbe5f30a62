"""RawInput: raw text out of JSON arguments that come in pieces."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handlers.raw_input import RawInput


def decode(*pieces: str) -> list[str]:
    """What each piece gives, and what the end gives."""
    raw = RawInput()
    given = [raw.add(piece) for piece in pieces]
    assert raw.arguments == "".join(pieces)
    return [*given, raw.end()]


def cut(text: str, places: set[int]) -> list[str]:
    cuts = sorted({place for place in places if place < len(text)} | {0, len(text)})
    return [text[a:b] for a, b in itertools.pairwise(cuts)]


places = st.sets(st.integers(0, 60), max_size=12)


@given(
    text=st.text(),
    places=places,
    ascii_only=st.booleans(),
    indent=st.none() | st.just(2),
)
@example(text="😀", places=set(range(60)), ascii_only=True, indent=None)
@example(text='\\"\n\\u0041', places=set(range(60)), ascii_only=True, indent=2)
def test_any_text_comes_out_whatever_the_pieces(
    text: str, places: set[int], ascii_only: bool, indent: int | None
) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only, indent=indent)
    assert "".join(decode(*cut(arguments, places))) == text


@given(text=st.text(), length=st.integers(0, 200), places=places, ascii_only=st.booleans())
def test_what_was_cut_is_a_prefix(
    text: str, length: int, places: set[int], ascii_only: bool
) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    shown = "".join(decode(*cut(arguments[:length], places)))
    assert text.startswith(shown)
    # No more than one escape, or half a pair of them, is held back.
    assert len(json.dumps(shown, ensure_ascii=ascii_only)) + 21 > min(length, len(arguments))


def test_text_leaves_as_soon_as_it_is_known() -> None:
    pieces = ['{"inp', 'ut": "*** Be', "gin\\", "nPatch\\ud83d", "\\ude00", '!"', "}"]
    assert decode(*pieces) == ["", "*** Be", "gin", "\nPatch", "😀", "!", "", ""]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": ""}', ""),
        ("{}", "{}"),
        ('{"patch": "x"}', '{"patch": "x"}'),
        ('{"input": 5}', '{"input": 5}'),
        ('{"note": "long' + "g" * 100 + '", "input": "x"}', "x"),
        ('{"note": 1, "input": "\\ud83d"}', "\ufffd"),
        ('["input"]', '["input"]'),
        ('{"patch": "cut', ""),
        ("", ""),
    ],
)
def test_other_arguments_than_one_text_are_given_at_the_end(arguments: str, text: str) -> None:
    assert decode(arguments) == ["", text]


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("a\\ud83db", "a\ufffdb"),
        ("a\\ud83d", "a\ufffd"),
        ("\\ude00\\ud83d", "\ufffd\ufffd"),
        ("\\ud83d\\n", "\ufffd\n"),
        ("\\q", "\\q"),
        ("\\u12x4", "\\u12x4"),
        ("line\nbreak", "line\nbreak"),
    ],
)
def test_what_is_no_proper_text_can_still_be_sent(inner: str, text: str) -> None:
    whole = decode('{"input": "' + inner + '"}')
    assert whole == [text, ""]
    single = decode(*('{"input": "' + inner + '"}'))
    assert "".join(single) == text
    "".join(single).encode()
