"""How families of models write thinking and tool calls: data, chosen from the chat template."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine.errors import ModelError

CallSyntax = Literal["object", "list", "xml", "name_first", "harmony"]


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """The markers around the thinking; `after` is what such a model writes behind `close`."""

    open: str
    close: str
    after: str


@dataclass(frozen=True, slots=True)
class CallFormat:
    """How calls are written, letter by letter as the family's own template does it.

    All calls of an answer: `before_calls`, the calls with `between_calls` between them,
    `after_calls`. One call: `before_name`, the name, `before_arguments`, the arguments,
    `after_arguments`. Arguments are a JSON object; in the syntax `xml` each one is
    `<parameter=KEY>\\nVALUE\\n</parameter>\\n`, strings bare and other values as JSON.

    A text that spells `trigger` begins a call. None: only a whole answer can be a call.
    The `syntax` names the reader that takes what models really write. `end_of_turn` is what ends
    the answer behind a call where that is not the usual end-of-turn token.
    """

    syntax: CallSyntax
    trigger: str | None
    before_name: str
    before_arguments: str
    after_arguments: str
    before_calls: str = ""
    between_calls: str = ""
    after_calls: str = ""
    end_of_turn: str = ""
    parallel: bool = True


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """One family's conventions; `name` is what `--tool-format` takes.

    `markers` are the control tokens that tell the parts of an answer apart: where they are special
    tokens, they are spelled all the same.
    """

    name: str
    calls: CallFormat
    reasoning: ReasoningFormat | None
    markers: frozenset[str]


THINK = ReasoningFormat("<think>", "</think>", "\n\n")
BRACKET_THINK = ReasoningFormat("[THINK]", "[/THINK]", "")
ANALYSIS = ReasoningFormat("<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant")

_HERMES = CallFormat(
    syntax="object",
    trigger="<tool_call>",
    before_name='<tool_call>\n{"name": "',
    before_arguments='", "arguments": ',
    after_arguments="}\n</tool_call>",
    between_calls="\n",
)
_QWEN3_CODER = CallFormat(
    syntax="xml",
    trigger="<tool_call>",
    before_name="<tool_call>\n<function=",
    before_arguments=">\n",
    after_arguments="</function>\n</tool_call>",
    between_calls="\n",
)
_LLAMA3 = CallFormat(
    syntax="object",
    trigger=None,
    before_name='{"name": "',
    before_arguments='", "parameters": ',
    after_arguments="}",
    between_calls="; ",
    parallel=False,
)
_MISTRAL = CallFormat(
    syntax="name_first",
    trigger="[TOOL_CALLS]",
    before_name="[TOOL_CALLS]",
    before_arguments="[ARGS]",
    after_arguments="",
)
_MISTRAL_LIST = CallFormat(
    syntax="list",
    trigger="[TOOL_CALLS]",
    before_calls="[TOOL_CALLS][",
    before_name='{"name": "',
    before_arguments='", "arguments": ',
    after_arguments="}",
    between_calls=", ",
    after_calls="]",
)
_HARMONY = CallFormat(
    syntax="harmony",
    trigger="<|channel|>commentary to=functions.",
    before_name="<|channel|>commentary to=functions.",
    before_arguments=" <|constrain|>json<|message|>",
    after_arguments="",
    end_of_turn="<|call|>",
    parallel=False,
)
_DEEPSEEK = CallFormat(
    syntax="name_first",
    trigger="<｜tool▁calls▁begin｜>",
    before_calls="<｜tool▁calls▁begin｜>",
    before_name="<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    before_arguments="\n```json\n",
    after_arguments="\n```<｜tool▁call▁end｜>",
    between_calls="\n",
    after_calls="<｜tool▁calls▁end｜>",
)
_DEEPSEEK_V31 = replace(
    _DEEPSEEK,
    before_name="<｜tool▁call▁begin｜>",
    before_arguments="<｜tool▁sep｜>",
    after_arguments="<｜tool▁call▁end｜>",
    between_calls="",
)

_THINK_MARKERS = frozenset({"<think>", "</think>", "[THINK]", "[/THINK]"})
_DEEPSEEK_MARKERS = frozenset(
    f"<｜tool▁{t}｜>" for t in ("calls▁begin", "call▁begin", "sep", "call▁end", "calls▁end")
)
_CALL_MARKERS: dict[str, tuple[CallFormat, frozenset[str]]] = {
    "hermes": (_HERMES, frozenset({"<tool_call>", "</tool_call>"})),
    "qwen3-coder": (_QWEN3_CODER, frozenset({"<tool_call>", "</tool_call>"})),
    "llama3": (_LLAMA3, frozenset({"<|python_tag|>"})),
    "mistral": (_MISTRAL, frozenset({"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"})),
    "mistral-list": (_MISTRAL_LIST, frozenset({"[TOOL_CALLS]"})),
    "harmony": (
        _HARMONY,
        frozenset(
            f"<|{t}|>"
            for t in ("start", "channel", "message", "constrain", "call", "end", "return")
        ),
    ),
    "deepseek": (_DEEPSEEK, _DEEPSEEK_MARKERS),
    "deepseek-v3.1": (_DEEPSEEK_V31, _DEEPSEEK_MARKERS),
}
FORMATS = tuple(_CALL_MARKERS)

# The first whose signs all stand in the template; every one of them says how calls are written.
_SIGNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("harmony", ("<|channel|>", "<|message|>")),
    ("deepseek", ("<｜tool▁calls▁begin｜>", "```json")),
    ("deepseek-v3.1", ("<｜tool▁calls▁begin｜>",)),
    ("mistral", ("[TOOL_CALLS]", "[ARGS]")),
    ("mistral-list", ("[TOOL_CALLS]",)),
    ("qwen3-coder", ("<tool_call>", "<function=")),
    ("hermes", ("<tool_call>",)),
    ("llama3", ("<|start_header_id|>", '"parameters": ')),
)


def detect_format(template: str | None, override: str | None = None) -> ModelFormat:
    """The conventions that a chat template shows; `override` names the calls' format instead.

    Without a sign of any it is `hermes`, which the fallback prompt for tools teaches. Raises
    ModelError when `override` is none of `FORMATS`.
    """
    text = template or ""
    if override is not None and override not in FORMATS:
        raise ModelError(f"Unknown tool format {override!r}; known are {', '.join(FORMATS)}.")
    name = override or next((n for n, signs in _SIGNS if all(s in text for s in signs)), "hermes")
    calls, markers = _CALL_MARKERS[name]
    return ModelFormat(name, calls, _reasoning(name, text), markers | _THINK_MARKERS)


def _reasoning(name: str, template: str) -> ReasoningFormat | None:
    if name == "harmony":
        return ANALYSIS
    signs = ((BRACKET_THINK, "[THINK]"), (THINK, "<think>"), (THINK, "</think>"))
    return next((reasoning for reasoning, sign in signs if sign in template), None)
