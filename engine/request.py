"""The neutral request: what every protocol's body is read into."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call in an earlier assistant message; `id` is what the message with its result repeats.

    `arguments` are the parsed JSON, so that every client's spelling of them renders alike.
    """

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation, its content already flattened to text.

    `reasoning` is what an assistant thought, `tool_call_id` the call that a tool message answers.
    """

    role: Role
    content: str
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the model may, must or must not call; `name` is set for `named` only."""

    mode: Literal["auto", "none", "required", "named"] = "auto"
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Thinking:
    """Whether the model thinks first, None as its template says; `budget` caps the tokens of it."""

    enabled: bool | None = None
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation; the model's chat template turns it into text.

    Without `parallel_tool_calls` an answer has at most one call.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    thinking: Thinking = Thinking()
    template_kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """A plain text to continue, without a chat template."""

    text: str


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen and when the answer ends.

    `temperature` 0 is greedy. `top_k` 0, `top_p` 1, `min_p` 0 and penalties at their defaults
    are off. `max_tokens` None means up to the end of the context.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int = 0
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def penalises(self) -> bool:
        """Whether a token's chances depend on those before it by more than the model."""
        return (
            self.repetition_penalty != 1
            or self.frequency_penalty != 0
            or self.presence_penalty != 0
        )


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One request as the engine sees it; `id` is unique among the running ones.

    `prompt_field` is what the client's body calls the prompt; refusals of it name that field.
    """

    id: str
    prompt: ChatPrompt | TextPrompt
    sampling: SamplingParams
    tenant: str = ""
    prompt_field: str = "messages"
