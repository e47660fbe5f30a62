"""OpenAI Chat Completions: an answer's events encoded as chunks and as a whole."""

from __future__ import annotations

import time
from typing import Literal

from engine.events import (
    Event,
    Finished,
    FinishReason,
    PartDelta,
    PartKind,
    PartStart,
    Timings,
    Usage,
)
from generated.models import (
    ChatAnswer,
    ChatChoice,
    ChatChunkChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatDelta,
    ChatFunctionCall,
    ChatFunctionCallDelta,
    ChatTimings,
    ChatToolCall,
    ChatToolCallDelta,
    ChatUsage,
    PromptTokensDetails,
    StreamError,
)
from handlers.errors import ApiError
from handlers.sse import DONE, data


class ChatEncoder:
    """Encodes one chat answer; its parts of one kind run together in one field."""

    def __init__(self, response_id: str, model: str, include_usage: bool) -> None:
        self._id = response_id
        self._model = model
        self._created = int(time.time())
        self._include_usage = include_usage
        self._open: PartKind = "text"
        self._texts: dict[PartKind, list[str]] = {"text": [], "reasoning": []}
        self._calls: list[ChatToolCall] = []
        self._answer: ChatCompletion | None = None

    def start(self) -> list[bytes]:
        """Give the role chunk."""
        return [data(self._chunk(ChatDelta(role="assistant", content="")))]

    def feed(self, event: Event) -> list[bytes]:
        """Add an event; gives a chunk for a call's start and for each delta, and the last ones."""
        match event:
            case PartStart():
                self._open = event.kind
                if event.kind == "tool_call":
                    return [data(self._chunk(self._begin_call(event)))]
            case PartDelta():
                return [data(self._chunk(self._add(event.text)))]
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

    def _begin_call(self, start: PartStart) -> ChatDelta:
        function = ChatFunctionCall(name=start.name, arguments="")
        call = ChatToolCall(id=f"call_{start.call_key}", type="function", function=function)
        self._calls.append(call)
        delta = ChatToolCallDelta(
            index=len(self._calls) - 1,
            id=call.id,
            type="function",
            function=ChatFunctionCallDelta(name=start.name, arguments=""),
        )
        return ChatDelta(tool_calls=[delta])

    def _add(self, text: str) -> ChatDelta:
        if self._open == "tool_call":
            self._calls[-1].function.arguments += text
            piece = ChatFunctionCallDelta(arguments=text)
            return ChatDelta(
                tool_calls=[ChatToolCallDelta(index=len(self._calls) - 1, function=piece)]
            )
        self._texts[self._open].append(text)
        if self._open == "reasoning":
            return ChatDelta(reasoning_content=text)
        return ChatDelta(content=text)

    def _whole(self, event: Finished) -> ChatCompletion:
        message = ChatAnswer(role="assistant", content="".join(self._texts["text"]) or None)
        if reasoning := "".join(self._texts["reasoning"]):
            message.reasoning_content = reasoning
        if self._calls:
            message.tool_calls = self._calls
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
        **_drafts(timings),
    )


def _drafts(timings: Timings) -> dict[str, int]:
    """Left out where nothing was guessed, as llama-server does."""
    if not timings.draft_n:
        return {}
    return {"draft_n": timings.draft_n, "draft_n_accepted": timings.draft_n_accepted}


def _per_second(count: int, milliseconds: float) -> float | None:
    return round(count / milliseconds * 1000, 3) if count > 0 and milliseconds > 0 else None
