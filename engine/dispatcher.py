"""The dispatcher: which of the admitted requests the worker has, also after it has died."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from engine.admission import Admission
from engine.answer import Answer

# Where a suspect died that had taken no slot: it is cleared as soon as it has one.
_NOT_BEGUN = -1


class Dispatcher:
    """Hands requests to the worker one by one, so that the order is decided as late as possible.

    The worker has what runs and one request more, which takes the next slot without a round trip.
    Requests that ran when a step or the worker died are suspects: each runs alone until it has come
    further than it was then. So the one to blame dies alone the second time.
    Belongs to the event loop's thread.
    """

    def __init__(self, slots: int, send: Callable[[Answer], None]) -> None:
        self._admission = Admission(slots)
        self._send = send
        self._answers: dict[str, Answer] = {}
        self._sent: Answer | None = None
        self._suspects: deque[Answer] = deque()
        self._suspect: Answer | None = None
        self._retries: deque[Answer] = deque()
        # The tokens that a request had when it was lost.
        self._died_at: dict[str, int] = {}
        self._open = False

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._admission.running)

    @property
    def waiting(self) -> int:
        """Requests admitted that hold no slot."""
        return self._admission.waiting

    @property
    def held_tokens(self) -> int:
        """Tokens that running requests hold in their slots, a prompt's from the start."""
        return sum(a.stats.prompt_tokens + a.tokens for a in self._running())

    @property
    def has_work(self) -> bool:
        """Whether the worker has something to do."""
        return self._sent is not None or self.running > 0

    def answers(self) -> list[Answer]:
        """All admitted requests."""
        return list(self._answers.values())

    def get(self, request_id: str) -> Answer | None:
        """The admitted request with this id."""
        return self._answers.get(request_id)

    def is_running(self, answer: Answer) -> bool:
        """Whether it holds a slot."""
        return answer.request_id in self._admission.running

    def enter(self, answer: Answer) -> None:
        """Admit a request; raises QueueFull."""
        self._admission.enter(answer.request_id, answer.tenant)
        self._answers[answer.request_id] = answer
        self._pump()

    def leave(self, answer: Answer) -> bool:
        """Forget a request; returns whether it was there."""
        if self._answers.pop(answer.request_id, None) is None:
            return False
        self._admission.leave(answer.request_id)
        self._died_at.pop(answer.request_id, None)
        # It may stand in any of these, or in none: a client leaves when it likes.
        for queue in (self._suspects, self._retries):
            if answer in queue:
                queue.remove(answer)
        self._forget_in_worker(answer)
        self._pump()
        return True

    def open(self) -> None:
        """A worker is ready."""
        self._open = True
        self._pump()

    def started(self, answer: Answer) -> None:
        """The request has taken a slot and is in the step that begins now."""
        self._admission.started(answer.request_id)
        if self._sent is answer:
            self._sent = None
        self._pump()

    def advanced(self, answer: Answer) -> None:
        """The request has a token more; a suspect beyond the place where it died is cleared."""
        if answer is self._suspect and answer.tokens > self._died_at[answer.request_id]:
            self._suspect = None
            self._pump()

    def worker_died(self) -> list[Answer]:
        """Close until the next worker is ready; returns the requests that ran and are lost.

        One that was only sent is lost if it was all that the worker had. Otherwise it is a suspect
        too, for it may have died of taking it, but keeps its second attempt.
        """
        self._open = False
        running, sent = self._running(), self._sent
        if sent and not running:
            # It was all that the worker had: reading it may be what killed it.
            return [sent]
        if sent:
            self.withdrawn(sent)
        return running

    def withdrawn(self, answer: Answer) -> None:
        """The worker does not have a request any more that was sent and had not begun."""
        self._died_at[answer.request_id] = _NOT_BEGUN
        self._suspects.append(answer)
        self._forget_in_worker(answer)

    def lost(self, answer: Answer, suspect: bool = True) -> None:
        """An attempt is over without an answer; the request waits for `again` or `leave`.

        It is no `suspect` if it can have harmed nobody but itself. One that was lost alone, as a
        suspect, is to blame and has no further attempt.
        """
        if answer is self._suspect:
            answer.blame()
        if suspect:
            self._died_at[answer.request_id] = answer.tokens
        self._admission.stopped(answer.request_id)
        self._forget_in_worker(answer)

    def again(self, answer: Answer) -> None:
        """Run a lost request again, before all that wait."""
        suspect = answer.request_id in self._died_at
        (self._suspects if suspect else self._retries).append(answer)
        self._pump()

    def _running(self) -> list[Answer]:
        return [self._answers[request_id] for request_id in self._admission.running]

    def _forget_in_worker(self, answer: Answer) -> None:
        if self._sent is answer:
            self._sent = None
        if self._suspect is answer:
            self._suspect = None

    def _pump(self) -> None:
        # Behind a suspect nothing is sent: it must be alone in its steps.
        if self._open and self._sent is None and self._suspect is None:
            self._sent = self._next()
            if self._sent:
                self._send(self._sent)

    def _next(self) -> Answer | None:
        if self._retries and not self._suspects:
            return self._retries.popleft()
        if not self._suspects:
            request_id = self._admission.next()
            return self._answers[request_id] if request_id else None
        if self.running:
            return None  # a suspect waits until it can run alone
        # Those that lost an attempt first: the others would keep them waiting until they end.
        self._suspect = min(self._suspects, key=self._has_not_begun)
        self._suspects.remove(self._suspect)
        return self._suspect

    def _has_not_begun(self, suspect: Answer) -> bool:
        return self._died_at[suspect.request_id] == _NOT_BEGUN
