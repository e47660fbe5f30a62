from dataclasses import replace

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.detokenizer import IncrementalDetokenizer
from engine.events import (
    Event,
    Finished,
    FinishReason,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    Timings,
    Usage,
)
from engine.generation import Generation
from engine.messages import SequenceOutput
from engine.model_format import detect_format
from engine.request import Tool
from engine.response_parser import ResponseParser
from engine.tokenizer import Tokenizer
from tests.engine.grammar import check_grammar
from tests.engine.small_tokenizers import byte_level, ready, words

TOKENIZER = Tokenizer(ready(byte_level()))


def ids(text: str) -> tuple[int, ...]:
    return TOKENIZER.encode_text(text, 10**9).ids


def output(
    *token_ids: int, total: int, finish: str | None = None, started_at: float | None = None
) -> SequenceOutput:
    assert finish in (None, "stop", "length")
    return SequenceOutput("r", token_ids, total, finish, started_at, cached_tokens=2)  # type: ignore[arg-type]


def generation_of(
    submitted_at: float = 0.0,
    stop: tuple[str, ...] = (),
    parser: ResponseParser | None = None,
    tokenizer: Tokenizer = TOKENIZER,
    spelled: frozenset[str] = frozenset(),
) -> Generation:
    detokenizer = IncrementalDetokenizer(tokenizer, spelled)
    return Generation(detokenizer, parser or ResponseParser(None), 5, submitted_at, stop)


def answer(text: str, finish: str, stop: tuple[str, ...] = (), step: int = 1) -> list[Event]:
    """The events of an answer that comes `step` tokens at a time, each step a second long."""
    generation = generation_of(0.0, stop)
    events: list[Event] = []
    tokens, total, at = ids(text), 0, 1.0
    while tokens:
        part, tokens = tokens[:step], tokens[step:]
        total += len(part)
        first = None if events else 0.5
        ended = finish if finish == "length" and not tokens else None
        events += generation.push(at, output(*part, total=total, finish=ended, started_at=first))
        at += 1
    if finish == "stop":
        first = None if events else 0.5
        events += generation.push(at, output(total=total + 1, finish="stop", started_at=first))
    assert generation.finished == any(isinstance(event, Finished) for event in events)
    return events


def sent(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, PartDelta))


def last(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def test_end_of_turn_finishes_with_stop() -> None:
    assert answer("hello", "stop", step=99) == [
        Started(5, 2, 500.0),
        PartStart(0, "text"),
        PartDelta(0, "hello"),
        PartEnd(0),
        Finished(
            FinishReason.STOP,
            None,
            Usage(5, 2, len(ids("hello")) + 1),
            Timings(queue_ms=500.0, prompt_ms=500.0, predicted_ms=1000.0),
        ),
    ]


def test_token_limit_finishes_with_length() -> None:
    events = answer("hello world", "length")
    assert sent(events) == "hello world"
    assert last(events).reason is FinishReason.LENGTH
    assert last(events).usage.completion_tokens == len(ids("hello world"))


def test_empty_answer_has_no_part() -> None:
    started, finished = answer("", "stop")
    assert started == Started(5, 2, 500.0)
    assert isinstance(finished, Finished)
    assert finished.usage.completion_tokens == 1
    assert finished.timings == Timings(500.0, 500.0, 0.0)


def test_started_may_come_before_the_first_token() -> None:
    generation = generation_of(1.0, ())
    assert generation.push(1.5, output(total=0, started_at=1.25)) == [Started(5, 2, 250.0)]
    generation.push(2.0, output(*ids("a"), total=1))
    finished = last(generation.push(4.0, output(total=2, finish="stop")))
    assert finished.timings == Timings(queue_ms=250.0, prompt_ms=750.0, predicted_ms=2000.0)


def test_guessed_tokens_of_all_steps_are_told() -> None:
    generation = generation_of()
    for total in (1, 2):
        step = output(*ids("a"), total=total)
        generation.push(1.0, replace(step, draft_tokens=4, accepted_tokens=3))
    timings = last(generation.push(2.0, output(total=3, finish="stop"))).timings
    assert (timings.draft_n, timings.draft_n_accepted) == (8, 6)


def test_text_of_one_step_is_one_piece() -> None:
    generation = generation_of()
    events = generation.push(1.0, output(*ids("hello"), *ids(" there"), total=2))
    assert events == [PartStart(0, "text"), PartDelta(0, "hello there")]


def test_tokens_of_a_step_after_its_stop_string_are_not_of_the_answer() -> None:
    generation = generation_of(0.0, ("b",))
    events = generation.push(1.0, output(*ids("a"), *ids("b"), *ids("c"), total=3))
    assert sent(events) == "a"
    assert last(events).usage.completion_tokens == generation.completion_tokens == 2


def test_part_starts_with_its_first_text_not_its_first_token() -> None:
    generation = generation_of(0.0, ())
    first, *rest = ids("🙂")
    assert generation.push(1.0, output(first, total=1, started_at=0.5)) == [Started(5, 2, 500.0)]
    events = generation.push(2.0, output(*rest, total=1 + len(rest)))
    assert events == [PartStart(0, "text"), PartDelta(0, "🙂")]


def test_stop_string_ends_the_answer_before_it() -> None:
    events = answer("hello world, hello there", "stop", stop=("wor", "there"))
    assert sent(events) == "hello "
    assert last(events).reason is FinishReason.STOP
    assert last(events).stop_sequence == "wor"


def test_usage_ends_at_the_token_that_completes_the_stop_string() -> None:
    tokens = ids("hello world, hello there")
    needed = next(n for n in range(len(tokens)) if "wor" in TOKENIZER.decode(tokens[:n]))
    for step in (1, 3, 99):
        events = answer("hello world, hello there", "stop", ("wor",), step)
        assert last(events).usage.completion_tokens == needed


def test_nothing_comes_after_a_stop_string() -> None:
    generation = generation_of(0.0, ("l",))
    generation.push(1.0, output(*ids("hello"), total=9, started_at=0.5))
    assert generation.finished
    assert generation.push(2.0, output(*ids("more"), total=12, finish="stop")) == []


def test_stop_string_that_waited_for_a_longer_one_counts_at_the_end() -> None:
    events = answer("hello", "length", stop=("hello there", "llo"))
    assert sent(events) == "he"
    assert (last(events).reason, last(events).stop_sequence) == (FinishReason.STOP, "llo")


def test_held_back_text_is_sent_at_the_end() -> None:
    assert sent(answer("hello", "stop", stop=("lower",))) == "hello"


def test_answer_that_is_one_stop_string_has_no_part() -> None:
    events = answer("hello", "stop", stop=("hello",))
    assert [type(event) for event in events] == [Started, Finished]


def test_unfinished_character_at_the_end_is_left_out() -> None:
    generation = generation_of(0.0, ())
    tokens = ids("a🙂")[:-1]
    done = output(*tokens, total=len(tokens), finish="length", started_at=0.5)
    assert sent(generation.push(1.0, done)) == "a"


@settings(max_examples=150)
@given(
    text=words,
    finish=st.sampled_from(["stop", "length"]),
    stop=st.lists(st.sampled_from(["h", "lo wo", "\n", "🙂", "中文。", "it's12"]), max_size=2),
    step=st.integers(1, 4),
)
def test_every_answer_follows_the_grammar(
    text: str, finish: str, stop: list[str], step: int
) -> None:
    events = answer(text, finish, tuple(stop), step)
    check_grammar(events, complete=bool(text) or finish == "stop")
    places = [text.index(s) for s in stop if s in text]
    assert sent(events) == (text[: min(places)] if places else text)


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ([], "no Finished"),
        ([Started(1, 0, 0), PartStart(0, "text"), PartStart(1, "text")], "begins inside"),
        ([Started(1, 0, 0), PartStart(1, "text")], "is number 0"),
        ([Started(1, 0, 0), PartDelta(0, "a")], "None is open"),
        ([Started(1, 0, 0), PartStart(0, "text"), PartDelta(0, "")], "empty delta"),
        ([Started(1, 0, 0), Started(1, 0, 0)], "twice"),
        ([PartStart(0, "text")], "before Started"),
        ([Started(1, 0, 0), PartEnd(0)], "None is open"),
    ],
)
def test_grammar_check_finds_faults(events: list[Event], fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_grammar(events)


HERMES = detect_format("<tool_call> <think>")
NOW = '<tool_call>\n{"name": "now", "arguments": {"a": 1}}\n</tool_call>'


def chat_answer(
    text: str, finish: str = "stop", stop: tuple[str, ...] = (), trim: bool = True
) -> list[Event]:
    """The events of a thinking, calling model's answer, a token a step."""
    parser = ResponseParser(HERMES, (Tool("now"),), trim=trim)
    generation = generation_of(stop=stop, parser=parser)
    events = generation.push(0.5, output(total=0, started_at=0.5))
    tokens = ids(text)
    for number, token_id in enumerate(tokens, 1):
        events += generation.push(1.0, output(token_id, total=number))
        if generation.finished:
            return events
    return events + generation.push(1.0, output(total=len(tokens) + 1, finish=finish))


def shapes(events: list[Event]) -> list[tuple[str, str]]:
    """The parts as (kind and name, text)."""
    check_grammar(events)
    parts: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, PartStart):
            parts.append((event.kind + event.name, ""))
        elif isinstance(event, PartDelta):
            parts[-1] = (parts[-1][0], parts[-1][1] + event.text)
    return parts


def test_an_answer_with_thinking_text_and_a_call() -> None:
    events = chat_answer(f"<think>\nHm.\n</think>\n\nI look.\n{NOW}")
    assert shapes(events) == [
        ("reasoning", "Hm."),
        ("text", "I look."),
        ("tool_callnow", '{"a": 1}'),
    ]
    assert last(events).reason is FinishReason.TOOL_CALLS


def test_reasoning_tokens_are_those_of_the_thinking() -> None:
    usage = last(chat_answer("<think>Hm, yes.</think>Hello")).usage
    # Those that open it do not count, those that close it do.
    opening, closed = len(ids("<think>")), len(ids("<think>Hm, yes.</think>"))
    assert usage.reasoning_tokens == closed - opening
    assert last(chat_answer("Hello")).usage.reasoning_tokens == 0


def test_call_that_the_limit_cuts_finishes_with_length() -> None:
    for finish in ("length", "stop"):
        events = chat_answer(NOW[:-20], finish)
        assert shapes(events)[0][0] == "tool_callnow"
        assert last(events).reason is FinishReason.LENGTH


def test_malformed_call_finishes_with_length() -> None:
    events = chat_answer(NOW.replace("1", "x"))
    assert shapes(events) == [("tool_callnow", '{"a": ')]
    assert last(events).reason is FinishReason.LENGTH


def test_stop_strings_are_searched_in_text_alone() -> None:
    events = chat_answer(f"<think>one</think>two\n{NOW}\nand three and", stop=("e", '"a"'))
    assert shapes(events) == [
        ("reasoning", "one"),
        ("text", "two"),
        ("tool_callnow", '{"a": 1}'),
        ("text", "and thr"),
    ]
    assert last(events).stop_sequence == "e"
    assert last(events).reason is FinishReason.TOOL_CALLS


def test_text_held_back_for_a_stop_string_is_sent_when_its_part_ends() -> None:
    events = chat_answer(f"look{NOW}ed", stop=("looked",))
    assert shapes(events) == [("text", "look"), ("tool_callnow", '{"a": 1}'), ("text", "ed")]


def test_stop_string_in_whitespace_is_seen_at_once() -> None:
    events = chat_answer(f"Hello\n\n{NOW}", stop=("\n\n",), trim=False)
    assert shapes(events) == [("text", "Hello")]
    assert last(events).stop_sequence == "\n\n"
    needed = next(n for n in range(99) if "\n\n" in TOKENIZER.decode(ids(f"Hello\n\n{NOW}")[:n]))
    assert last(events).usage.completion_tokens == needed


def test_calls_have_keys_of_their_own() -> None:
    events = chat_answer(NOW + NOW) + chat_answer(NOW)
    keys = [event.call_key for event in events if isinstance(event, PartStart)]
    assert len(set(keys)) == 3


def test_markers_that_are_special_tokens_reach_the_parser() -> None:
    format = detect_format(None, "mistral")
    tokens = [*ids("hello"), *special_ids("[TOOL_CALLS]"), *ids("now")]
    tokens += [*special_ids("[ARGS]"), *ids("{}"), *special_ids("<|other|>")]
    parser = ResponseParser(format, (Tool("now"),))
    generation = generation_of(parser=parser, tokenizer=SPELLING, spelled=format.markers)
    done = output(*tokens, total=len(tokens), finish="stop", started_at=0.5)
    assert shapes(generation.push(1.0, done)) == [("text", "hello"), ("tool_callnow", "{}")]


def _with_special(*contents: str) -> Tokenizer:
    vocabulary = tokenizers.Tokenizer.from_str(byte_level())
    vocabulary.add_special_tokens(list(contents))
    return Tokenizer(ready(vocabulary.to_str()))


SPELLING = _with_special("[TOOL_CALLS]", "[ARGS]", "<|other|>")


def special_ids(content: str) -> list[int]:
    token_id = SPELLING._full.token_to_id(content)
    assert token_id is not None
    return [token_id]
