"""Turns a conversation into a prompt through the model's chat template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError

from engine.control_tokens import ControlTokens
from engine.errors import BadPrompt, ModelError
from engine.messages import Ready
from engine.model_format import ModelFormat
from engine.rendering import render_foreign, render_own
from engine.request import ChatPrompt
from engine.template_messages import TemplateMessages, merged, without_system
from engine.template_traits import find_traits
from engine.text_pool import Cancelled, never
from engine.tokenizer import EncodedPrompt, Segment, Tokenizer

# For models without a template: ChatML where the vocabulary has it, else a transcript.
_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_TRANSCRIPT = (
    "{{ bos_token }}{% for message in messages %}{{ message.role }}: {{ message.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)

# What the renderer passes itself, what every template finds there, and what it would choke on.
_RESERVED = frozenset(
    {
        *("messages", "tools", "documents", "add_generation_prompt", "continue_final_message"),
        *("conversations", "chat_template", "return_assistant_tokens_mask", "self"),
        *("raise_exception", "strftime_now", "namespace", "dict", "range"),
        *("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token"),
        "mask_token",
    }
)
_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """A conversation's ids; `in_reasoning` tells that the prompt ends inside the thinking."""

    prompt: EncodedPrompt
    in_reasoning: bool


class ChatTemplate:
    """Renders conversations; only the template itself can produce control tokens.

    The template runs in transformers' sandbox, compiled once. It comes with the model and clients
    cannot send one, so its running time is not bounded beyond the sandbox's limit on ranges.
    Tools that it knows nothing of are taught and rendered as text, in the spelling of `format`.
    `opening` is the id of the control token that begins an answer, and most often every message.
    Raises ModelError, naming the line, when it has a syntax error.
    """

    def __init__(self, ready: Ready, tokenizer: Tokenizer, format: ModelFormat) -> None:
        self._tokenizer = tokenizer
        self._control = ControlTokens(tokenizer.control_tokens())
        chatml = {"<|im_start|>", "<|im_end|>"} <= self._control.contents
        self._template = ready.chat_template or (_CHATML if chatml else _TRANSCRIPT)
        self._special_tokens = ready.special_tokens
        self._run = render_own if ready.own_template else render_foreign
        self._reasoning = format.reasoning
        self._check()
        self._traits = find_traits(
            self._template, lambda messages, tools: self._rendered(messages, {"tools": tools})
        )
        self._messages = TemplateMessages(self._traits, format.calls, self._control.mask)
        self.opening = self._find_opening()

    @property
    def knows_tools(self) -> bool:
        """Whether the template offers tools itself, as those of models trained for them do."""
        return self._traits.tools

    def encode(self, prompt: ChatPrompt, limit: int, cancelled: Cancelled = never) -> EncodedChat:
        """Render and encode a conversation, keeping at most `limit` ids but counting all.

        Raises BadPrompt as `render` does, and Abandoned as `Tokenizer.encode` does.
        """
        text = self._text(prompt)
        encoded = self._tokenizer.encode(self._control.segments(text), limit, cancelled)
        return EncodedChat(encoded, self._ends_thinking(text))

    def render(self, prompt: ChatPrompt) -> tuple[Segment, ...]:
        """Render a conversation as segments for `Tokenizer.encode`.

        System messages become one, in order, at the front. A last message of the assistant without
        calls is left open: the answer continues it. Where thinking is off and the template opens
        it all the same, it is closed. Raises BadPrompt when the template refuses or fails.
        """
        return self._control.segments(self._text(prompt))

    def _text(self, prompt: ChatPrompt) -> str:
        offered = () if prompt.tool_choice.mode == "none" else prompt.tools
        kwargs = {n: v for n, v in prompt.template_kwargs.items() if n not in _RESERVED}
        if (enabled := prompt.thinking.enabled) is not None:
            kwargs |= {"enable_thinking": enabled, "thinking": enabled}
        kwargs = self._control.mask(kwargs)
        if offered and self._traits.tools:
            kwargs["tools"] = self._messages.tools(offered)
        messages = self._messages.messages(prompt.messages, offered)
        text = self._render_or_adapt(messages, kwargs)
        if enabled is False and self._reasoning and self._ends_thinking(text):
            return f"{text.rstrip()}\n\n{self._reasoning.close}{self._reasoning.after}"
        return text

    def _ends_thinking(self, text: str) -> bool:
        return self._reasoning is not None and text.rstrip().endswith(self._reasoning.open)

    def _find_opening(self) -> int | None:
        def render(asks: bool) -> str:
            return self._run(
                [[{"role": "user", "content": "probe"}]],
                self._template,
                add_generation_prompt=asks,
                **self._special_tokens,
            )

        try:
            added = render(asks=True).removeprefix(render(asks=False))
        except Exception:  # a template can raise anything
            return None
        first = max(filter(added.startswith, self._control.contents), key=len, default="")
        ids = self._tokenizer.encode([Segment(first, control=True)], 2).ids
        return ids[0] if len(ids) == 1 else None

    def _check(self) -> None:
        try:
            self._run([], self._template)  # compiles, renders nothing
        except TemplateSyntaxError as error:
            raise ModelError(
                f"The chat template has a syntax error in line {error.lineno}: {error.message}"
            ) from error

    def _render_or_adapt(self, messages: list[dict[str, Any]], kwargs: dict[str, Any]) -> str:
        """Render, with neighbours merged or without a system message where that is refused."""
        try:
            return self._rendered(messages, kwargs)
        except Exception as error:  # a template can raise anything
            for adapted in (merged(messages), without_system(messages)):
                if _is_refusal(error) and len(adapted) < len(messages):
                    return self._render_or_adapt(adapted, kwargs)
            raise self._bad_prompt(error) from error

    def _rendered(self, messages: list[dict[str, Any]], kwargs: dict[str, Any]) -> str:
        last = messages[-1] if messages else {}
        prefill = last.get("role") == "assistant" and "tool_calls" not in last
        if prefill:
            last = {**last, "content": last["content"] + self._control.end_mark}
            messages = [*messages[:-1], last]
        rendered = self._run(
            [messages],
            self._template,
            add_generation_prompt=not prefill,
            **(kwargs | self._special_tokens),
        )
        return self._until_mark(rendered) if prefill else rendered

    def _until_mark(self, rendered: str) -> str:
        before, mark, _ = rendered.rpartition(self._control.end_mark)
        if not mark:
            raise BadPrompt("The chat template leaves out the last assistant message.")
        return before

    def _bad_prompt(self, error: Exception) -> BadPrompt:
        if isinstance(error, BadPrompt):
            return error
        reason = self._control.unmask(str(error) or type(error).__name__)[:_LONGEST_REASON]
        if _is_refusal(error):
            return BadPrompt(f"The chat template refuses these messages: {reason}")
        first_line, *_ = reason.splitlines()
        return BadPrompt(f"The chat template fails on these messages: {first_line}")


def _is_refusal(error: Exception) -> bool:
    # `raise_exception` raises the base class itself, jinja's own faults are subclasses.
    return type(error) is TemplateError
