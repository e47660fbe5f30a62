"""OpenAI Completions: its body read into the neutral request, an answer's events encoded."""

from __future__ import annotations

import time
from typing import Literal

from engine.events import Event, Finished, FinishReason, PartDelta, Usage
from engine.request import GenerationRequest, TextPrompt
from generated.models import (
    Completion,
    CompletionChoice,
    CompletionRequest,
    CompletionUsage,
    StreamError,
)
from handlers.common import check_model, first_given, read_sampling
from handlers.errors import ApiError
from handlers.sse import DONE, data


def read_completion_request(
    body: CompletionRequest, response_id: str, served_model: str
) -> GenerationRequest:
    """Read a body into the neutral request; raises ApiError for what cannot be served."""
    check_model(body.model, served_model)
    text = body.prompt if isinstance(body.prompt, str) else body.prompt[0]
    return GenerationRequest(
        id=response_id,
        prompt=TextPrompt(text),
        sampling=read_sampling(body, first_given(body.max_completion_tokens, body.max_tokens)),
        prompt_field="prompt",
    )


class CompletionEncoder:
    """Encodes one continuation; `seed` is the one that its tokens are drawn with."""

    def __init__(self, response_id: str, model: str, seed: int) -> None:
        self._id = response_id
        self._model = model
        self._fingerprint = f"seed-{seed}"
        self._created = int(time.time())
        self._texts: list[str] = []
        self._answer: Completion | None = None

    def start(self) -> list[bytes]:
        """Give nothing: a continuation has no preamble."""
        return []

    def feed(self, event: Event) -> list[bytes]:
        """Add an event; gives a chunk for each delta, and the last ones."""
        match event:
            case PartDelta():
                self._texts.append(event.text)
                return [data(self._completion(event.text, None))]
            case Finished():
                return self._finish(event)
        return []

    def fail(self, error: ApiError) -> list[bytes]:
        """Give the error chunk and the end marker."""
        chunk = self._completion("", "error")
        chunk.error = StreamError(
            message=error.message, type=error.type, code=error.code, request_id=self._id
        )
        return [data(chunk), DONE]

    def result(self) -> Completion:
        """Give the whole answer; raises RuntimeError before `Finished` was fed."""
        if self._answer is None:
            raise RuntimeError("the answer is not finished")
        return self._answer

    def _finish(self, finished: Finished) -> list[bytes]:
        reason: Literal["stop", "length"] = (
            "length" if finished.reason is FinishReason.LENGTH else "stop"
        )
        self._answer = self._completion("".join(self._texts), reason)
        self._answer.usage = completion_usage(finished.usage)
        return [data(self._completion("", reason)), DONE]

    def _completion(
        self, text: str, finish_reason: Literal["stop", "length", "error"] | None
    ) -> Completion:
        return Completion(
            id=self._id,
            object="text_completion",
            created=self._created,
            model=self._model,
            choices=[CompletionChoice(index=0, text=text, finish_reason=finish_reason)],
            system_fingerprint=self._fingerprint,
        )


def completion_usage(usage: Usage) -> CompletionUsage:
    """Write token counts in OpenAI's form."""
    return CompletionUsage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )
