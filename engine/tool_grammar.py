"""Grammars that hold tool calls to the family's spelling and to the tools' schemas."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from llguidance import LLMatcher

from engine.argument_schema import (
    ANY_OBJECT,
    LIMITS,
    json_rule,
    usable_schema,
    usable_value_schema,
)
from engine.messages import Constraint, ThinkingBudget
from engine.model_format import CallFormat, ModelFormat, ReasoningFormat
from engine.request import ChatPrompt, Tool
from engine.schema_types import json_types

_TEXT = "/(?s:.*)/"
_NAME = "/[A-Za-z_][A-Za-z0-9_.-]{0,63}/"
_MOST_SCHEMAS = 256
# A model that is made to call may know no end of it.
_MOST_CALLS = 16
_SECONDS = 5.0


def build_constraint(
    model: ModelFormat, prompt: ChatPrompt, in_reasoning: bool, control: Mapping[str, int]
) -> Constraint | None:
    """What holds the answer's tool calls to their schemas, or None when nothing is to hold.

    With tool_choice required the whole answer is calls, with named it is one, after the thinking
    if there is any; with auto a call is held once it has begun. Schemas that cannot be followed
    give way to any object, one by one and as a whole. `in_reasoning` tells that the prompt ends
    inside the thinking, `control` holds the ids of control tokens by their spelling.
    """
    tools = _offered(prompt)
    if not tools:
        return None
    for schemas in (_schemas(tools), [ANY_OBJECT] * len(tools)):
        grammar = _Grammar(model, control, tools, schemas)
        if prompt.tool_choice.mode == "auto":
            constraint = grammar.of_begun_call(prompt.parallel_tool_calls, in_reasoning)
        else:
            several = prompt.parallel_tool_calls and prompt.tool_choice.mode == "required"
            thinks = prompt.thinking.enabled is not False
            constraint = grammar.of_answer(several, thinks, in_reasoning)
        if _is_valid(constraint.grammar):
            return constraint
    return None


def build_thinking_budget(
    model: ModelFormat, prompt: ChatPrompt, in_reasoning: bool
) -> ThinkingBudget | None:
    """The cap on the thinking that the prompt asks for, None where there is none."""
    if model.reasoning is None or prompt.thinking.budget is None:
        return None
    opened = None if in_reasoning else model.reasoning.open
    return ThinkingBudget(prompt.thinking.budget, opened, model.reasoning.close)


def control_ids(tokenizer_json: str, markers: Iterable[str]) -> dict[str, int]:
    """The ids of those markers that are control tokens in llguidance's eyes.

    It takes added tokens for text only where they are neither special nor in angle brackets.
    """
    wanted = set(markers)
    return {
        token["content"]: token["id"]
        for token in json.loads(tokenizer_json)["added_tokens"]
        if token["content"] in wanted
        and (token["special"] or re.fullmatch("<.*>", token["content"]))
    }


def _offered(prompt: ChatPrompt) -> tuple[Tool, ...]:
    choice = prompt.tool_choice
    if choice.mode == "none":
        return ()
    return tuple(t for t in prompt.tools if choice.mode != "named" or t.name == choice.name)


def _schemas(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """A usable schema for each tool; what comes after the limits may take any object."""
    deadline = time.monotonic() + _SECONDS
    return [
        usable_schema(tool.parameters)
        if index < _MOST_SCHEMAS and time.monotonic() < deadline
        else ANY_OBJECT
        for index, tool in enumerate(tools)
    ]


@lru_cache(maxsize=32)
def _is_valid(grammar: str) -> bool:
    compiled = LLMatcher.grammar_from_lark(grammar)
    return not LLMatcher.validate_grammar(compiled, None, limits=LIMITS)


class _Grammar:
    """Writes the rules for one request's tools."""

    def __init__(
        self,
        model: ModelFormat,
        control: Mapping[str, int],
        tools: Sequence[Tool],
        schemas: Sequence[dict[str, Any]],
    ) -> None:
        self._calls: CallFormat = model.calls
        self._reasoning = model.reasoning
        self._control = control
        self._rules: list[str] = []
        self._names = [self._name(tool.name) for tool in tools]
        rules = zip(self._names, schemas, strict=True)
        terms = [self._tool(index, name, schema) for index, (name, schema) in enumerate(rules)]
        self._rules.append(f"tool: {' | '.join(terms)}")

    def of_answer(self, parallel: bool, thinks: bool, in_reasoning: bool) -> Constraint:
        """Holds the whole answer to calls, at least one."""
        calls = self._calls
        first = self._spell(calls.before_calls + calls.before_name)
        thinking = self._thinking(thinks, in_reasoning)
        return self._constraint(f"{thinking} {first} tool {self._further(parallel)}")

    def of_begun_call(self, parallel: bool, in_reasoning: bool) -> Constraint:
        """Holds what follows the family's trigger to the rest of a call."""
        calls = self._calls
        trigger = calls.trigger or calls.before_name
        opening = (calls.before_calls + calls.before_name).removeprefix(trigger)
        start = f"{self._loosely(opening)} tool {self._further(parallel and self._is_list)}"
        if calls.trigger is None:
            start += " | " + self._no_tool()
        return self._constraint(
            start,
            trigger=trigger,
            at_start=calls.trigger is None,
            repeat=parallel and calls.parallel and not self._is_list,
            thinking=self._reasoning
            and (None if in_reasoning else self._reasoning.open, self._reasoning.close),
        )

    @property
    def _is_list(self) -> bool:
        return bool(self._calls.after_calls)

    def _constraint(self, start: str, **how: Any) -> Constraint:
        return Constraint("\n".join([f"start: {start}", *self._rules]) + "\n", **how)

    def _further(self, parallel: bool) -> str:
        calls = self._calls
        between = self._spell(calls.between_calls + calls.before_name)
        more = f"({between} tool){{0,{_MOST_CALLS - 1}}}" if parallel and calls.parallel else ""
        return f"{more} {self._spell(calls.after_calls)}"

    def _thinking(self, thinks: bool, in_reasoning: bool) -> str:
        if self._reasoning is None or not (thinks or in_reasoning):
            return ""
        rest = self._rest_of_thinking(self._reasoning)
        return rest if in_reasoning else f"({self._spell(self._reasoning.open)} {rest})?"

    def _rest_of_thinking(self, reasoning: ReasoningFormat) -> str:
        after = self._spell(reasoning.after)
        if reasoning.after.isspace():
            after = r"/[ \n]{1,2}/?"
        return f"{self._until('thoughts', reasoning.close)} {after}"

    def _no_tool(self) -> str:
        # What begins like a call, but names no tool, was meant as text.
        names = " | ".join(_literal(name + '"') for name in self._names)
        self._rules.append(f"NAMED: ({names}) {_TEXT}\nOTHER: {_TEXT} & ~NAMED")
        return "OTHER"

    def _name(self, name: str) -> str:
        in_json = self._calls.syntax in ("object", "list")
        return json.dumps(name, ensure_ascii=False)[1:-1] if in_json else name

    def _tool(self, index: int, name: str, schema: dict[str, Any]) -> str:
        calls = self._calls
        xml = calls.syntax == "xml"
        arguments = self._parameters(index, schema) if xml else json_rule(schema)
        rule = f"tool_{index}"
        self._rules.append(f"{rule}_arguments: {arguments}")
        before = self._spell(name + calls.before_arguments)
        self._rules.append(
            f"{rule}: {before} {rule}_arguments {self._spell(calls.after_arguments)}"
        )
        return rule

    def _parameters(self, index: int, schema: dict[str, Any]) -> str:
        """The arguments one by one, in the order of the schema, as `<parameter=KEY>` elements."""
        listed = schema.get("properties")
        if not isinstance(listed, dict):
            return f'("<parameter=" {_NAME} ">" {self._bare_text(f"tool_{index}")})*'
        required = schema.get("required", [])
        terms = []
        for number, (key, value) in enumerate(listed.items()):
            rule = f"tool_{index}_{number}"
            opening = _literal(f"<parameter={key}>")
            self._rules.append(f"{rule}: {opening} {self._value(rule, value, schema)}")
            terms.append(rule if key in required else rule + "?")
        return " ".join(terms) or '""'

    def _value(self, rule: str, schema: Any, root: dict[str, Any]) -> str:
        types = json_types(schema, root)
        allowed = schema.get("enum") if isinstance(schema, dict) else None
        start, end = _literal("\n"), _literal("\n</parameter>\n")
        if types == frozenset({"string"}) and isinstance(allowed, list):
            return f"{start} ({' | '.join(map(_literal, allowed))}) {end}"
        if types and "string" not in types:
            return f"{start} {json_rule(usable_value_schema(schema, root))} {end}"
        return self._bare_text(rule)

    def _bare_text(self, rule: str) -> str:
        # The first closing tag ends it, wherever that stands; an empty one has one newline only.
        self._rules.append(f'{rule}_text[suffix="</parameter>"]: /\\n(?s:.*)/')
        return f'{rule}_text "\\n"'

    def _until(self, rule: str, close: str) -> str:
        """Any text up to and with the first `close`."""
        if any(close.startswith(marker) for marker in self._control):
            return f"{_TEXT} {self._spell(close)}"
        self._rules.append(f"{rule}[suffix={_literal(close)}]: {_TEXT}")
        return rule

    def _loosely(self, text: str) -> str:
        # Right behind a trigger some models leave out the whitespace, or have it in that token.
        bare = text.lstrip()
        space = text[: len(text) - len(bare)]
        return f"{_literal(space) + '?' if space else ''} {self._spell(bare)}"

    def _spell(self, text: str) -> str:
        """The grammar term for exactly `text`, its control tokens by id."""
        if not self._control:
            return _literal(text) if text else ""
        pattern = "|".join(map(re.escape, sorted(self._control, key=len, reverse=True)))
        pieces = re.split(f"({pattern})", text)
        return " ".join(
            f"<[{self._control[piece]}]>" if piece in self._control else _literal(piece)
            for piece in pieces
            if piece
        )


def _literal(text: str) -> str:
    return json.dumps(text)
