from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine.answer import Answer
from engine.errors import (
    BadPrompt,
    ConnectionCut,
    ContextOverflow,
    EngineError,
    NotReady,
    QueueFull,
)
from engine.events import Event, Finished, PartDelta, Started
from engine.messages import SequenceOutput, StepOutput
from engine.mock import MockEngine, situation_of
from engine.request import (
    ChatPrompt,
    GenerationRequest,
    Message,
    SamplingParams,
    TextPrompt,
    Tool,
    ToolCall,
    ToolChoice,
)
from engine.scripted import load_scripted
from engine.scripted_prompt import PromptReader
from engine.text_side import TextSide
from tests.engine.fake_worker import FakeWorkers, settle
from tests.engine.scripted_model import TOKENIZER, config

TEXT = "Hello you there"
HELLO: dict[str, Any] = {"parts": [{"text": TEXT}]}


class Stage:
    """The engine and a worker that gives TEXT to whoever asks."""

    def __init__(self, folder: Path, *answers: dict[str, Any]) -> None:
        self._config = config(folder, *answers)
        self._workers = FakeWorkers()
        self.engine = MockEngine(self._config, self._workers)
        self._count = 0

    async def load(self) -> Stage:
        starting = asyncio.create_task(self.engine.start())
        await settle()
        self._workers[-1].say(load_scripted(self._config)[1])
        await starting
        return self

    async def begin(self, text: str, field: str = "messages") -> Answer:
        self._count += 1
        prompt = ChatPrompt((Message("user", text),))
        request = GenerationRequest(str(self._count), prompt, SamplingParams(), prompt_field=field)
        return await self.engine.generate(request)

    async def ask(self, text: str) -> list[Event]:
        """Ask, and return the events; raises what ends them."""
        answer = await self.begin(text)
        ids = TOKENIZER.encode(TEXT).ids
        name, steps = answer.request_id, [*enumerate(ids, 1)]
        say = self._workers[-1].say
        say(StepOutput(1.0, (SequenceOutput(name, (), 0, started_at=0.5),)))
        for count, token_id in steps:
            last = "stop" if count == len(ids) else None
            say(StepOutput(1.0, (SequenceOutput(name, (token_id,), count, finish=last),)))
        self.events: list[Event] = []
        async for event in answer:
            self.events.append(event)
        return self.events


def directive(**answer: Any) -> str:
    return "Hi\n#!mock " + json.dumps(answer) + "\nThank you."


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("rate_limit", QueueFull),
        ("overloaded", QueueFull),
        ("loading", NotReady),
        ("context_length", ContextOverflow),
        ("failed", EngineError),
    ],
)
async def test_a_request_is_refused_as_a_real_server_would(
    tmp_path: Path, kind: str, error: type[EngineError]
) -> None:
    stage = await Stage(tmp_path, HELLO).load()
    with pytest.raises(error) as refused:
        await stage.begin(directive(refuse={"kind": kind, "retry_after": 7}))
    if isinstance(refused.value, QueueFull):
        assert refused.value.tenant_limit is (kind == "rate_limit")
    if isinstance(refused.value, QueueFull | NotReady):
        assert refused.value.retry_after == 7
    if isinstance(refused.value, ContextOverflow):
        ctx = stage.engine.config.ctx
        assert str(refused.value) == f"prompt is too long: {ctx} tokens > {ctx - 1} maximum"


async def test_a_refusal_can_pass_after_some_times_and_comes_again(tmp_path: Path) -> None:
    refuse = {"match": {"user": "busy"}, "refuse": {"kind": "overloaded", "times": 2}}
    stage = await Stage(tmp_path, {**HELLO, **refuse}, HELLO).load()
    passed = []
    for _ in range(6):
        try:
            await stage.ask("busy")
            passed.append(True)
        except QueueFull:
            passed.append(False)
    assert passed == [False, False, True] * 2


async def test_clients_are_told_the_scripts_token_counts(tmp_path: Path) -> None:
    stage = await Stage(tmp_path, HELLO).load()
    counts = {"prompt_tokens": 900, "cached_tokens": 800, "completion_tokens": 70}
    started, *_, finished = await stage.ask(directive(**HELLO, usage=counts))
    assert isinstance(started, Started)
    assert isinstance(finished, Finished)
    assert (started.prompt_tokens, started.cached_tokens) == (900, 800)
    usage = finished.usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (900, 800, 70)


async def test_a_part_of_the_tokens_is_never_more_than_the_whole(tmp_path: Path) -> None:
    stage = await Stage(tmp_path, HELLO).load()
    counts = {"cached_tokens": 10**6, "reasoning_tokens": 10**6}
    finished = (await stage.ask(directive(**HELLO, usage=counts)))[-1]
    assert isinstance(finished, Finished)
    assert finished.usage.cached_tokens == finished.usage.prompt_tokens
    assert finished.usage.reasoning_tokens == finished.usage.completion_tokens


@pytest.mark.parametrize(("field", "error"), [("error_at", EngineError), ("cut_at", ConnectionCut)])
async def test_an_answer_breaks_at_its_piece_of_text(
    tmp_path: Path, field: str, error: type[Exception]
) -> None:
    stage = await Stage(tmp_path, HELLO).load()
    with pytest.raises(error):
        await stage.ask(directive(**HELLO, **{field: 2}))
    pieces = [event.text for event in stage.events if isinstance(event, PartDelta)]
    assert len(pieces) == 2
    assert TEXT.startswith("".join(pieces))


@pytest.mark.parametrize(("field", "error"), [("error_at", EngineError), ("cut_at", ConnectionCut)])
async def test_an_answer_can_break_behind_its_last_piece_of_text(
    tmp_path: Path, field: str, error: type[Exception]
) -> None:
    stage = await Stage(tmp_path, HELLO).load()
    pieces = [e for e in await stage.ask(directive(**HELLO)) if isinstance(e, PartDelta)]
    with pytest.raises(error):
        await stage.ask(directive(**HELLO, **{field: len(pieces)}))
    assert sum(isinstance(event, PartDelta) for event in stage.events) == len(pieces)


async def test_a_wrong_directive_blames_the_prompts_field(tmp_path: Path) -> None:
    stage = await Stage(tmp_path, HELLO).load()
    with pytest.raises(BadPrompt, match=r'^input: #!mock has no field "text"') as refused:
        await stage.begin('#!mock {"text": "Hi"}', field="input")
    assert refused.value.field == "input"


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> TextSide:
    return TextSide.of(load_scripted(config(tmp_path_factory.mktemp("mock"), HELLO))[1])


USER, LATER = Message("user", "First"), Message("user", "Two\nlines")
CALL = Message("assistant", "", tool_calls=(ToolCall("1", "f", {}),))
RESULT = Message("tool", "sunny", tool_call_id="1")
SAID, SYSTEM = Message("assistant", "Sunny."), Message("system", "Be brief.")


@pytest.mark.parametrize(
    "messages",
    [
        (USER,),
        (SYSTEM, USER),
        (USER, CALL, RESULT),
        (USER, CALL, RESULT, CALL, RESULT, RESULT),
        (USER, CALL, RESULT, LATER),
        (USER, CALL, RESULT, SAID, LATER),
        (USER, SAID),
        (CALL, RESULT),
    ],
)
@pytest.mark.parametrize("choice", ["auto", "none"])
def test_server_and_worker_see_the_same_request(
    mock: TextSide, messages: tuple[Message, ...], choice: Any
) -> None:
    prompt = ChatPrompt(messages, (Tool("f"),), ToolChoice(choice))
    ids = mock.prepare(prompt, 4096).encoded.ids
    read, seen = PromptReader(TOKENIZER).read(ids), situation_of(prompt)
    if seen.user:
        assert read.user == seen.user
    assert read.turn == seen.turn
    assert read.after_tool_result == seen.after_tool_result
    assert bool(read.tools) == seen.tools


def test_a_text_to_continue_is_what_the_user_says() -> None:
    assert situation_of(TextPrompt("One")).user == "One"
