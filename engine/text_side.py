"""The text side of a loaded model: prompts into ids, and what is needed to read the answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from engine.allocator import trim_memory
from engine.chat_template import ChatTemplate
from engine.detokenizer import IncrementalDetokenizer
from engine.errors import BadPrompt, ContextOverflow
from engine.generation import Generation
from engine.messages import Constraint, Ready, ThinkingBudget
from engine.model_format import ModelFormat, detect_format
from engine.request import ChatPrompt, GenerationRequest, TextPrompt
from engine.response_parser import ResponseParser
from engine.text_pool import Cancelled, never
from engine.tokenizer import EncodedPrompt, Tokenizer
from engine.tool_grammar import build_constraint, build_thinking_budget, control_ids

# What a template writes around a text; it also stands for the time that this takes.
_FRAME = 20


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A prompt's ids, and what holds the answer; `in_reasoning` if it ends inside the thinking.

    `opening` is the id that begins its messages.
    """

    encoded: EncodedPrompt
    in_reasoning: bool = False
    constraint: Constraint | None = None
    thinking: ThinkingBudget | None = None
    opening: int | None = None


@dataclass(frozen=True, slots=True)
class TextSide:
    """What turns prompts into ids and ids into events, made from a worker's Ready message."""

    ready: Ready  # without its tokenizer_json, which nobody reads again
    tokenizer: Tokenizer
    template: ChatTemplate
    format: ModelFormat
    control: dict[str, int]

    @classmethod
    def of(cls, ready: Ready, tool_format: str | None = None) -> TextSide:
        """Build it; raises ModelError when tokenizer, chat template or `tool_format` is broken."""
        format = detect_format(ready.chat_template, tool_format)
        tokenizer = Tokenizer(ready)
        template = ChatTemplate(ready, tokenizer, format)
        control = control_ids(ready.tokenizer_json, format.markers)
        # The vocabulary is megabytes, and parsing it leaves tens of them behind.
        ready = replace(ready, tokenizer_json="")
        trim_memory()
        return cls(ready, tokenizer, template, format, control)

    def count(self, prompt: ChatPrompt, cancelled: Cancelled = never) -> int:
        """The number of the prompt's tokens; raises BadPrompt, and Abandoned when `cancelled`."""
        return self.template.encode(prompt, 0, cancelled).prompt.total

    def prepare(
        self, prompt: ChatPrompt | TextPrompt, limit: int, cancelled: Cancelled = never
    ) -> PreparedPrompt:
        """Encode a prompt; raises BadPrompt, and ContextOverflow beyond `limit` tokens.

        Raises Abandoned when it is `cancelled` meanwhile.
        """
        if isinstance(prompt, TextPrompt):
            encoded_text = self.tokenizer.encode_text(prompt.text, limit, cancelled)
            return PreparedPrompt(_checked(encoded_text, limit))
        encoded = self.template.encode(prompt, limit, cancelled)
        return PreparedPrompt(
            _checked(encoded.prompt, limit),
            encoded.in_reasoning,
            build_constraint(
                self.format, self._with_care(prompt), encoded.in_reasoning, self.control
            ),
            build_thinking_budget(self.format, prompt, encoded.in_reasoning),
            self.template.opening,
        )

    def _with_care(self, prompt: ChatPrompt) -> ChatPrompt:
        # A model that never learned to call does not know when it has called enough.
        several = self.template.knows_tools or prompt.tool_choice.mode != "required"
        return prompt if several else replace(prompt, parallel_tool_calls=False)

    def generation(
        self, request: GenerationRequest, prepared: PreparedPrompt, submitted_at: float
    ) -> Generation:
        """What will turn the request's ids into events."""
        prompt, stop = request.prompt, request.sampling.stop
        markers, parser = frozenset[str](), ResponseParser(None)
        if isinstance(prompt, ChatPrompt):
            markers = self.format.markers
            parser = ResponseParser(
                self.format,
                () if prompt.tool_choice.mode == "none" else prompt.tools,
                prepared.in_reasoning,
                trim=not any(character.isspace() for character in "".join(stop)),
            )
        detokenizer = IncrementalDetokenizer(self.tokenizer, markers)
        return Generation(detokenizer, parser, prepared.encoded.total, submitted_at, stop)


def prompt_size(prompt: ChatPrompt | TextPrompt) -> int:
    """About how many characters a prompt will have."""
    if isinstance(prompt, TextPrompt):
        return len(prompt.text)
    calls = (call.arguments for message in prompt.messages for call in message.tool_calls)
    return (
        sum(len(m.content) + len(m.reasoning or "") + _FRAME for m in prompt.messages)
        + sum(map(_json_size, calls))
        + sum(len(tool.description) + _json_size(tool.parameters) for tool in prompt.tools)
    )


def _json_size(value: Any) -> int:
    if isinstance(value, str):
        return len(value) + _FRAME
    if isinstance(value, dict):
        return sum(len(key) + _json_size(item) for key, item in value.items()) + _FRAME
    return sum(map(_json_size, value)) + _FRAME if isinstance(value, list) else _FRAME


def _checked(encoded: EncodedPrompt, limit: int) -> EncodedPrompt:
    if encoded.total > limit:
        raise ContextOverflow(encoded.total, limit)
    if not encoded.ids:
        raise BadPrompt("The prompt is empty; send some text.")
    return encoded
