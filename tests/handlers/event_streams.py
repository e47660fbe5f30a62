"""Random event streams that obey the grammar, for every encoder's property tests."""

from __future__ import annotations

import itertools
import json

from hypothesis import strategies as st

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

counts = st.integers(0, 10**6)
# Differences of monotonic clocks: none, or not below their resolution.
durations = st.just(0.0) | st.floats(1e-9, 10**9)
texts = st.text(min_size=1, max_size=8)
names = st.sampled_from(["get_weather", "ring_bell"])
values = st.none() | st.booleans() | st.integers() | texts
arguments = st.dictionaries(texts, values, max_size=3) | st.fixed_dictionaries({"input": texts})


@st.composite
def _pieces(draw: st.DrawFn, text: str) -> list[str]:
    """The text cut at random places."""
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)) | {0, len(text)})
    return [text[a:b] for a, b in itertools.pairwise(cuts) if a < b]


@st.composite
def _part(draw: st.DrawFn, index: int, cut: bool) -> list[Event]:
    kind = draw(st.sampled_from(["text", "reasoning", "tool_call"]))
    if kind != "tool_call":
        deltas = [PartDelta(index, piece) for piece in draw(st.lists(texts, min_size=1))]
        return [PartStart(index, kind), *deltas, PartEnd(index)]
    whole = json.dumps(draw(arguments), ensure_ascii=False)
    shown = whole[: draw(st.integers(0, len(whole)))] if cut else whole
    deltas = [PartDelta(index, piece) for piece in draw(_pieces(shown))]
    start = PartStart(index, "tool_call", name=draw(names), call_key=f"k{index}")
    return [start, *deltas, PartEnd(index)]


@st.composite
def event_streams(draw: st.DrawFn, kinds: int = 4) -> list[Event]:
    """A whole stream; a cut one may end inside a call's arguments."""
    cached = draw(counts)
    completion = draw(counts)
    usage = Usage(cached + draw(counts), cached, completion, draw(st.integers(0, completion)))
    timings = Timings(draw(durations), draw(durations), draw(durations), draw(counts))
    events: list[Event] = [Started(usage.prompt_tokens, cached, timings.queue_ms)]
    cut = draw(st.booleans())
    count = draw(st.integers(0, kinds))
    for index in range(count):
        events += draw(_part(index, cut and index == count - 1))
    called = any(isinstance(e, PartStart) and e.kind == "tool_call" for e in events)
    if cut:
        return [*events, Finished(FinishReason.LENGTH, None, usage, timings)]
    reason = FinishReason.TOOL_CALLS if called else FinishReason.STOP
    stop = None if called else draw(st.none() | texts)
    return [*events, Finished(reason, stop, usage, timings)]


def text_of(events: list[Event], kind: str) -> str:
    """All text of the parts of one kind."""
    of_kind = {e.index for e in events if isinstance(e, PartStart) and e.kind == kind}
    return "".join(e.text for e in events if isinstance(e, PartDelta) and e.index in of_kind)


def calls_of(events: list[Event]) -> list[tuple[str, str, str]]:
    """Key, name and arguments of each call."""
    return [
        (
            start.call_key,
            start.name,
            "".join(e.text for e in events if isinstance(e, PartDelta) and e.index == start.index),
        )
        for start in events
        if isinstance(start, PartStart) and start.kind == "tool_call"
    ]
