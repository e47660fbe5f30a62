"""The text side of a loaded model: prompts into ids, and what is needed to read the answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.allocator import trim_memory
from engine.chat_template import ChatTemplate
from engine.detokenizer import IncrementalDetokenizer
from engine.errors import BadPrompt, ContextOverflow
from engine.generation import Generation
from engine.messages import Constraint, Ready, ThinkingBudget
from engine.model_format import ModelFormat, detect_format
from engine.request import ChatPrompt, GenerationRequest, TextPrompt
from engine.response_parser import ResponseParser
from engine.tokenizer import EncodedPrompt, Tokenizer
from engine.tool_grammar import build_constraint, build_thinking_budget, control_ids


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A prompt's ids, and what holds the answer; `in_reasoning` if it ends inside the thinking."""

    encoded: EncodedPrompt
    in_reasoning: bool = False
    constraint: Constraint | None = None
    thinking: ThinkingBudget | None = None


@dataclass(frozen=True, slots=True)
class TextSide:
    """What turns prompts into ids and ids into events, made from a worker's Ready message."""

    ready: Ready
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
        # Parsing a vocabulary leaves tens of megabytes behind.
        trim_memory()
        return cls(ready, tokenizer, template, format, control)

    def count(self, prompt: ChatPrompt | TextPrompt) -> int:
        """The number of the prompt's tokens; raises BadPrompt."""
        if isinstance(prompt, ChatPrompt):
            return self.template.encode(prompt, 0).prompt.total
        return self.tokenizer.encode_text(prompt.text, 0).total

    def prepare(self, prompt: ChatPrompt | TextPrompt, limit: int) -> PreparedPrompt:
        """Encode a prompt; raises BadPrompt, and ContextOverflow beyond `limit` tokens."""
        if isinstance(prompt, TextPrompt):
            return PreparedPrompt(_checked(self.tokenizer.encode_text(prompt.text, limit), limit))
        encoded = self.template.encode(prompt, limit)
        return PreparedPrompt(
            _checked(encoded.prompt, limit),
            encoded.in_reasoning,
            build_constraint(
                self.format, self._with_care(prompt), encoded.in_reasoning, self.control
            ),
            build_thinking_budget(self.format, prompt, encoded.in_reasoning),
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


def _checked(encoded: EncodedPrompt, limit: int) -> EncodedPrompt:
    if encoded.total > limit:
        raise ContextOverflow(encoded.total, limit)
    if not encoded.ids:
        raise BadPrompt("The prompt is empty; send some text.")
    return encoded
