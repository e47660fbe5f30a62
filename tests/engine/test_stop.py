import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.stop import StopStrings

few_letters = st.text("ab", max_size=14)


def searched(stops: list[str], text: str) -> tuple[str, str | None]:
    """The definition: search the whole text."""
    found = [(text.index(stop), rank) for rank, stop in enumerate(stops) if stop and stop in text]
    if not found:
        return text, None
    start, rank = min(found)
    return text[:start], stops[rank]


def streamed(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    stop_strings = StopStrings(stops)
    sent = ""
    for piece in pieces:
        text, match = stop_strings.push(piece)
        sent += text
        if match is not None:
            return sent, match
    text, match = stop_strings.flush()
    return sent + text, match


def cut(text: str, mask: int) -> list[str]:
    """Cut after each character whose bit is set."""
    pieces = [""]
    for place, character in enumerate(text):
        pieces[-1] += character
        if mask >> place & 1:
            pieces.append("")
    return pieces


@given(st.lists(st.text("ab", max_size=5), max_size=4), few_letters, st.integers(0, 2**14))
@example(["abab", "b"], "abaab", 0b11111)
@example(["abcd", "ab"], "abc", 0)
@example(["ab", "abab"], "abab", 0b1111)
@example(["aab", "b"], "aaab", 0b1111)
@example(["bbaba", "ba", "ab"], "bbabb", 0b11111)
def test_result_is_that_of_searching_the_whole_text(stops: list[str], text: str, mask: int) -> None:
    assert streamed(stops, cut(text, mask)) == searched(stops, text)


@pytest.mark.parametrize("text", ["abaababbab", "bbabaaabab", "aabbaabbaa"])
@pytest.mark.parametrize("stops", [["abab", "bb"], ["aab", "ab", "b"], ["bab", "ababb"], ["aba"]])
def test_every_chunking_gives_the_same(stops: list[str], text: str) -> None:
    expected = searched(stops, text)
    for mask in range(2 ** len(text)):
        assert streamed(stops, cut(text, mask)) == expected


def test_stop_string_split_over_two_pieces_is_not_sent() -> None:
    stop_strings = StopStrings(["END"])
    assert stop_strings.push("text E") == ("text ", None)
    assert stop_strings.push("ND more") == ("", "END")


def test_only_a_possible_beginning_is_held_back() -> None:
    stop_strings = StopStrings(["aab"])
    assert stop_strings.push("aaa") == ("a", None)
    assert stop_strings.push("c") == ("aac", None)


def test_match_is_known_with_its_last_character() -> None:
    assert StopStrings(["x", "yz"]).push("ax") == ("a", "x")


def test_first_in_the_list_wins_where_two_start_together() -> None:
    assert streamed(["ab", "abc"], ["abc"]) == ("", "ab")
    assert streamed(["abc", "ab"], ["ab", "c"]) == ("", "abc")
    assert streamed(["abc", "ab"], ["ab", "d"]) == ("", "ab")


def test_shorter_match_waits_for_one_that_starts_earlier() -> None:
    stop_strings = StopStrings(["abcd", "b"])
    assert stop_strings.push("ab") == ("", None)
    assert stop_strings.push("cx") == ("a", "b")


def test_flush_gives_what_was_held_back() -> None:
    stop_strings = StopStrings(["END"])
    stop_strings.push("the EN")
    assert stop_strings.flush() == ("EN", None)


def test_stop_strings_beyond_ascii() -> None:
    assert streamed(["。", "🙂終"], ["日本", "語🙂", "終。"]) == ("日本語", "🙂終")


def test_without_stop_strings_text_passes_at_once() -> None:
    stop_strings = StopStrings([""])
    assert stop_strings.push("abc") == ("abc", None)
    assert stop_strings.flush() == ("", None)


class CountingEdges(dict[tuple[int, str], int]):
    """The automaton's edges, counting how often one is looked for."""

    lookups = 0

    def __contains__(self, edge: object) -> bool:
        self.lookups += 1
        return super().__contains__(edge)


@pytest.mark.parametrize("text", ["a" * 5000, ("a" * 999 + "c") * 5, "ab" * 2500])
def test_cost_per_character_is_constant_for_hostile_stop_strings(text: str) -> None:
    stop_strings = StopStrings(["a" * 1000 + "b", "a" * 998 + "d", "ab" * 500 + "b"])
    edges = stop_strings._next = CountingEdges(stop_strings._next)
    for character in text:
        assert stop_strings.push(character)[1] is None
    assert edges.lookups <= 2 * len(text)
