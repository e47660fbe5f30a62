"""What server and worker say to each other over the pipe: frozen, picklable, torch-free."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.request import SamplingParams

# What the worker does while it starts.
Stage = Literal["compiling", "converting", "loading", "warm-up"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """What part of an answer has to follow a grammar (Lark, as llguidance reads it).

    Without a `trigger` the grammar describes the answer from its first token to its end. With one
    the answer is free until its text spells the trigger; then the grammar describes what follows.
    `at_start` looks for it only where the answer begins. Once the grammar has ended, the answer is
    free again and watched for the next trigger if `repeat`, else it ends.

    Thinking is not watched: it lies between the texts of `thinking`; where the first is None, the
    answer begins with it.
    """

    grammar: str
    trigger: str | None = None
    at_start: bool = False
    repeat: bool = True
    thinking: tuple[str | None, str] | None = None


@dataclass(frozen=True, slots=True)
class ThinkingBudget:
    """Most tokens of the thinking: then `close` is put after it, and the answer goes on.

    Thinking begins where the answer's text spells `open`, or with the answer if that is None.
    """

    tokens: int
    open: str | None
    close: str


@dataclass(frozen=True, slots=True)
class Submit:
    """Server to worker: run this prompt.

    `max_tokens` is resolved: at least 1, and prompt and answer fit the context. Stop strings are
    the text side's business; the worker ends a sequence at an end-of-turn id or `max_tokens`.
    `opening` is the id that begins each of the prompt's messages, if there is one; `behind` is how
    many requests wait at the server for slots after this one.
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    sampling: SamplingParams
    constraint: Constraint | None = None
    thinking: ThinkingBudget | None = None
    tenant: str = ""
    opening: int | None = None
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Cancel:
    """Server to worker: free the request's slot at the next step; unknown ids are ignored."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Server to worker: leave at once."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Worker to server while starting: `done` of `total` (files, bytes or steps)."""

    stage: Stage
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Ready:
    """Worker to server: the model is loaded and warm.

    `tokenizer_json` is the serialized `tokenizers.Tokenizer`; `special_tokens` maps template
    variables such as `bos_token` to their spelling; `eos_token_ids` end an answer. `weight_bytes`
    is what the weights take in device memory, `bits_per_weight` what one of them takes there.
    `dtype` is int8 where weights were rounded. `keeps_prompts` tells whether the prompt cache can
    use host memory. `routed_layers` counts where experts are routed to. `step_seconds` is what the
    longest step of warm-up took. `runtime` names what computes: library versions, the device, the
    forward path, threads. `own_template` tells that the chat template comes with mashbox.
    """

    tokenizer_json: str
    chat_template: str | None
    special_tokens: dict[str, str]
    eos_token_ids: tuple[int, ...]
    weight_bytes: int
    bits_per_weight: float
    device: str
    dtype: str
    runtime: dict[str, str] = field(default_factory=dict)
    keeps_prompts: bool = True
    routed_layers: int = 0
    step_seconds: float = 0.0
    own_template: bool = False


# Without slots, as is StepOutput: there is one for each token, and slots are pickled in Python.
@dataclass(frozen=True)
class SequenceOutput:
    """What one step gave one request.

    The first output of a request carries `started_at`, when it took its slot, and no token: it
    comes before the step. An end-of-turn id is not among `token_ids`, but `completion_tokens`
    (all so far) counts it. Of `draft_tokens` that were guessed in this step `accepted_tokens` were
    right.
    """

    request_id: str
    token_ids: tuple[int, ...]
    completion_tokens: int
    finish: Literal["stop", "length"] | None = None
    started_at: float | None = None
    cached_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0


@dataclass(frozen=True, slots=True)
class HostCacheUse:
    """What the prompt cache holds in host memory, and how much of it had to go.

    `point_bytes` is the part of `nbytes` that saved states take.
    """

    nbytes: int = 0
    point_bytes: int = 0
    evictions: int = 0


@dataclass(frozen=True)
class StepOutput:
    """Worker to server, for each step; times are `time.monotonic()` seconds in both processes.

    The step computed `tokens` tokens, of a prompt, of answers and guessed ones; 0 before it.
    `compiles` counts the programs that were made since the last step, or since Ready. `host_cache`
    is there when it may have changed.
    """

    at: float
    outputs: tuple[SequenceOutput, ...]
    tokens: int = 0
    compiles: int = 0
    host_cache: HostCacheUse | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Worker to server: these requests failed; the worker and all others live.

    `together` tells that any of them may have failed the others. Then the worker has also
    forgotten those that had not begun, which are `withdrawn`.
    """

    message: str
    request_ids: tuple[str, ...]
    together: bool = False
    withdrawn: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartFailed:
    """Worker to server: the model cannot be loaded; the process ends."""

    message: str


@dataclass(frozen=True, slots=True)
class Warned:
    """Worker to server: something that the log should tell."""

    message: str


ToWorker = Submit | Cancel | Shutdown
FromWorker = Progress | Ready | StepOutput | Failed | StartFailed | Warned
