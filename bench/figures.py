"""Figures of a run: percentiles, medians over runs, ratios of pairs, and their tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from bench.load import Reply

# What one run of one server gave, by name with unit.
Figures = dict[str, float]
# The runs of every server, in the order of the pairs.
Runs = Mapping[str, Sequence[Figures]]


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def of_chats(replies: Sequence[Reply]) -> Figures:
    """The figures of chats that ran side by side."""
    ends = max(reply.times[-1] for reply in replies)
    seconds = ends - min(reply.started for reply in replies)
    firsts = [reply.first for reply in replies]
    gaps = [gap for reply in replies for gap in reply.gaps]
    return {
        "tok/s": sum(reply.tokens for reply in replies) / seconds,
        "decode tok/s of one": median(reply.decode_rate for reply in replies),
        "TTFT p50 ms": 1000 * median(firsts),
        "TTFT p99 ms": 1000 * percentile(firsts, 0.99),
        "inter-token p50 ms": 1000 * median(gaps),
        "inter-token p99 ms": 1000 * percentile(gaps, 0.99),
    }


def medians(rows: Sequence[Figures]) -> Figures:
    """The median of every figure."""
    return {name: median(row[name] for row in rows) for name in rows[0]}


def ratios(ours: Sequence[Figures], theirs: Sequence[Figures]) -> Figures:
    """The median of the pairs' ratios, ours over theirs, of the figures that both have."""
    pairs = [
        {name: a[name] / b[name] for name in a if b.get(name)}
        for a, b in zip(ours, theirs, strict=True)
    ]
    shared = set.intersection(*map(set, pairs))
    return {name: median(pair[name] for pair in pairs) for name in pairs[0] if name in shared}


def table(title: str, columns: Mapping[str, Figures]) -> str:
    """A Markdown table with a row for each figure."""
    names = list(dict.fromkeys(name for figures in columns.values() for name in figures))
    lines = [f"| {title} | {' | '.join(columns)} |", f"| --- |{' --: |' * len(columns)}"]
    for name in names:
        cells = (_written(figures.get(name)) for figures in columns.values())
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def report(title: str, runs: Runs, ours: Sequence[str]) -> str:
    """The medians of all servers, then the ratios of `ours` over the others."""
    result = table(title, {name: medians(rows) for name, rows in runs.items()})
    compared = {
        f"{our} / {their}": ratios(runs[our], runs[their])
        for our in ours
        for their in runs
        if our in runs and their not in ours
    }
    return f"{result}\n\n{table('ratio', compared)}" if compared else result


def _written(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
