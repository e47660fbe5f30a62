from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest

from engine.constraint import ConstraintState
from engine.events import PartDelta, PartStart
from engine.messages import Constraint, ThinkingBudget
from engine.model_format import FORMATS, CallFormat
from engine.request import ChatPrompt, Thinking, Tool, ToolChoice
from engine.response_parser import ResponseParser
from engine.tool_grammar import build_constraint, build_thinking_budget, control_ids
from tests.engine.constrained import EOS, allowed, feed, model, random_answer, state, vocabulary
from tests.engine.tool_schemas import BROKEN, SCHEMAS

TOOLS = (
    Tool("get_weather", "", SCHEMAS["plain"]),
    Tool("now", "", SCHEMAS["nothing"]),
    Tool("log", "", {"type": "object"}),
)
REQUIRED = ToolChoice("required")
FORMS = pytest.mark.parametrize("special", [None, False, True], ids=["text", "added", "special"])
FAMILIES = pytest.mark.parametrize("name", FORMATS)


def prompt(choice: ToolChoice, tools: tuple[Tool, ...] = TOOLS, **more: Any) -> ChatPrompt:
    return ChatPrompt((), tools, choice, **more)


def built(
    name: str, special: bool | None, asked: ChatPrompt, in_reasoning: bool = False
) -> Constraint:
    tokenizer = vocabulary(name, special).to_str()
    control = control_ids(tokenizer, model(name).markers)
    constraint = build_constraint(model(name), asked, in_reasoning, control)
    assert constraint is not None
    return constraint


def begun(name: str, special: bool | None, *args: Any) -> ConstraintState:
    return state(vocabulary(name, special), built(name, special, *args))


def takes(name: str, special: bool | None, held: ConstraintState, text: str) -> bool:
    """Whether `text` is a whole answer."""
    return feed(held, vocabulary(name, special), text) and EOS in (allowed(held) or ())


def written(calls: CallFormat, *named: tuple[str, str]) -> str:
    """Calls as the family's template writes them."""
    each = [calls.before_name + n + calls.before_arguments + a + calls.after_arguments
            for n, a in named]  # fmt: skip
    return calls.before_calls + calls.between_calls.join(each) + calls.after_calls


def arguments(calls: CallFormat, json_text: str) -> str:
    if calls.syntax != "xml":
        return json_text
    values = json.loads(json_text).items()
    return "".join(
        f"<parameter={k}>\n{v if isinstance(v, str) else json.dumps(v)}\n</parameter>\n"
        for k, v in values
    )


def parsed(name: str, text: str, tools: tuple[Tool, ...], in_reasoning: bool) -> list[Any]:
    """The answer's calls as clients get them; nothing else may be in it but thinking."""
    parser = ResponseParser(model(name), tools, in_reasoning)
    events = [*parser.push(text), *parser.finish()]
    assert not parser.broken
    starts = {e.index: e for e in events if isinstance(e, PartStart)}
    assert {start.kind for start in starts.values()} <= {"tool_call", "reasoning"}, text
    texts: dict[int, str] = dict.fromkeys(starts, "")
    for event in events:
        if isinstance(event, PartDelta):
            texts[event.index] += event.text
    return [(s.name, json.loads(texts[i])) for i, s in starts.items() if s.kind == "tool_call"]


@FORMS
@FAMILIES
def test_required_takes_calls_as_the_family_writes_them(name: str, special: bool | None) -> None:
    calls = model(name).calls
    one = ("get_weather", arguments(calls, '{"city": "Paris", "days": 3}'))
    two = written(calls, one, ("now", arguments(calls, "{}")))

    def ok(text: str, **more: Any) -> bool:
        return takes(name, special, begun(name, special, prompt(REQUIRED, **more)), text)

    assert ok(written(calls, one))
    assert ok(written(calls, ("log", arguments(calls, '{"level": "info"}'))))
    assert ok(two) == calls.parallel
    assert not ok(two, parallel_tool_calls=False)
    assert not ok(written(calls, ("unknown", one[1])))
    assert not ok(written(calls, ("get_weather", arguments(calls, '{"days": 3}'))))
    assert not ok(written(calls, ("get_weather", arguments(calls, '{"city": "x", "no": 1}'))))
    assert not ok("It rains.")
    assert not ok("")


@FORMS
@FAMILIES
def test_thinking_may_come_before_a_required_call(name: str, special: bool | None) -> None:
    reasoning = model(name).reasoning
    assert reasoning is not None
    call = written(model(name).calls, ("now", arguments(model(name).calls, "{}")))
    thought = f"I <b think\n{reasoning.close}{reasoning.after}{call}"

    def ok(text: str, in_reasoning: bool, **more: Any) -> bool:
        held = begun(name, special, prompt(REQUIRED, **more), in_reasoning)
        return takes(name, special, held, text)

    assert ok(reasoning.open + thought, False)
    assert ok(call, False)
    assert ok(thought, True)
    assert not ok(call, True)
    assert not ok(reasoning.open + "I think", False)
    assert not ok(reasoning.open + thought, False, thinking=Thinking(enabled=False))


@FORMS
@FAMILIES
def test_named_takes_that_tool_only(name: str, special: bool | None) -> None:
    calls = model(name).calls
    asked = prompt(ToolChoice("named", "now"))
    now = written(calls, ("now", arguments(calls, "{}")))
    log = written(calls, ("log", arguments(calls, '{"level": "info"}')))
    assert takes(name, special, begun(name, special, asked), now)
    assert not takes(name, special, begun(name, special, asked), log)
    twice = written(calls, ("now", arguments(calls, "{}")), ("now", arguments(calls, "{}")))
    assert not takes(name, special, begun(name, special, asked), twice)


@FORMS
@FAMILIES
def test_auto_is_free_until_a_call_begins_and_then_holds_it(
    name: str, special: bool | None
) -> None:
    calls, tokenizer = model(name).calls, vocabulary(name, special)
    said = "" if calls.trigger is None else "Let me look.\n"
    good = written(calls, ("get_weather", arguments(calls, '{"city": "Paris"}')))
    held = begun(name, special, prompt(ToolChoice()))
    assert allowed(held) is None
    assert feed(held, tokenizer, said + good)
    held = begun(name, special, prompt(ToolChoice()))
    bad = written(calls, ("get_weather", arguments(calls, '{"days": 1}')))
    assert not feed(held, tokenizer, said + bad)
    after_a_call = begun(name, special, prompt(ToolChoice(), parallel_tool_calls=False))
    assert feed(after_a_call, tokenizer, said + good)
    assert allowed(after_a_call) == {EOS}


@FORMS
def test_auto_holds_every_call_of_an_answer(special: bool | None) -> None:
    calls, tokenizer = model("hermes").calls, vocabulary("hermes", special)
    held = begun("hermes", special, prompt(ToolChoice()))
    assert feed(held, tokenizer, written(calls, ("now", "{}")) + "\n")
    assert allowed(held) is None
    assert feed(held, tokenizer, written(calls, ("now", "{}")))
    assert not feed(held, tokenizer, "\n" + written(calls, ("nothing", "{}")))


def test_llama3_text_that_only_looks_like_a_call_stays_free_to_be_text() -> None:
    tokenizer = vocabulary("llama3", None)
    for text in ('{"name": "Ada", "age": 36}', '{"name": "get_weather_now"}', "Hi {", '{"a'):
        assert takes("llama3", None, begun("llama3", None, prompt(ToolChoice())), text) or feed(
            begun("llama3", None, prompt(ToolChoice())), tokenizer, text
        )
    held = begun("llama3", None, prompt(ToolChoice()))
    assert not feed(held, tokenizer, '{"name": "get_weather", "parameters": {"x')


def test_llama3_call_may_follow_its_python_tag() -> None:
    held = begun("llama3", True, prompt(ToolChoice()))
    tokenizer = vocabulary("llama3", True)
    assert feed(held, tokenizer, '<|python_tag|>{"name": "get_weather", "parameters": {"')
    assert not feed(held, tokenizer, "days")


def test_without_tools_nothing_is_held() -> None:
    hermes = model("hermes")
    for asked in (
        prompt(ToolChoice(), ()),
        prompt(ToolChoice("none")),
        prompt(ToolChoice("named", "gone")),
    ):
        assert build_constraint(hermes, asked, False, {}) is None


@FAMILIES
@pytest.mark.parametrize("schema", [*SCHEMAS, *BROKEN])
def test_any_answer_that_the_grammar_allows_is_read_as_valid_calls(name: str, schema: str) -> None:
    given = {**SCHEMAS, **BROKEN}[schema]
    tools = (Tool("do", "", given), Tool("do_it", "", {"type": "object", "properties": {}}))
    seed = sum(map(ord, name + schema))
    rnd = random.Random(seed)
    reasoning = model(name).reasoning
    assert reasoning is not None
    ends = ['"', "}", "]", reasoning.close, "\n</parameter>"]
    for special in (None, True):
        found = 0
        for _ in range(3):
            in_reasoning = rnd.random() < 0.5
            held = begun(name, special, prompt(REQUIRED, tools), in_reasoning)
            text = random_answer(held, vocabulary(name, special), rnd, ends)
            if text is None:
                continue
            found += 1
            calls = parsed(name, text, tools, in_reasoning)
            assert calls
            for called, values in calls:
                assert isinstance(values, dict)
                if called == "do" and schema in SCHEMAS:
                    check(name, values, given)
        assert found


def check(name: str, values: dict[str, Any], schema: dict[str, Any]) -> None:
    if name == "qwen3-coder":
        # Bare strings may be anything there: what schemas say of them is not followed.
        assert set(schema.get("required", ())) <= values.keys() <= schema["properties"].keys()
        return
    easier = json.loads(json.dumps(schema).replace("(?!x)", ""))
    jsonschema.Draft202012Validator(
        easier, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    ).validate(values)


def test_many_tools_are_held_to_their_schemas_only_up_to_a_limit() -> None:
    tools = tuple(Tool(f"t{n}", "", {**SCHEMAS["plain"], "title": str(n)}) for n in range(300))
    constraint = built("hermes", None, prompt(REQUIRED, tools))
    assert "city" in rule_of(constraint, 255)
    assert "city" not in rule_of(constraint, 256)


def rule_of(constraint: Constraint, index: int) -> str:
    lines: Sequence[str] = constraint.grammar.splitlines()
    return next(line for line in lines if line.startswith(f"tool_{index}_arguments:"))


def test_names_that_need_escapes_are_written_as_the_family_writes_them() -> None:
    tools = (Tool('say "hi" \\ é\n', "", SCHEMAS["nothing"]),)
    call = '{"name": "say \\"hi\\" \\\\ é\\n", "arguments": {}}'
    held = begun("hermes", None, prompt(REQUIRED, tools))
    assert takes("hermes", None, held, f"<tool_call>\n{call}\n</tool_call>")
    held = begun("mistral-list", None, prompt(REQUIRED, tools))
    assert takes("mistral-list", None, held, f"[TOOL_CALLS][{call}]")
    held = begun("mistral", None, prompt(REQUIRED, tools))
    assert takes("mistral", None, held, f"[TOOL_CALLS]{tools[0].name}[ARGS]{{}}")


def test_markers_are_control_tokens_where_llguidance_takes_them_for_such() -> None:
    for special in (False, True):
        spelled = vocabulary("mistral", special).to_str()
        found = control_ids(spelled, {"[TOOL_CALLS]", "<think>", "nowhere", "hello"})
        assert set(found) == ({"[TOOL_CALLS]", "<think>"} if special else {"<think>"})


def test_thinking_budget_is_the_clients_cap_on_what_the_family_writes() -> None:
    hermes = model("hermes")
    asked = prompt(ToolChoice(), thinking=Thinking(budget=7))
    assert build_thinking_budget(hermes, asked, False) == ThinkingBudget(7, "<think>", "</think>")
    assert build_thinking_budget(hermes, asked, True) == ThinkingBudget(7, None, "</think>")
    assert build_thinking_budget(hermes, prompt(ToolChoice()), True) is None


def test_required_calls_have_an_end() -> None:
    def ok(count: int) -> bool:
        text = written(model("hermes").calls, *[("now", "{}")] * count)
        return takes("hermes", None, begun("hermes", None, prompt(REQUIRED)), text)

    assert ok(16)
    assert not ok(17)
