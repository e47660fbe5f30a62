"""Turns a conversation into a prompt through the model's chat template."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError
from transformers.utils.chat_template_utils import render_jinja_template

from engine.control_tokens import ControlTokens
from engine.errors import BadPrompt, ModelError
from engine.messages import Ready
from engine.request import ChatPrompt, Message
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


class ChatTemplate:
    """Renders conversations; only the template itself can produce control tokens.

    The template runs in transformers' sandbox, compiled once. It comes with the model and clients
    cannot send one, so its running time is not bounded beyond the sandbox's limit on ranges.
    Raises ModelError, naming the line, when it has a syntax error.
    """

    def __init__(self, ready: Ready, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._control = ControlTokens(tokenizer.control_tokens())
        chatml = {"<|im_start|>", "<|im_end|>"} <= self._control.contents
        self._template = ready.chat_template or (_CHATML if chatml else _TRANSCRIPT)
        self._special_tokens = ready.special_tokens
        self._check()

    def encode(self, prompt: ChatPrompt, limit: int) -> EncodedPrompt:
        """Render and encode a conversation, keeping at most `limit` ids but counting all.

        Raises BadPrompt as `render` does.
        """
        return self._tokenizer.encode(self.render(prompt), limit)

    def render(self, prompt: ChatPrompt) -> tuple[Segment, ...]:
        """Render a conversation as segments for `Tokenizer.encode`.

        System messages become one, in order, at the front. A last message of the assistant is left
        open: the answer continues it. Raises BadPrompt when the template refuses or fails.
        """
        messages = [
            {"role": message.role, "content": self._control.mask(message.content)}
            for message in _join_system(prompt.messages)
        ]
        kwargs = {n: v for n, v in prompt.template_kwargs.items() if n not in _RESERVED}
        return self._control.segments(self._render_or_merge(messages, self._control.mask(kwargs)))

    def _check(self) -> None:
        try:
            render_jinja_template([], chat_template=self._template)  # compiles, renders nothing
        except TemplateSyntaxError as error:
            raise ModelError(
                f"The chat template has a syntax error in line {error.lineno}: {error.message}"
            ) from error

    def _render_or_merge(self, messages: list[dict[str, str]], kwargs: dict[str, Any]) -> str:
        try:
            return self._rendered(messages, kwargs)
        except Exception as error:  # a template can raise anything
            merged = _merge(messages)
            if _is_refusal(error) and len(merged) < len(messages):
                return self._render_or_merge(merged, kwargs)
            raise self._bad_prompt(error) from error

    def _rendered(self, messages: list[dict[str, str]], kwargs: dict[str, Any]) -> str:
        prefill = bool(messages) and messages[-1]["role"] == "assistant"
        if prefill:
            last = messages[-1]
            messages = [
                *messages[:-1],
                {**last, "content": last["content"] + self._control.end_mark},
            ]
        rendered: str = render_jinja_template(
            [messages],
            chat_template=self._template,
            add_generation_prompt=not prefill,
            **(kwargs | self._special_tokens),
        )[0][0]
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


def _join_system(messages: Sequence[Message]) -> list[Message]:
    system = [message.content for message in messages if message.role == "system"]
    rest = [message for message in messages if message.role != "system"]
    return [Message("system", "\n\n".join(system)), *rest] if system else rest


def _merge(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Join neighbours of one role, except tool results, which belong to different calls."""
    merged: list[dict[str, str]] = []
    for role, group in groupby(messages, key=lambda message: message["role"]):
        if role == "tool":
            merged += group
        else:
            content = "\n\n".join(message["content"] for message in group)
            merged.append({"role": role, "content": content})
    return merged
