"""A model that follows a script instead of weights: a runner for the scheduler, without torch."""

from __future__ import annotations

import os
import signal
import threading
import time
from importlib.resources import files

import tokenizers

from engine.batch import Batch, PrefillChunk
from engine.config import EngineConfig
from engine.host_cache import Payload
from engine.messages import Ready
from engine.model_format import detect_format
from engine.script import Script, ScriptedAnswer, Situation
from engine.script_reader import read_directives, read_script
from engine.scripted_prompt import PromptReader
from engine.scripted_reply import Reply
from engine.scripted_tokenizer import END_OF_TURN, tokenizer_json
from engine.scripted_writer import Writer

_PACKAGE = files("engine")


def load_scripted(config: EngineConfig) -> tuple[ScriptedRunner, Ready]:
    """Build the runner of `config.model`; raises ModelError when its script is wrong."""
    template = (_PACKAGE / "scripted.jinja").read_text("utf-8")
    spelled = tokenizer_json()
    tokenizer = tokenizers.Tokenizer.from_str(spelled)
    ready = Ready(
        tokenizer_json=spelled,
        chat_template=template,
        special_tokens={"eos_token": END_OF_TURN},
        eos_token_ids=(tokenizer.get_vocab()[END_OF_TURN],),
        weight_bytes=0,
        bits_per_weight=0.0,
        device="cpu",
        dtype="none",
        runtime={"forward": "ScriptedRunner"},
        own_template=True,
    )
    writer = Writer(tokenizer, detect_format(template, config.tool_format))
    script = read_script(config.model.path)
    return ScriptedRunner(script, tokenizer, writer, config.restarts), ready


class ScriptedRunner:
    """Gives each sequence the next id of its answer; a step takes its slowest row's delay."""

    def __init__(
        self, script: Script, tokenizer: tokenizers.Tokenizer, writer: Writer, restarts: int
    ) -> None:
        self._script = script
        self._reader = PromptReader(tokenizer)
        self._writer = writer
        self._restarts = restarts
        self._requests = 0
        self._end = tokenizer.get_vocab()[END_OF_TURN]
        self._replies: dict[int, Reply] = {}  # by slot
        self.vocab_size: int = tokenizer.get_vocab_size()

    # Its slots hold nothing, so any part of one is as good as any other.
    movable = cuttable = True
    checks_guesses = False

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """A scripted slot holds nothing."""

    def save(self, slot: int, start: int, end: int) -> memoryview:
        """Give as many bytes as the tokens' ids have."""
        return memoryview(bytes(4 * (end - start)))

    def load(self, slot: int, start: int, payload: Payload) -> None:
        """A scripted slot holds nothing."""

    def save_state(self, slot: int) -> memoryview:
        """A scripted slot has no state."""
        return memoryview(b"")

    def load_state(self, slot: int, payload: Payload) -> None:
        """A scripted slot has no state."""

    def run(self, batch: Batch) -> list[int]:
        """Return one id for each of `batch.sampled`, or break as the script says."""
        if batch.prefill and batch.prefill.is_last:
            self._replies[batch.prefill.slot] = self._begin(batch.prefill)
        rows = [(self._replies[s.slot or 0], s) for s in batch.sampled]
        time.sleep(max((_delay(r.answer, len(s.answer_ids)) for r, s in rows), default=0))
        for reply, sequence in rows:
            _break(reply.answer, len(sequence.answer_ids))
        return [
            reply.next_id(s.answer_ids, s.constraint.mask() if s.constraint else None)
            for reply, s in rows
        ]

    def _begin(self, prefill: PrefillChunk) -> Reply:
        prompt = self._reader.read(prefill.sequence.prompt_ids)
        self._requests += 1
        situation = Situation(
            user=prompt.user,
            after_tool_result=prompt.after_tool_result,
            tools=bool(prompt.tools),
            turn=prompt.turn,
            request=self._requests,
            restarts=self._restarts,
        )
        answer = self._script.choose(situation, read_directives(prompt.user))
        return Reply(answer, prompt, self._writer, self._end)


def _delay(answer: ScriptedAnswer, position: int) -> float:
    """Seconds before the token at `position`."""
    return (answer.token_delay_ms if position else answer.first_delay_ms) / 1000


def _break(answer: ScriptedAnswer, position: int) -> None:
    if answer.crash_at == position:
        os.kill(os.getpid(), signal.SIGKILL)
    if answer.hang_at == position:
        threading.Event().wait()
    if answer.raise_at == position:
        raise RuntimeError("the script lets this step fail")
