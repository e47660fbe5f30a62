"""The engine of a scripted model: what of its script is played in the server process."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import NoReturn

from engine.admission import MAX_WAITING, MAX_WAITING_PER_TENANT
from engine.answer import Answer
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import (
    BadPrompt,
    ConnectionCut,
    ContextOverflow,
    EngineError,
    NotReady,
    QueueFull,
)
from engine.events import Event, Finished, PartDelta, Started, Usage
from engine.request import ChatPrompt, GenerationRequest, Role, TextPrompt
from engine.script import Counts, Refusal, ScriptedAnswer, Situation
from engine.script_reader import DirectiveError, read_directives, read_script
from engine.supervisor import StartWorker
from engine.worker_process import WorkerProcess


class MockEngine(Engine):
    """Refuses requests, counts tokens otherwise and breaks streams, where the script says so.

    All else is its worker's part, which chooses the same answer for a request by itself.
    """

    def __init__(self, config: EngineConfig, start_worker: StartWorker = WorkerProcess) -> None:
        super().__init__(config, start_worker)
        self._script = read_script(config.model.path)
        self._refused: Counter[str] = Counter()

    async def generate(self, request: GenerationRequest) -> Answer:
        """Admit a request; also raises BadPrompt for a directive that is none."""
        try:
            directives = read_directives(_user_text(request.prompt))
        except DirectiveError as error:
            refusal = BadPrompt(f"{request.prompt_field}: {error}")
            refusal.field = request.prompt_field
            raise refusal from None
        answer = self._script.choose(situation_of(request.prompt), directives)
        if answer.refuse and self._is_refused(answer, answer.refuse):
            _refuse(answer.refuse, request, self.config.ctx)
        running = await super().generate(request)
        running.edit = _Edit(answer)
        return running

    def _is_refused(self, answer: ScriptedAnswer, refusal: Refusal) -> bool:
        # The text of an answer stands for it: one with arguments has no hash.
        seen = self._refused[repr(answer)]
        self._refused[repr(answer)] += 1
        return refusal.times is None or seen % (refusal.times + 1) < refusal.times


class _Edit:
    """Changes the events of one answer; raises at the piece of text where the script breaks it."""

    def __init__(self, answer: ScriptedAnswer) -> None:
        self._answer = answer
        self._counts = {k: n for k, n in asdict(answer.usage or Counts()).items() if n is not None}
        self._pieces = 0

    def __call__(self, event: Event) -> Event:
        match event:
            case Started():
                told = self._told(Usage(event.prompt_tokens, event.cached_tokens, 1))
                return replace(
                    event, prompt_tokens=told.prompt_tokens, cached_tokens=told.cached_tokens
                )
            case PartDelta():
                self._break()
                self._pieces += 1
            case Finished():
                self._break()
                return replace(event, usage=self._told(event.usage))
        return event

    def _told(self, usage: Usage) -> Usage:
        told = replace(usage, **self._counts)
        # A part is never more than the whole, whichever of them the script gives.
        return replace(
            told,
            cached_tokens=min(told.cached_tokens, told.prompt_tokens),
            reasoning_tokens=min(told.reasoning_tokens, told.completion_tokens),
        )

    def _break(self) -> None:
        if self._pieces == self._answer.error_at:
            raise EngineError("the script ends the answer in an error.")
        if self._pieces == self._answer.cut_at:
            raise ConnectionCut


def _refuse(refusal: Refusal, request: GenerationRequest, ctx: int) -> NoReturn:
    """Raise what a real server would raise."""
    match refusal.kind:
        case "rate_limit":
            text = f"{MAX_WAITING_PER_TENANT} of your requests are waiting already; retry later."
            raise QueueFull(text, refusal.retry_after, tenant_limit=True)
        case "overloaded":
            text = f"The queue is full ({MAX_WAITING} requests are waiting); retry later."
            raise QueueFull(text, refusal.retry_after, tenant_limit=False)
        case "loading":
            raise NotReady("The model is still loading; retry later.", refusal.retry_after)
        case "context_length":
            overflow = ContextOverflow(ctx, ctx - 1)
            overflow.field = request.prompt_field
            raise overflow
    raise EngineError("the script refuses the request.")


def _user_text(prompt: ChatPrompt | TextPrompt) -> str:
    if isinstance(prompt, TextPrompt):
        return prompt.text
    return next((m.content for m in reversed(prompt.messages) if m.role == "user"), "")


def situation_of(prompt: ChatPrompt | TextPrompt) -> Situation:
    """Describe a request as the worker does, which reads it back from the ids."""
    text = _user_text(prompt)
    if isinstance(prompt, TextPrompt):
        return Situation(text, after_tool_result=False, tools=False)
    roles = [message.role for message in prompt.messages]
    if roles[-1:] == ["assistant"]:
        roles.pop()  # The answer continues it.
    return Situation(
        text,
        after_tool_result="tool" in _after(roles, "assistant"),
        tools=bool(prompt.tools) and prompt.tool_choice.mode != "none",
        turn=_after(roles, "user").count("assistant"),
    )


def _after(roles: list[Role], role: Role) -> list[Role]:
    """Return the roles behind the last message of `role`, all where there is none."""
    return roles[len(roles) - roles[::-1].index(role) :] if role in roles else roles
