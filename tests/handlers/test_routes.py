from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx
import httpx2
import pytest
from openai import AsyncOpenAI

from engine.engine import EngineHealth
from engine.errors import ContextOverflow, NotReady, QueueFull
from engine.events import FinishReason
from engine.messages import HostCacheUse
from engine.request import ChatPrompt, Message
from generated.routes import OPERATIONS
from handlers.routes import Routes
from mashbox.app import contract
from tests.handlers.asgi import (
    CHAT,
    QUESTION,
    Connection,
    client,
    error_of,
    http_scope,
    judged_app,
    sse_events,
)
from tests.handlers.schemas import schema
from tests.handlers.scripted_engine import LOADED, LOADING, MODEL_ID, ScriptedEngine, text_events


async def get(path: str, engine: ScriptedEngine | None = None) -> httpx.Response:
    async with client(engine or ScriptedEngine()) as http:
        return await http.get(path)


async def chat(engine: ScriptedEngine, **fields: object) -> httpx.Response:
    async with client(engine) as http:
        return await http.post(CHAT, json=QUESTION | fields)


def loading() -> ScriptedEngine:
    engine = ScriptedEngine(NotReady("The model is still loading.", 7))
    engine.state = LOADING
    engine.loaded = engine.identity = None
    return engine


def fields_of(name: str) -> set[str]:
    """The fields that the contract gives an object."""
    return set(contract()["components"]["schemas"][name]["properties"])


def test_there_is_a_function_for_every_operation() -> None:
    routes = Routes(ScriptedEngine(), contract())
    assert all(callable(getattr(routes, o.operation_id)) for o in OPERATIONS)


@pytest.mark.parametrize("path", ["/v1/health", "/health", "/"])
async def test_health_tells_what_runs(path: str) -> None:
    engine = ScriptedEngine()
    engine.state = EngineHealth(True, running=2, waiting=1, worker_pid=77, worker_restarts=3)
    response = await get(path, engine)
    assert response.status_code == 200
    assert "retry-after" not in response.headers
    assert response.json() == {
        "status": "ok", "live_rows": 2, "waiting": 1, "worker_restarts": 3, "worker_pid": 77,
        "cache_bytes": 0, "host_cache_bytes": 0, "snapshot_bytes": 0, "host_cache_cap_bytes": 0,
        "host_cache_evictions": 0, "deployment_id": "deployed", "cache_namespace": "namespace",
        "component_set_sha": "components", "certification": "none", "routed_experts": None,
        "compiles_after_ready": 0,
    }  # fmt: skip
    assert response.json().keys() == fields_of("Health")
    schema("Health").validate(response.json())


def caching(keeps_prompts: bool) -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.config = replace(engine.config, cache_ram=3 * 2**20)
    engine.loaded = replace(LOADED, keeps_prompts=keeps_prompts)
    engine.stats.host_cache(HostCacheUse(nbytes=1000, point_bytes=300, evictions=7))
    return engine


async def test_health_and_model_tell_of_the_prompt_cache() -> None:
    health = (await get("/health", caching(True))).json()
    assert (health["cache_bytes"], health["host_cache_bytes"]) == (1000, 700)
    assert health["snapshot_bytes"] == 300
    assert (health["host_cache_cap_bytes"], health["host_cache_evictions"]) == (3 * 2**20, 7)
    assert (await get("/v1/models", caching(True))).json()["data"][0]["cache_ram_mib"] == 3


async def test_a_model_whose_prompts_cannot_be_kept_has_no_room_for_them() -> None:
    assert (await get("/health", caching(False))).json()["host_cache_cap_bytes"] == 0
    assert (await get("/v1/models", caching(False))).json()["data"][0]["cache_ram_mib"] == 0


async def test_health_tells_how_routed_experts_are_computed() -> None:
    engine = ScriptedEngine()
    engine.loaded = replace(LOADED, routed_layers=24)
    health = (await get("/health", engine)).json()
    schema("Health").validate(health)
    assert health["routed_experts"] == {
        "path": "exact",
        "kernel": None,
        "sites": {"exact": 24},
        "exact_why": "There is no expert kernel of its own; the model's class computes them.",
    }


async def test_health_while_loading_is_503() -> None:
    response = await get("/health", loading())
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert response.json()["status"] == "loading"
    assert "worker_pid" not in response.json()
    unknown = ("compiles_after_ready", "deployment_id", "component_set_sha", "cache_namespace")
    assert [response.json()[name] for name in unknown] == [None] * 4
    schema("Health").validate(response.json())


@pytest.mark.parametrize("path", ["/v1/health", "/", CHAT, "/nowhere"])
async def test_head_tells_readiness_without_a_body(path: str) -> None:
    for engine, status in ((ScriptedEngine(), 200), (loading(), 503)):
        connection = Connection()
        await connection.serve(judged_app(engine), http_scope("HEAD", path))
        headers = dict(connection.messages[0]["headers"])
        assert (connection.status, connection.body) == (status, b"")
        assert headers.get(b"retry-after") == (None if status == 200 else b"1")


async def test_the_one_model_is_listed() -> None:
    response = await get("/v1/models")
    schema("ModelList").validate(response.json())
    (model,) = response.json()["data"]
    assert model == {
        "id": MODEL_ID, "object": "model", "owned_by": "mashbox-labs", "created": 0,
        "max_model_len": 512, "weights": "tiny.gguf", "prefix_cache": True, "slots": 4,
        "cache_ram_mib": 0, "gb": 0.27, "bpw": 16.0,
    }  # fmt: skip
    assert model.keys() == fields_of("Model")
    assert (await get(f"/v1/models/{MODEL_ID}")).json() == model


async def test_models_are_listed_while_loading_without_what_is_not_known() -> None:
    response = await get("/v1/models", loading())
    assert response.status_code == 200
    schema("ModelList").validate(response.json())
    assert not {"gb", "bpw"} & set(response.json()["data"][0])


@pytest.mark.parametrize(
    "path", ["other", "other/id", "other%2Fid", "", f"{MODEL_ID}/", "a//b", "%C3%A9", "a%3Fb"]
)
async def test_another_model_is_not_found(path: str) -> None:
    response = await get("/v1/models/" + path)
    assert response.status_code == 404
    assert error_of(response)["code"] == "model_not_found"


@pytest.mark.parametrize("path", ["org/name", "org%2Fname", "org%2fname"])
async def test_an_id_with_slashes_is_found_raw_and_escaped(path: str) -> None:
    engine = ScriptedEngine()
    engine.config = type(engine.config)(
        model=type(engine.config.model)("org/name", engine.config.model.path), ctx=512
    )
    response = await get("/v1/models/" + path, engine)
    assert (response.status_code, response.json()["id"]) == (200, "org/name")


async def test_the_contract_is_served_with_the_running_id() -> None:
    document = (await get("/openapi.json")).json()
    example = contract()["info"]["x-mashbox-model"]
    assert document["info"]["x-mashbox-model"] == MODEL_ID
    assert example not in json.dumps(document)
    assert json.dumps(document).replace(MODEL_ID, example) == json.dumps(contract())


async def test_a_question_is_answered_whole() -> None:
    engine = ScriptedEngine(text_events("Hel", "lo", reason=FinishReason.LENGTH))
    response = await chat(engine, model=MODEL_ID, max_tokens=3, seed=7)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    schema("ChatCompletion").validate(response.json())
    (choice,) = response.json()["choices"]
    assert choice["message"]["content"] == "Hello"
    assert choice["finish_reason"] == "length"
    (request,) = engine.requests
    assert request.prompt == ChatPrompt((Message("user", "Hi"),))
    assert (request.sampling.max_tokens, request.sampling.seed) == (3, 7)
    assert request.id == response.json()["id"]


async def test_the_whole_answer_equals_the_fold_of_the_stream() -> None:
    events = text_events("Hel", "lo", "!")
    whole = (await chat(ScriptedEngine(events))).json()
    streamed = await chat(
        ScriptedEngine(events), stream=True, stream_options={"include_usage": True}
    )
    assert streamed.headers["content-type"].startswith("text/event-stream")
    chunks = sse_events(streamed.text)
    for chunk in chunks:
        schema("ChatCompletionChunk").validate(chunk)
    *text, finish, usage = chunks
    message: dict[str, Any] = {"role": "", "content": ""}
    for chunk in text:
        for key, value in chunk["choices"][0]["delta"].items():
            message[key] += value
    assert message == whole["choices"][0]["message"]
    assert finish["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert (usage["usage"], usage["timings"]) == (whole["usage"], whole["timings"])


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": None}])
async def test_no_usage_chunk_comes_unasked(options: dict[str, object] | None) -> None:
    response = await chat(ScriptedEngine(), stream=True, stream_options=options)
    last = sse_events(response.text)[-1]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["usage"]["total_tokens"] == 15


async def test_each_answer_has_its_own_id_and_seed() -> None:
    engine = ScriptedEngine()
    for _ in range(2):
        await chat(engine)
    first, second = engine.requests
    assert first.id != second.id
    assert first.sampling.seed != second.sampling.seed


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (NotReady("The model is still loading.", 7), 503, "not_ready", "7"),
        (QueueFull("Full.", 3, tenant_limit=True), 429, "rate_limit_exceeded", "3"),
        (ContextOverflow(600, 511), 400, "context_length_exceeded", None),
    ],
)
async def test_a_refused_request_gets_plain_json(
    error: Exception, status: int, code: str, retry_after: str | None, stream: bool
) -> None:
    response = await chat(ScriptedEngine(error), stream=stream)
    assert response.status_code == status
    assert response.headers.get("retry-after") == retry_after
    assert error_of(response)["code"] == code
    schema("ErrorBody").validate(response.json())


async def test_the_model_is_checked_before_the_engine_is_asked() -> None:
    engine = loading()
    response = await chat(engine, model="other")
    assert (response.status_code, error_of(response)["param"]) == (404, "model")
    assert engine.requests == []


async def test_the_official_sdk_reads_answers_streams_and_models() -> None:
    transport = httpx2.ASGITransport(judged_app(ScriptedEngine(text_events("Hel", "lo"))))
    async with AsyncOpenAI(
        base_url="http://127.0.0.1:8000/v1",
        api_key="any",
        http_client=httpx2.AsyncClient(transport=transport),
    ) as openai:
        messages: Any = QUESTION["messages"]
        whole = await openai.chat.completions.create(model=MODEL_ID, messages=messages)
        assert whole.choices[0].message.content == "Hello"
        stream = await openai.chat.completions.create(
            model=MODEL_ID, messages=messages, stream=True
        )
        text = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(text) == "Hello"
        assert [model.id async for model in openai.models.list()] == [MODEL_ID]
