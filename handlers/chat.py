"""OpenAI Chat Completions: its body read, its answer encoded."""

from __future__ import annotations

import time
from typing import Any, Literal

from engine.events import Event, Finished, FinishReason, PartDelta, Timings, Usage
from engine.request import ChatPrompt, GenerationRequest, Message
from generated.models import (
    ChatAnswer,
    ChatChoice,
    ChatChunkChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionRequest,
    ChatDelta,
    ChatMessage,
    ChatTimings,
    ChatUsage,
    PromptTokensDetails,
    StreamError,
)
from handlers.common import check_model, flatten_text, read_sampling
from handlers.errors import ApiError
from handlers.sse import DONE, data


def read_chat_request(
    body: ChatCompletionRequest, response_id: str, served_model: str
) -> GenerationRequest:
    """Read a body into the neutral request; raises ApiError for what cannot be served."""
    check_model(body.model, served_model)
    max_tokens = body.max_completion_tokens
    if max_tokens is None:
        max_tokens = body.max_tokens
    return GenerationRequest(
        id=response_id,
        prompt=ChatPrompt(tuple(map(_read_message, body.messages)), _template_kwargs(body)),
        sampling=read_sampling(body, max_tokens),
    )


def _read_message(message: ChatMessage) -> Message:
    role = "system" if message.role == "developer" else message.role
    return Message(role, flatten_text(message.content))


def _template_kwargs(body: ChatCompletionRequest) -> dict[str, Any]:
    kwargs = (
        body.chat_template_kwargs.model_dump(exclude_none=True) if body.chat_template_kwargs else {}
    )
    if body.enable_thinking is not None:
        kwargs["enable_thinking"] = body.enable_thinking
    return kwargs


class ChatEncoder:
    """Encodes one chat answer, as chunks and as a whole."""

    def __init__(self, response_id: str, model: str, include_usage: bool) -> None:
        self._id = response_id
        self._model = model
        self._created = int(time.time())
        self._include_usage = include_usage
        self._text: list[str] = []
        self._answer: ChatCompletion | None = None

    def start(self) -> list[bytes]:
        """Give the role chunk."""
        return [data(self._chunk(ChatDelta(role="assistant", content="")))]

    def feed(self, event: Event) -> list[bytes]:
        """Add an event; gives one chunk for text, and the closing ones at the end."""
        match event:
            case PartDelta():
                self._text.append(event.text)
                return [data(self._chunk(ChatDelta(content=event.text)))]
            case Finished():
                self._answer = self._whole(event)
                return self._closing_chunks(self._answer, event.reason)
        return []

    def fail(self, error: ApiError) -> list[bytes]:
        """Give the error chunk and the end marker."""
        chunk = self._chunk(ChatDelta(), finish_reason="error")
        chunk.error = StreamError(
            message=error.message, type=error.type, code=error.code, request_id=self._id
        )
        return [data(chunk), DONE]

    def result(self) -> ChatCompletion:
        """Give the whole answer; raises RuntimeError before `Finished` was fed."""
        if self._answer is None:
            raise RuntimeError("the answer is not finished")
        return self._answer

    def _whole(self, event: Finished) -> ChatCompletion:
        message = ChatAnswer(role="assistant", content="".join(self._text) or None)
        choice = ChatChoice(index=0, message=message, finish_reason=event.reason.value)
        return ChatCompletion(
            id=self._id,
            object="chat.completion",
            created=self._created,
            model=self._model,
            choices=[choice],
            usage=chat_usage(event.usage),
            timings=chat_timings(event.usage, event.timings),
        )

    def _closing_chunks(self, answer: ChatCompletion, reason: FinishReason) -> list[bytes]:
        # The last chunk before the end marker carries usage, whether it was asked for or not.
        chunks = [self._chunk(ChatDelta(), finish_reason=reason.value)]
        if self._include_usage:
            chunks.append(self._chunk(None))
        for chunk in chunks:
            chunk.timings = answer.timings
        chunks[-1].usage = answer.usage
        return [*map(data, chunks), DONE]

    def _chunk(
        self,
        delta: ChatDelta | None,
        finish_reason: Literal["stop", "length", "tool_calls", "error"] | None = None,
    ) -> ChatCompletionChunk:
        choices = (
            []
            if delta is None
            else [ChatChunkChoice(index=0, delta=delta, finish_reason=finish_reason)]
        )
        return ChatCompletionChunk(
            id=self._id,
            object="chat.completion.chunk",
            created=self._created,
            model=self._model,
            choices=choices,
        )


def chat_usage(usage: Usage) -> ChatUsage:
    """Write token counts in OpenAI's form."""
    return ChatUsage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=usage.cached_tokens),
    )


def chat_timings(usage: Usage, timings: Timings) -> ChatTimings:
    """Write timings as llama-server does: rates are null where they cannot be known."""
    prompt_n = usage.prompt_tokens - usage.cached_tokens
    return ChatTimings(
        prompt_n=prompt_n,
        prompt_ms=round(timings.prompt_ms, 3),
        prompt_per_second=_per_second(prompt_n, timings.prompt_ms),
        predicted_n=usage.completion_tokens,
        predicted_ms=round(timings.predicted_ms, 3),
        predicted_per_second=_per_second(usage.completion_tokens - 1, timings.predicted_ms),
        cache_n=usage.cached_tokens,
        queue_ms=round(timings.queue_ms, 3),
    )


def _per_second(count: int, milliseconds: float) -> float | None:
    return round(count / milliseconds * 1000, 3) if count > 0 and milliseconds > 0 else None
