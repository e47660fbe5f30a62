import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.json_stream import Arguments, JsonValue, Malformed, StringDecoder

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def read(text: str) -> tuple[str, str]:
    """What a value's reader gives, and what is left behind it."""
    value, given_out = JsonValue(), ""
    for place, char in enumerate(text):
        added = value.feed(char)
        if added is None:
            return given_out, text[place:]
        given_out += added
        if value.done:
            return given_out, text[place + 1 :]
    raise AssertionError("unfinished")


@given(values, st.booleans(), st.sampled_from([None, 2]))
def test_json_passes_as_it_is(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    if "\\ud" in text:
        assert json.loads(read(text + " ,")[0]) == value
    else:
        assert read(text + " ,")[0] == text


@given(st.text('{}[]",:\\u0dn19e-+. tfalsrx\n', max_size=12))
def test_what_is_accepted_is_json_and_what_is_json_is_accepted(text: str) -> None:
    try:
        given_out, rest = read(text + " ")
    except (Malformed, AssertionError):
        with pytest.raises(ValueError):
            json.loads(text, parse_constant=_refuse)
        return
    json.loads(given_out)
    if not rest.strip():
        try:
            expected = json.loads(text, strict=False)
        except ValueError:
            raise AssertionError(text) from None
        if "\\u" not in text:
            assert json.loads(given_out) == expected


def _refuse(constant: str) -> None:
    raise ValueError(constant)


@pytest.mark.parametrize(
    "text", ["01 ", "-", "1.", "1e", "[1,]", "{,}", '{"a"}', "{a:1}", "[}", '"\\x"', "NaN", "True"]
)
def test_malformed_json_is_refused(text: str) -> None:
    with pytest.raises((Malformed, AssertionError)):
        read(text + " ")


def test_nesting_and_numbers_have_limits() -> None:
    read("[" * 128 + "]" * 128)
    for text in ("[" * 129, "1" * 301):
        with pytest.raises(Malformed):
            read(text)


@pytest.mark.parametrize(
    ("written", "given_out"),
    [
        ('"a\nb\x00"', '"a\\nb\\u0000"'),
        ('"\\ud83d\\ude00"', '"\\ud83d\\ude00"'),
        ('"\\ud83d"', '"\\ufffd"'),
        ('"\\ud83dx"', '"\\ufffdx"'),
        ('"\\ud83d\\n"', '"\\ufffd\\n"'),
        ('"\\ud83d\\ud83d\\ude00"', '"\\ufffd\\ud83d\\ude00"'),
        ('"\\ude00\\u00e9"', '"\\ufffd\\u00e9"'),
    ],
)
def test_strings_are_repaired(written: str, given_out: str) -> None:
    assert read(written) == (given_out, "")


@given(st.text())
def test_string_is_decoded_while_it_arrives(text: str) -> None:
    decoder = StringDecoder()
    literal = json.dumps(text)[1:]
    assert "".join(map(decoder.feed, literal)) == text
    assert decoder.done


def arguments(text: str) -> tuple[str, bool]:
    reader = Arguments()
    return "".join(reader.feed(char) for char in text), reader.done


@pytest.mark.parametrize(
    ("written", "given_out"),
    [
        (' {"a": 1}', '{"a": 1}'),
        (r'"{\"a\": \"x\\ny\"} "', r'{"a": "x\ny"}'),
        ("null", "{}"),
        ('""', "{}"),
        ('" \\n"', "{}"),
    ],
)
def test_arguments_are_an_object_however_wrapped(written: str, given_out: str) -> None:
    assert arguments(written) == (given_out, True)


@pytest.mark.parametrize("written", ["[", "5", "true", "nil", '"x', '"{}x', '"{\\"a\\": "'])
def test_other_arguments_are_malformed(written: str) -> None:
    with pytest.raises(Malformed):
        arguments(written)
