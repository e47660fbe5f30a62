"""A worker's memory stays where it is, however many requests it has answered."""

from __future__ import annotations

import queue
import random
from pathlib import Path

import psutil

from engine.config import EngineConfig, ModelSource
from engine.messages import Failed, FromWorker, Shutdown, StepOutput, Submit
from engine.model_runner import TransformersRunner
from engine.request import SamplingParams
from engine.scheduler import Scheduler
from engine.worker import Inbox, Worker
from tests.engine.tiny_models import VOCAB, tiny_model

REQUESTS = 2000
CONFIG = EngineConfig(
    ModelSource("tiny", Path("tiny")), ctx=96, slots=4, prefill_chunk=64, cache_ram=300_000
)
# In 1,000 requests, so 4 kB for each.
MOST_GROWTH = 4 << 20


class Clients:
    """Keeps six requests under way, each time a new one for one that has ended."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._random = random.Random(3)
        self.asked = self.ended = self.guessed = self.cached = 0
        self.resident: list[int] = []
        for _ in range(6):
            self._ask()

    def _ask(self) -> None:
        rnd = self._random
        # Of few tokens, so that there is something to guess; their beginnings come again.
        opening = [rnd.randrange(1, 7)] * 16
        prompt = opening + [rnd.randrange(1, 9) for _ in range(rnd.randrange(1, 40))]
        sampling = SamplingParams(temperature=rnd.choice([0.0, 0.0, 0.9]), seed=self.asked)
        tenant = f"tenant {self.asked % 3}"
        name = f"request {self.asked}"
        self._inbox.put(Submit(name, tuple(prompt), rnd.randrange(1, 8), sampling, tenant=tenant))
        self.asked += 1

    def send(self, message: FromWorker, /) -> None:
        assert not isinstance(message, Failed), message
        if not isinstance(message, StepOutput):
            return
        for output in message.outputs:
            self.guessed += output.accepted_tokens
            self.cached += output.cached_tokens
            if output.finish:
                self._end()

    def _end(self) -> None:
        self.ended += 1
        self.resident.append(psutil.Process().memory_info().rss)
        if self.asked < REQUESTS:
            self._ask()
        elif self.ended == REQUESTS:
            self._inbox.put(Shutdown())


def test_two_thousand_requests_leave_no_memory_behind() -> None:
    inbox: Inbox = queue.SimpleQueue()
    clients = Clients(inbox)
    runner = TransformersRunner(tiny_model("llama"), CONFIG)
    scheduler = Scheduler(CONFIG, (3,), VOCAB, runner, guesses=runner.checks_guesses)
    Worker(inbox, clients, scheduler, runner).serve()
    assert clients.guessed > 10
    assert clients.cached > 5_000
    assert scheduler.host_cache.evictions > 500
    half = REQUESTS // 2
    growth = max(clients.resident[half:]) - max(clients.resident[:half])
    assert growth < MOST_GROWTH, f"{growth / 1e6:.1f} MB more in the second half"
