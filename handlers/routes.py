"""One short function per operation of openapi.json."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Protocol

from pydantic import BaseModel
from starlette.responses import Response

from generated.models import (
    ChatCompletionRequest,
    CompletionRequest,
    CountTokensRequest,
    MessagesRequest,
    ModelList,
    ResponsesRequest,
)
from handlers.answer import AnswerResponse, GenerationEngine
from handlers.chat import read_chat_request
from handlers.chat_encoder import ChatEncoder
from handlers.common import check_model, first_given, new_id
from handlers.completions import CompletionEncoder, read_completion_request
from handlers.health import DescribedEngine, describe_health, describe_model
from handlers.message_encoder import MessageEncoder
from handlers.messages import read_conversation, read_messages_request
from handlers.metrics import CONTENT_TYPE, Metrics
from handlers.response_encoder import ResponseEncoder
from handlers.response_object import begin_response
from handlers.response_tools import offered_tools
from handlers.responses import read_responses_request
from handlers.token_count import CountingEngine, TokenCountResponse


class ServedEngine(GenerationEngine, CountingEngine, DescribedEngine, Protocol):
    """What the routes need of the engine (see engine.engine.Engine)."""


class Routes:
    """The handlers of one server; implements generated.routes.Handlers."""

    def __init__(self, engine: ServedEngine, document: dict[str, Any]) -> None:
        self._engine = engine
        self._model_id = engine.config.model.id
        self._metrics = Metrics(engine)
        self._document = json.dumps(_with_model(document, self._model_id))

    async def get_health(self) -> Response:
        """Tell whether requests can be answered, and what runs."""
        health = describe_health(self._engine)
        return _json(health, 200 if health.status == "ok" else 503)

    get_health_short = get_root = get_health

    async def head_health(self) -> Response:
        """Tell readiness without a body."""
        status = 200 if self._engine.health().ready else 503
        return Response(status_code=status, headers=_retry_after(status))

    async def list_models(self) -> Response:
        """List the one model."""
        return _json(ModelList(object="list", data=[describe_model(self._engine)]))

    async def get_model(self, model: str) -> Response:
        """Describe the model if `model` is its id."""
        check_model(model, self._model_id)
        return _json(describe_model(self._engine))

    async def create_chat_completion(self, request: ChatCompletionRequest) -> Response:
        """Answer a conversation."""
        response_id = new_id("chatcmpl-")
        usage = request.stream_options is not None and bool(request.stream_options.include_usage)
        return AnswerResponse(
            self._engine,
            read_chat_request(request, response_id, self._model_id),
            partial(ChatEncoder, response_id, self._model_id, usage),
            stream=bool(request.stream),
        )

    async def create_completion(self, request: CompletionRequest) -> Response:
        """Continue a text."""
        response_id = new_id("cmpl-")
        read = read_completion_request(request, response_id, self._model_id)
        return AnswerResponse(
            self._engine,
            read,
            partial(CompletionEncoder, response_id, self._model_id, read.sampling.seed),
            stream=bool(request.stream),
        )

    async def create_message(self, request: MessagesRequest) -> Response:
        """Answer a conversation in Anthropic's form."""
        response_id = new_id("msg_")
        return AnswerResponse(
            self._engine,
            read_messages_request(request, response_id),
            partial(MessageEncoder, response_id, first_given(request.model, self._model_id)),
            stream=bool(request.stream),
        )

    async def count_tokens(self, request: CountTokensRequest) -> Response:
        """Measure a conversation's prompt."""
        return TokenCountResponse(self._engine, read_conversation(request))

    async def create_response(self, request: ResponsesRequest) -> Response:
        """Answer a conversation given as items."""
        tools = offered_tools(request.tools)
        read = read_responses_request(request, new_id("resp_"), self._model_id, tools)
        return AnswerResponse(
            self._engine,
            read,
            partial(ResponseEncoder, begin_response(request, read, self._model_id), tools),
            stream=bool(request.stream),
        )

    async def get_metrics(self) -> Response:
        """Give the engine's numbers to Prometheus."""
        return Response(self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def get_openapi(self) -> Response:
        """Give the contract, with the running model's id."""
        return Response(self._document, media_type="application/json")


def _json(model: BaseModel, status: int = 200) -> Response:
    body = model.model_dump_json(exclude_unset=True)
    return Response(body, status, _retry_after(status), "application/json")


def _retry_after(status: int) -> dict[str, str]:
    return {"Retry-After": "1"} if status == 503 else {}


def _with_model(document: dict[str, Any], model_id: str) -> dict[str, Any]:
    """Put the running model's id where the document names one."""
    filled: dict[str, Any] = _replace(document["info"]["x-mashbox-model"], model_id, document)
    return filled


def _replace(old: str, new: str, node: Any) -> Any:
    match node:
        case dict():
            return {key: _replace(old, new, value) for key, value in node.items()}
        case list():
            return [_replace(old, new, value) for value in node]
    return new if node == old else node
