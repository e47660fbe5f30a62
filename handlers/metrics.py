"""The engine's numbers as Prometheus text, under the names that vLLM's dashboards know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from engine.config import EngineConfig
from engine.engine import EngineHealth
from engine.stats import EngineStats, Histogram

# The client library's own content type promises version 1.0.0, which older scrapers refuse.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "mashbox:"
# vLLM numbers its engines; dashboards select by it.
_ENGINE = "0"


class ObservedEngine(Protocol):
    """What the metrics are read from (see engine.engine.Engine)."""

    @property
    def config(self) -> EngineConfig:
        """What it was started with."""

    @property
    def stats(self) -> EngineStats:
        """What it has done."""

    def health(self) -> EngineHealth:
        """What it is doing now."""


@dataclass(frozen=True, slots=True)
class _Scrape:
    """The engine as one scrape sees it."""

    config: EngineConfig
    stats: EngineStats
    health: EngineHealth


@dataclass(frozen=True, slots=True)
class _Row:
    """One gauge or counter; with a `label` it has a value for each of the label's values."""

    family: type[GaugeMetricFamily] | type[CounterMetricFamily]
    name: str
    text: str
    read: Callable[[_Scrape], Mapping[str, float]]
    label: str | None = None


def _gauge(name: str, text: str, read: Callable[[_Scrape], float]) -> _Row:
    return _Row(GaugeMetricFamily, name, text, lambda scrape: {"": read(scrape)})


def _counter(name: str, text: str, read: Callable[[_Scrape], float]) -> _Row:
    return _Row(CounterMetricFamily, name, text, lambda scrape: {"": read(scrape)})


_ROWS = (
    _gauge("num_requests_running", "Requests that hold a slot.", lambda s: s.health.running),
    _gauge("num_requests_waiting", "Requests without a slot.", lambda s: s.health.waiting),
    _Row(
        GaugeMetricFamily,
        "num_requests_waiting_by_reason",
        "Requests without a slot by reason; they all wait for capacity.",
        lambda s: {"capacity": s.health.waiting, "deferred": 0},
        "reason",
    ),
    _gauge(
        "kv_cache_usage_perc",
        "Part (0 to 1) of the slots' tokens that running requests hold.",
        lambda s: s.health.held_tokens / (s.config.slots * s.config.ctx),
    ),
    _Row(
        CounterMetricFamily,
        "request_success",
        "Admitted requests that are over, by how they ended.",
        lambda s: {str(outcome): n for outcome, n in s.stats.outcomes.items()},
        "finished_reason",
    ),
    _counter("prompt_tokens", "Tokens of prompts.", lambda s: s.stats.prompt_tokens),
    _counter(
        "prompt_tokens_cached",
        "Tokens of prompts that were not computed again.",
        lambda s: s.stats.cached_tokens,
    ),
    _Row(
        CounterMetricFamily,
        "prompt_tokens_by_source",
        "Tokens of prompts, computed or from the prefix cache.",
        lambda s: {
            "local_compute": s.stats.prompt_tokens - s.stats.cached_tokens,
            "local_cache_hit": s.stats.cached_tokens,
        },
        "source",
    ),
    _counter("generation_tokens", "Tokens generated.", lambda s: s.stats.generation_tokens),
    _counter(
        "prefix_cache_queries",
        "Prompt tokens looked up in the prefix cache.",
        lambda s: s.stats.cache_queries,
    ),
    _counter(
        "prefix_cache_hits",
        "Prompt tokens found in the prefix cache.",
        lambda s: s.stats.cache_hits,
    ),
    _counter("spec_decode_num_drafts", "Guesses of what follows.", lambda s: s.stats.drafts),
    _counter(
        "spec_decode_num_draft_tokens",
        "Tokens that were guessed and checked.",
        lambda s: s.stats.draft_tokens,
    ),
    _counter(
        "spec_decode_num_accepted_tokens",
        "Guessed tokens that were right.",
        lambda s: s.stats.accepted_tokens,
    ),
    _counter("num_preemptions", "Requests that lost their slot to others: never.", lambda s: 0),
    _counter("worker_restarts", "Worker starts after a fault.", lambda s: s.health.worker_restarts),
    _counter(
        "compiles_after_ready",
        "Programs compiled after the server was ready.",
        lambda s: s.stats.compiles_after_ready,
    ),
)

_HISTOGRAMS: tuple[tuple[str, str, Callable[[EngineStats], Histogram]], ...] = (
    (
        "time_to_first_token_seconds",
        "From a request's arrival to its first token.",
        lambda s: s.time_to_first_token,
    ),
    (
        "request_queue_time_seconds",
        "From a request's admission to its slot.",
        lambda s: s.queue_time,
    ),
    (
        "request_prefill_time_seconds",
        "From a request's slot to its first token.",
        lambda s: s.prefill_time,
    ),
    (
        "request_decode_time_seconds",
        "From a request's first token to its last.",
        lambda s: s.decode_time,
    ),
    (
        "e2e_request_latency_seconds",
        "From a request's arrival to its end.",
        lambda s: s.e2e_latency,
    ),
    (
        "request_time_per_output_token_seconds",
        "A request's mean time per token after the first.",
        lambda s: s.time_per_output_token,
    ),
    (
        "inter_token_latency_seconds",
        "Time between two tokens of a request.",
        lambda s: s.inter_token_latency,
    ),
    ("request_prompt_tokens", "A request's prompt tokens.", lambda s: s.request_prompt_tokens),
    (
        "request_generation_tokens",
        "A request's generated tokens.",
        lambda s: s.request_generation_tokens,
    ),
    (
        "request_max_num_generation_tokens",
        "The most tokens a request could have generated.",
        lambda s: s.request_max_tokens,
    ),
    ("iteration_tokens_total", "Tokens of one step of the engine.", lambda s: s.step_tokens),
)


class Metrics:
    """Renders one engine's metrics; nothing is kept here, every scrape reads the engine."""

    def __init__(self, engine: ObservedEngine) -> None:
        # A registry of our own: the default one adds names without our prefix.
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_EngineCollector(engine))

    def text(self) -> bytes:
        """Give the exposition in the Prometheus text format, version 0.0.4."""
        return generate_latest(self._registry)


class _EngineCollector(Collector):
    # No family gets a creation time: `_created` samples would add a third to every histogram and
    # double every counter, and no dashboard reads them.
    def __init__(self, engine: ObservedEngine) -> None:
        self._engine = engine
        self._labels = {"model_name": engine.config.model.id, "engine": _ENGINE}

    def collect(self) -> Iterable[Metric]:
        engine = self._engine
        # Looked at once, so that the gauges of one scrape fit each other.
        scrape = _Scrape(engine.config, engine.stats, engine.health())
        return chain(
            (self._row(row, scrape) for row in _ROWS),
            [_cache_config(engine.config)],
            (self._histogram(name, text, of(engine.stats)) for name, text, of in _HISTOGRAMS),
        )

    def _row(self, row: _Row, scrape: _Scrape) -> Metric:
        labels = [*self._labels, *([row.label] if row.label else [])]
        family = row.family(_PREFIX + row.name, row.text, labels=labels)
        for key, value in row.read(scrape).items():
            family.add_metric([*self._labels.values(), *([key] if row.label else [])], value)
        return family

    def _histogram(self, name: str, text: str, histogram: Histogram) -> Metric:
        family = HistogramMetricFamily(_PREFIX + name, text, labels=list(self._labels))
        ends = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
        buckets = list(zip(ends, histogram.cumulative(), strict=True))
        family.add_metric(list(self._labels.values()), buckets, histogram.sum)
        return family


def _cache_config(config: EngineConfig) -> Metric:
    # `num_blocks` and `num_gpu_blocks` are the same: routers read the latter.
    labels = {
        "block_size": config.ctx,
        "num_blocks": config.slots,
        "num_gpu_blocks": config.slots,
        "engine": _ENGINE,
    }
    text = "Layout of the KV cache: a slot is one block and holds one whole context."
    family = GaugeMetricFamily(_PREFIX + "cache_config_info", text, labels=list(labels))
    family.add_metric([str(value) for value in labels.values()], 1)
    return family
