from __future__ import annotations

import re
from pathlib import Path

import httpx
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from engine.engine import EngineHealth
from engine.stats import RequestStats
from tests.handlers.asgi import client
from tests.handlers.scripted_engine import MODEL_ID, ScriptedEngine

OPERATIONS_DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
FIRST_TOKEN = ".001 .005 .01 .02 .04 .06 .08 .1 .25 .5 .75 1 2.5 5 7.5 10 20 40 80 160 640 2560"
REQUEST = ".3 .5 .8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680"
TOKEN = ".01 .025 .05 .075 .1 .15 .2 .3 .4 .5 .75 1 2.5 5 7.5 10 20 40 80"
UP_TO_CTX = "1 2 5 10 20 50 100 200 500"  # the fake engine's is 512
# Name as the TYPE line has it: type, labels beside model_name and engine, buckets.
METRICS = {
    "num_requests_running": ("gauge", "", ""),
    "num_requests_waiting": ("gauge", "", ""),
    "num_requests_waiting_by_reason": ("gauge", "reason", ""),
    "kv_cache_usage_perc": ("gauge", "", ""),
    "cache_config_info": ("gauge", "block_size num_blocks num_gpu_blocks", ""),
    "request_success_total": ("counter", "finished_reason", ""),
    "prompt_tokens_total": ("counter", "", ""),
    "prompt_tokens_cached_total": ("counter", "", ""),
    "prompt_tokens_by_source_total": ("counter", "source", ""),
    "generation_tokens_total": ("counter", "", ""),
    "prefix_cache_queries_total": ("counter", "", ""),
    "prefix_cache_hits_total": ("counter", "", ""),
    "spec_decode_num_drafts_total": ("counter", "", ""),
    "spec_decode_num_draft_tokens_total": ("counter", "", ""),
    "spec_decode_num_accepted_tokens_total": ("counter", "", ""),
    "num_preemptions_total": ("counter", "", ""),
    "worker_restarts_total": ("counter", "", ""),
    "compiles_after_ready_total": ("counter", "", ""),
    "time_to_first_token_seconds": ("histogram", "", FIRST_TOKEN),
    "request_queue_time_seconds": ("histogram", "", REQUEST),
    "request_prefill_time_seconds": ("histogram", "", REQUEST),
    "request_decode_time_seconds": ("histogram", "", REQUEST),
    "e2e_request_latency_seconds": ("histogram", "", REQUEST),
    "request_time_per_output_token_seconds": ("histogram", "", TOKEN),
    "inter_token_latency_seconds": ("histogram", "", TOKEN),
    "request_prompt_tokens": ("histogram", "", UP_TO_CTX),
    "request_generation_tokens": ("histogram", "", UP_TO_CTX),
    "request_max_num_generation_tokens": ("histogram", "", UP_TO_CTX),
    "iteration_tokens_total": (
        "histogram", "", "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384",
    ),
}  # fmt: skip


async def scrape(engine: ScriptedEngine | None = None) -> httpx.Response:
    async with client(engine or ScriptedEngine()) as http:
        return await http.get("/metrics")


def families(text: str) -> dict[str, Metric]:
    """By the name of the TYPE line."""
    suffix = {"counter": "_total"}
    return {
        (family.name + suffix.get(family.type, "")).removeprefix("mashbox:"): family
        for family in text_string_to_metric_families(text)
    }


def samples(text: str) -> dict[str, float]:
    """Values by name and labels, model and engine left out."""
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sample.labels.items()
            own = sorted(f"{k}={v}" for k, v in labels if k not in ("model_name", "engine"))
            name = sample.name.removeprefix("mashbox:") + (f"{{{','.join(own)}}}" if own else "")
            assert name not in values
            values[name] = sample.value
    return values


async def test_names_types_labels_and_buckets_are_the_promised_ones() -> None:
    response = await scrape()
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    types = dict(re.findall(r"^# TYPE mashbox:(\S+) (\S+)$", response.text, re.MULTILINE))
    assert types == {name: kind for name, (kind, _, _) in METRICS.items()}
    found = families(response.text)
    assert set(found) == set(METRICS)
    for name, (kind, labels, buckets) in METRICS.items():
        ours = {"engine"} if name == "cache_config_info" else {"engine", "model_name"}
        for sample in found[name].samples:
            assert set(sample.labels) - {"le"} == ours | set(labels.split()), name
            assert sample.labels["engine"] == "0"
            assert sample.labels.get("model_name", MODEL_ID) == MODEL_ID
        ends = [s.labels["le"] for s in found[name].samples if "le" in s.labels]
        expected = [float(end) for end in buckets.split()] + [float("inf")]
        assert [float(end) for end in ends] == (expected if kind == "histogram" else []), name


async def test_every_sample_has_the_prefix_and_none_tells_of_its_creation() -> None:
    names = re.findall(r"^([^#{ ]+)", (await scrape()).text, re.MULTILINE)
    assert all(name.startswith("mashbox:") for name in names)
    assert not any(name.endswith("_created") for name in names)


async def test_every_value_of_a_label_is_there_from_the_start() -> None:
    values = samples((await scrape()).text)
    for reason in ("stop", "length", "abort", "error", "repetition"):
        assert values[f"request_success_total{{finished_reason={reason}}}"] == 0
    assert values["num_requests_waiting_by_reason{reason=deferred}"] == 0
    assert values["cache_config_info{block_size=512,num_blocks=4,num_gpu_blocks=4}"] == 1


async def test_gauges_are_the_engine_s_state_at_the_scrape() -> None:
    engine = ScriptedEngine()
    engine.state = EngineHealth(True, 3, 2, 77, worker_restarts=1, held_tokens=512)
    values = samples((await scrape(engine)).text)
    assert values["num_requests_running"] == 3
    assert values["num_requests_waiting"] == 2
    assert values["num_requests_waiting_by_reason{reason=capacity}"] == 2
    assert values["kv_cache_usage_perc"] == 0.25
    assert values["worker_restarts_total"] == 1


async def test_what_the_engine_counted_is_shown() -> None:
    engine = ScriptedEngine()
    asked = RequestStats(10.0, 10.0, prompt_tokens=7, max_tokens=20)
    engine.stats.started(asked, 10.0, cached_tokens=3)
    engine.stats.tokens(asked, 10.3, 1)
    engine.stats.step(8, compiles=2)
    engine.stats.ended(asked, "length", 10.3)
    values = samples((await scrape(engine)).text)
    assert values["request_success_total{finished_reason=length}"] == 1
    assert values["prompt_tokens_total"] == 7
    assert values["prompt_tokens_cached_total"] == values["prefix_cache_hits_total"] == 3
    assert values["prefix_cache_queries_total"] == 7
    assert values["prompt_tokens_by_source_total{source=local_compute}"] == 4
    assert values["prompt_tokens_by_source_total{source=local_cache_hit}"] == 3
    assert values["generation_tokens_total"] == 1
    assert values["compiles_after_ready_total"] == 2
    assert values["time_to_first_token_seconds_bucket{le=0.25}"] == 0
    assert values["time_to_first_token_seconds_bucket{le=0.5}"] == 1
    assert values["time_to_first_token_seconds_count"] == 1
    assert round(values["time_to_first_token_seconds_sum"], 6) == 0.3
    assert values["iteration_tokens_total_bucket{le=8.0}"] == 1


def test_every_metric_is_documented() -> None:
    documented = re.findall(r"^\| `mashbox:(\w+)`", OPERATIONS_DOCUMENT.read_text("utf-8"), re.M)
    assert documented == list(METRICS)
