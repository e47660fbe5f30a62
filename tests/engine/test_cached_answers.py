"""The prompt cache over real runners: what it gives is what would have been computed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from engine.config import EngineConfig, ModelSource
from engine.messages import Submit
from engine.model_runner import TransformersRunner
from engine.request import SamplingParams
from engine.scheduler import Scheduler
from tests.engine.tiny_models import CONFIGS, VOCAB, tiny_model

CTX = 256
GREEDY = SamplingParams()


def config(cache_ram: int) -> EngineConfig:
    source = ModelSource("tiny", Path("tiny"))
    return EngineConfig(source, ctx=CTX, slots=3, prefill_chunk=16, cache_ram=cache_ram)


class Server:
    """A scheduler over a runner; counts the prompt tokens that were not computed again."""

    def __init__(self, name: str, cache_ram: int) -> None:
        self.runner = TransformersRunner(tiny_model(name), config(cache_ram))
        self.scheduler = Scheduler(config(cache_ram), (), VOCAB, self.runner)
        self.cached = 0

    def answer(self, requests: list[Submit]) -> list[list[int]]:
        got: dict[str, list[int]] = {request.request_id: [] for request in requests}
        for request in requests:
            self.scheduler.submit(request)
        while self.scheduler.has_work:
            batch = self.scheduler.schedule(0.0)
            self.cached += sum(started.cached_tokens for started in self.scheduler.take_started())
            for output in self.scheduler.postprocess(batch, self.runner.run(batch)):
                got[output.request_id] += output.token_ids
        return list(got.values())


class Talks:
    """Conversations that begin alike in part, grow, are edited, and belong to two tenants."""

    def __init__(self, seed: int) -> None:
        self.rnd = random.Random(seed)
        system = self.words(40)
        self.talks = [[*system, *self.words(9)] if n % 2 else self.words(12) for n in range(6)]

    def words(self, count: int) -> list[int]:
        return [self.rnd.randrange(1, VOCAB) for _ in range(count)]

    def next(self) -> list[int]:
        """Pick some that go on next, three at most, and let them."""
        picked = self.rnd.sample(range(len(self.talks)), self.rnd.randrange(1, 4))
        for number in picked:
            talk = self.talks[number]
            if len(talk) > CTX - 60 or self.rnd.random() < 0.15:
                del talk[self.rnd.randrange(10, len(talk)) :]
            talk += self.words(self.rnd.randrange(1, 20))
        return picked

    def submits(self, picked: list[int]) -> list[Submit]:
        return [
            Submit(str(n), tuple(self.talks[n]), 4 + n, GREEDY, tenant="ab"[n % 2], opening=5)
            for n in picked
        ]


def bytes_a_token(name: str) -> int:
    server = Server(name, 0)
    server.answer([Submit("warm", (1, 2), 1, GREEDY)])
    return server.runner.save(0, 0, 1).nbytes if server.runner.movable else 1


def state_bytes(name: str) -> int:
    server = Server(name, 0)
    server.answer([Submit("warm", (1, 2), 1, GREEDY)])
    runner = server.runner
    return runner.save_state(0).nbytes if runner.movable and not runner.cuttable else 0


@torch.inference_mode()
def likeliest(model: PreTrainedModel, prompt: list[int], answer: list[int]) -> list[int]:
    """What the class puts after the prompt and after each token of the answer, in one pass."""
    ids = torch.tensor([prompt + answer[:-1]])
    logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 :]
    ids_after: list[int] = logits.argmax(-1).tolist()
    return ids_after


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_interleaved_conversations_with_evictions_are_answered_as_without_a_cache(
    name: str,
) -> None:
    # Room for 200 tokens, far fewer than the conversations have, and for six states.
    room = 200 * bytes_a_token(name) + 6 * state_bytes(name)
    server, talks = Server(name, room), Talks(seed=1)
    model = tiny_model(name)
    for _ in range(25 if server.runner.cuttable else 15):
        picked = talks.next()
        answers = server.answer(talks.submits(picked))
        for number, answer in zip(picked, answers, strict=True):
            assert len(answer) == 4 + number
            assert answer == likeliest(model, talks.talks[number], answer), number
            talks.talks[number] += answer[:-1] if talks.rnd.random() < 0.8 else [5]
    assert server.cached > 100
    assert (server.scheduler.host_cache.evictions > 0) == server.runner.movable
