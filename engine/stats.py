"""What the engine has done so far: counters and histograms in plain Python."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, count, takewhile
from typing import Literal, get_args

from engine.messages import HostCacheUse

# The values of vLLM's metric; nothing here ends by `repetition`.
Outcome = Literal["stop", "length", "abort", "error", "repetition"]

# vLLM's bounds, so that dashboards made for it read ours.
_FIRST_TOKEN_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
    1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)  # fmt: skip
_REQUEST_S = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60,
    120, 240, 480, 960, 1920, 7680,
)  # fmt: skip
_TOKEN_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
    1, 2.5, 5, 7.5, 10, 20, 40, 80,
)  # fmt: skip
_STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


class Histogram:
    """Observations counted per bucket; `bounds` are the buckets' upper ends, ascending."""

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.sum = 0.0
        self._counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one observation; a value on a bound belongs to the bucket that ends there."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[int]:
        """Observations up to each bound, and last those of all."""
        return list(accumulate(self._counts))


@dataclass(slots=True)
class RequestStats:
    """One admitted request's numbers; times are `time.monotonic()` seconds.

    `arrived_at` is before rendering and tokenising, `admitted_at` when it joined the queue. The
    others are None until the request has taken a slot, given a first and given its newest token.
    `queue_seconds` and `ttft_seconds` stay those of the first attempt that came so far.
    """

    arrived_at: float
    admitted_at: float
    prompt_tokens: int
    max_tokens: int
    cached_tokens: int = 0
    completion_tokens: int = 0
    started_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    queue_seconds: float | None = None
    ttft_seconds: float | None = None

    def restart(self) -> None:
        """Forget an attempt that was lost."""
        self.cached_tokens = self.completion_tokens = 0
        self.started_at = self.first_token_at = self.last_token_at = None


class EngineStats:
    """Totals since the start of one engine; used from the event loop only."""

    def __init__(self, ctx: int) -> None:
        self.outcomes: dict[Outcome, int] = dict.fromkeys(get_args(Outcome), 0)
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generation_tokens = 0
        self.drafts = 0
        self.draft_tokens = 0
        self.accepted_tokens = 0
        self.compiles_after_ready = 0
        self.cache_queries = 0
        self.cache_hits = 0
        self.host_cache_bytes = 0
        self.state_point_bytes = 0
        self._host_cache_evictions = 0
        self._evictions_of_past_workers = 0
        self.time_to_first_token = Histogram(_FIRST_TOKEN_S)
        self.queue_time = Histogram(_REQUEST_S)
        self.prefill_time = Histogram(_REQUEST_S)
        self.decode_time = Histogram(_REQUEST_S)
        self.e2e_latency = Histogram(_REQUEST_S)
        self.time_per_output_token = Histogram(_TOKEN_S)
        self.inter_token_latency = Histogram(_TOKEN_S)
        self.step_tokens = Histogram(_STEP_TOKENS)
        self.request_prompt_tokens = Histogram(_one_two_five(ctx))
        self.request_generation_tokens = Histogram(_one_two_five(ctx))
        self.request_max_tokens = Histogram(_one_two_five(ctx))

    def step(self, tokens: int, compiles: int) -> None:
        """The worker has done a step over `tokens` tokens and made `compiles` programs in it."""
        self.step_tokens.observe(tokens)
        self.compiles_after_ready += compiles

    @property
    def host_cache_evictions(self) -> int:
        """Blocks of the prompt cache that had to go from host memory, in all workers' lives."""
        return self._evictions_of_past_workers + self._host_cache_evictions

    def host_cache(self, use: HostCacheUse) -> None:
        """What the worker's prompt cache holds in host memory now."""
        self.host_cache_bytes = use.nbytes - use.point_bytes
        self.state_point_bytes = use.point_bytes
        self._host_cache_evictions = use.evictions

    def worker_died(self) -> None:
        """The prompt cache went with the worker."""
        self._evictions_of_past_workers = self.host_cache_evictions
        self.host_cache(HostCacheUse())

    def started(self, request: RequestStats, at: float, cached_tokens: int) -> None:
        """A request has taken its slot."""
        request.started_at = at
        request.cached_tokens = cached_tokens
        # What the second attempt waits for is the fault, not the queue; it looks nothing new up.
        if request.queue_seconds is None:
            self.cache_queries += request.prompt_tokens
            self.cache_hits += cached_tokens
            request.queue_seconds = at - request.admitted_at
            self.queue_time.observe(request.queue_seconds)

    def tokens(self, request: RequestStats, at: float, completion_tokens: int) -> None:
        """A step has brought a request to `completion_tokens` in all; none new is no matter."""
        new = completion_tokens - request.completion_tokens
        if new < 1:
            return
        if request.last_token_at is None:
            self._first_token(request, at)
        else:
            # A step that gives several tokens is one gap, spread over them.
            for _ in range(new):
                self.inter_token_latency.observe((at - request.last_token_at) / new)
        request.last_token_at = at
        request.completion_tokens = completion_tokens
        self.generation_tokens += new

    def guessed(self, draft_tokens: int, accepted_tokens: int) -> None:
        """A step has checked tokens that were guessed for a request; none is no matter."""
        self.drafts += draft_tokens > 0
        self.draft_tokens += draft_tokens
        self.accepted_tokens += accepted_tokens

    def ended(self, request: RequestStats, outcome: Outcome, at: float) -> None:
        """A request is over, however it ended; called once for each admitted request."""
        self.outcomes[outcome] += 1
        self.e2e_latency.observe(at - request.arrived_at)
        self.request_prompt_tokens.observe(request.prompt_tokens)
        self.request_generation_tokens.observe(request.completion_tokens)
        self.request_max_tokens.observe(request.max_tokens)
        # One that gave no token took no time that a histogram could show.
        if request.first_token_at is None or request.last_token_at is None:
            return
        if request.started_at is not None:
            self.prefill_time.observe(request.first_token_at - request.started_at)
        decode = request.last_token_at - request.first_token_at
        self.decode_time.observe(decode)
        if request.completion_tokens > 1:
            self.time_per_output_token.observe(decode / (request.completion_tokens - 1))

    def _first_token(self, request: RequestStats, at: float) -> None:
        request.first_token_at = at
        # Not at admission: only now all of the prompt has been computed.
        self.prompt_tokens += request.prompt_tokens
        self.cached_tokens += request.cached_tokens
        if request.ttft_seconds is None:
            request.ttft_seconds = at - request.arrived_at
            self.time_to_first_token.observe(request.ttft_seconds)


def _one_two_five(limit: int) -> Iterable[int]:
    """The series 1 2 5 10 20 50 ... up to `limit`."""
    series = (mantissa * 10**exponent for exponent in count() for mantissa in (1, 2, 5))
    return takewhile(lambda bound: bound <= limit, series)
