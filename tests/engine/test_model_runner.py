from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from engine.batch import Batch, OutOfMemory, PrefillChunk, RequestFailed
from engine.config import EngineConfig, ModelSource
from engine.forward import LeanForward, SequenceForward, SlotForward
from engine.hybrid_forward import HybridForward
from engine.messages import Ready, Submit
from engine.model_runner import TransformersRunner, use_threads
from engine.request import SamplingParams
from engine.scheduler import Scheduler
from engine.slot import Sequence as TokenSequence
from engine.slot import SequenceStatus
from tests.engine.tiny_models import CONFIGS, VOCAB, generate, tiny_model

LEAN = ["llama", "qwen2", "qwen3", "mistral"]
BATCHED = ["gemma2", "gemma3", "gpt_oss", "qwen3_moe", "gpt2", "opt"]
HYBRID = [
    *("qwen3_next", "qwen3_5", "qwen3_5_moe", "olmo_hybrid", "lfm2", "lfm2_moe"),
    *("granite_hybrid", "falcon_h1", "nemotron_h", "bamba", "jamba", "mamba", "mamba2"),
]
PATHS: dict[str, type] = {
    **dict.fromkeys(LEAN, LeanForward),
    **dict.fromkeys(BATCHED, SlotForward),
    **dict.fromkeys(HYBRID, HybridForward),
    "bloom": SequenceForward,
}
NAMES = list(PATHS)
LOADED = Ready("", None, {}, (), 0, 4.5, device="", dtype="float32")


def config(slots: int = 4, prefill_chunk: int = 5) -> EngineConfig:
    source = ModelSource("tiny", Path("tiny"))
    return EngineConfig(source, ctx=128, slots=slots, prefill_chunk=prefill_chunk)


def answers(
    runner: TransformersRunner, settings: EngineConfig, requests: Sequence[Submit]
) -> dict[str, list[int]]:
    scheduler = Scheduler(settings, (), runner.vocab_size, runner)
    got: dict[str, list[int]] = {request.request_id: [] for request in requests}
    for request in requests:
        scheduler.submit(request)
    while scheduler.has_work:
        batch = scheduler.schedule(0.0)
        for output in scheduler.postprocess(batch, runner.run(batch)):
            got[output.request_id] += output.token_ids
    return got


def mixed_requests(sampling: SamplingParams, count: int = 8) -> list[Submit]:
    rnd = random.Random(3)
    lengths = [(rnd.randint(1, 30), rnd.randint(1, 25)) for _ in range(count)]
    prompts = [tuple(rnd.randrange(1, VOCAB) for _ in range(prompt)) for prompt, _ in lengths]
    return [
        Submit(str(i), prompt, answer, sampling)
        for i, (prompt, (_, answer)) in enumerate(zip(prompts, lengths, strict=True))
    ]


def test_every_tiny_model_is_tried() -> None:
    assert sorted(NAMES) == sorted(CONFIGS)


def test_the_runtime_names_what_computes() -> None:
    runtime = TransformersRunner(tiny_model("llama"), config()).runtime()
    assert runtime["torch"] == torch.__version__
    assert runtime["forward"] == "LeanForward"
    assert runtime["threads"] == str(torch.get_num_threads())


def test_the_runtime_can_be_read_without_torch() -> None:
    runtime = TransformersRunner(tiny_model("llama"), config()).runtime()
    assert {type(value) for value in runtime.values()} == {str}


@pytest.mark.parametrize("name", NAMES)
def test_path_is_batched_where_the_class_allows_it(name: str) -> None:
    assert type(TransformersRunner(tiny_model(name), config()).forward) is PATHS[name]


@pytest.mark.parametrize("name", NAMES)
def test_greedy_answers_of_mixed_requests_equal_generate(name: str) -> None:
    requests = mixed_requests(SamplingParams())
    model = tiny_model(name)
    expected = {r.request_id: generate(model, list(r.prompt_ids), r.max_tokens) for r in requests}
    runner = TransformersRunner(tiny_model(name), config())
    assert answers(runner, config(), requests) == expected


@pytest.mark.parametrize("name", NAMES)
def test_greedy_answer_alone_equals_generate(name: str) -> None:
    request = mixed_requests(SamplingParams())[3]
    expected = generate(tiny_model(name), list(request.prompt_ids), request.max_tokens)
    runner = TransformersRunner(tiny_model(name), config())
    assert answers(runner, config(), [request]) == {request.request_id: expected}


@pytest.mark.parametrize("name", NAMES)
@torch.inference_mode()
def test_logits_of_chunked_prefill_equal_whole_prefill(name: str) -> None:
    model = tiny_model(name)
    prompt = list(range(3, 40))
    expected = model(input_ids=torch.tensor([prompt])).logits[:, -1]
    forward = TransformersRunner(model, config()).forward
    for start in range(0, len(prompt), 7):
        logits = forward.prefill(2, prompt[start : start + 7], start)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["llama", "qwen3_next"])
def test_sampled_text_does_not_depend_on_batch_mates_or_slot(name: str) -> None:
    sampling = SamplingParams(temperature=1.0, top_p=0.9, seed=2**64 - 1, frequency_penalty=0.5)
    runner = TransformersRunner(tiny_model(name), config())
    requests = mixed_requests(sampling)
    together = answers(runner, config(), requests)
    alone = [answers(runner, config(), [request]) for request in requests]
    assert together == {k: v for answer in alone for k, v in answer.items()}


@torch.inference_mode()
def test_rows_of_scattered_slots_are_returned_in_the_order_asked() -> None:
    model = tiny_model("llama")
    forward = SlotForward(model, slots=6, ctx=64)
    prompts = {slot: [slot + 1, 5, 9][: 1 + slot % 3] for slot in (0, 2, 3, 5)}
    for slot, prompt in prompts.items():
        forward.prefill(slot, prompt, 0)
    for slots in ([5, 0, 3], [2, 5], [3, 2, 0, 5]):
        logits = forward.decode(slots, [[7]] * len(slots), [len(prompts[s]) for s in slots])
        for slot, row in zip(slots, logits, strict=True):
            alone = model(input_ids=torch.tensor([[*prompts[slot], 7]])).logits[0, -1]
            torch.testing.assert_close(row, alone, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", LEAN + BATCHED)
@torch.inference_mode()
def test_rows_of_several_tokens_are_each_as_they_are_alone(name: str) -> None:
    settings = config(slots=6)
    alone, together = (TransformersRunner(tiny_model(name), settings).forward for _ in range(2))
    prompts = {slot: list(range(1 + slot, 4 + 9 * slot)) for slot in (0, 2, 3, 5)}
    for slot, prompt in prompts.items():
        alone.prefill(slot, prompt, 0)
        together.prefill(slot, prompt, 0)
    for slots in ([5, 0, 3], [2, 5], [3], [3, 2, 0, 5]):
        rows = [list(range(7, 8 + (slot + len(slots)) % 4)) for slot in slots]
        starts = [len(prompts[slot]) for slot in slots]
        expected = [
            alone.decode([slot], [[token_id]], [start + i])
            for slot, row, start in zip(slots, rows, starts, strict=True)
            for i, token_id in enumerate(row)
        ]
        got = together.decode(slots, rows, starts)
        torch.testing.assert_close(got, torch.cat(expected), atol=1e-4, rtol=1e-4)
    # What shorter rows were padded with changed nothing that follows.
    after = [forward.decode([0], [[9]], [len(prompts[0]) + 1]) for forward in (alone, together)]
    torch.testing.assert_close(*after, atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_padded_row_that_ends_with_its_slot_stays_in_it() -> None:
    forward = SlotForward(tiny_model("llama"), slots=2, ctx=64)
    for slot, tokens in enumerate((63, 20)):
        forward.prefill(slot, list(range(1, 1 + tokens)), 0)
    alone = forward.decode([0], [[7]], [63])
    together = forward.decode([0, 1], [[7], [5, 6, 7]], [63, 20])
    torch.testing.assert_close(together[:1], alone, atol=1e-4, rtol=1e-4)


def test_noise_is_drawn_for_the_position_of_the_new_token(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = TransformersRunner(tiny_model("llama"), config())
    asked: list[Sequence[int]] = []

    def sample(
        logits: torch.Tensor, slots: Sequence[int], at: Sequence[int], masks: object
    ) -> torch.Tensor:
        asked.append(at)
        return logits.argmax(-1)

    monkeypatch.setattr(runner._sampler, "sample", sample)
    answers(runner, config(), [Submit("a", (1, 2, 3), 4, SamplingParams())])
    assert asked == [[3], [4], [5], [6]]


def test_warm_up_reports_each_step_and_leaves_no_trace() -> None:
    runner = TransformersRunner(tiny_model("llama"), config())
    steps: list[tuple[int, int]] = []
    runner.warm_up(lambda done, total: steps.append((done, total)))
    request = mixed_requests(SamplingParams())[0]
    assert steps == [(1, 3), (2, 3), (3, 3)]
    expected = generate(tiny_model("llama"), list(request.prompt_ids), request.max_tokens)
    assert answers(runner, config(), [request]) == {request.request_id: expected}


def test_warm_up_remembers_its_longest_step(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = TransformersRunner(tiny_model("llama"), config())
    clock = iter([0.0, 2.0, 10.0, 15.0, 20.0, 21.0])
    fake = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr("engine.model_runner.time", fake)
    runner.warm_up(lambda done, total: None)
    assert runner.describe(LOADED).step_seconds == 5.0


def test_failing_prefill_blames_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = TransformersRunner(tiny_model("llama"), config())

    def out_of_memory(*_: object) -> torch.Tensor:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(runner.forward, "prefill", out_of_memory)
    sequence = TokenSequence("a", (1, 2), 3, SamplingParams())
    with pytest.raises(RequestFailed, match="out of memory") as caught:
        runner.run(Batch(PrefillChunk(sequence, 0, 0, 2), ()))
    assert caught.value.request_id == "a"


def test_thread_count_is_set_only_when_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    use_threads(0)
    use_threads(3)
    assert asked == [3]


# What torch says on an accelerator, on the CPU, and what Python says.
NO_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate"
    ),
    MemoryError(),
]


def failing_once(runner: TransformersRunner, error: Exception, call: int) -> None:
    """Let the model's n-th call fail after half of its layers."""
    assert isinstance(runner.forward, LeanForward)
    layer = runner.forward.model.layers[1].gate_up
    calls = 0

    def hook(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise error

    layer.register_forward_pre_hook(hook)


@pytest.mark.parametrize("call", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("error", NO_MEMORY, ids=["device", "cpu", "python"])
def test_a_step_that_ran_out_of_memory_can_be_run_again(error: Exception, call: int) -> None:
    requests = mixed_requests(SamplingParams(), count=4)
    settings = config()
    expected = answers(TransformersRunner(tiny_model("llama"), settings), settings, requests)
    runner = TransformersRunner(tiny_model("llama"), settings)
    failing_once(runner, error, call)
    scheduler = Scheduler(settings, (), runner.vocab_size, runner)
    for request in requests:
        scheduler.submit(request)
    got: dict[str, list[int]] = {request.request_id: [] for request in requests}
    failures = 0
    while scheduler.has_work:
        batch = scheduler.schedule(0.0)
        try:
            sampled = runner.run(batch)
        except OutOfMemory:
            failures += 1
            scheduler.shrink(batch)
            continue
        for output in scheduler.postprocess(batch, sampled):
            got[output.request_id] += output.token_ids
    assert failures == 1
    assert got == expected


def test_a_path_that_cannot_repeat_a_step_fails_it() -> None:
    runner = TransformersRunner(tiny_model("mamba"), config())
    scheduler = Scheduler(config(), (), runner.vocab_size, runner)
    scheduler.submit(Submit("a", (1, 2), 3, SamplingParams()))

    def fail(*_: object) -> torch.Tensor:
        raise NO_MEMORY[0]

    runner.forward.prefill = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(torch.OutOfMemoryError):
        runner.run(scheduler.schedule(0.0))


@pytest.mark.parametrize("error", NO_MEMORY, ids=["device", "cpu", "python"])
def test_tokens_that_find_no_memory_to_be_moved_raise_memory_error(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = TransformersRunner(tiny_model("llama"), config())
    runner.warm_up(lambda done, total: None)
    saved = runner.save(0, 0, 2)

    def fail(*_: object) -> torch.Tensor:
        raise error

    for name in ("save", "load"):
        monkeypatch.setattr(runner.forward.slot_cache, name, fail)
    with pytest.raises(MemoryError):
        runner.save(0, 0, 2)
    with pytest.raises(MemoryError):
        runner.load(0, 0, saved)


@pytest.mark.parametrize(
    ("name", "count"), [("llama", 0), ("qwen3_moe", 3), ("gpt_oss", 3), ("qwen3_5_moe", 3)]
)
def test_layers_with_routed_experts_are_counted(name: str, count: int) -> None:
    runner = TransformersRunner(tiny_model(name), config())
    assert runner.describe(LOADED).routed_layers == count


@pytest.mark.parametrize("name", [*HYBRID, "gemma3", "gpt_oss", "qwen3_moe"])
def test_requests_beside_cancelled_ones_are_answered_as_alone(name: str) -> None:
    runner, settings = TransformersRunner(tiny_model(name), config(slots=3)), config(slots=3)
    scheduler = Scheduler(settings, (), runner.vocab_size, runner)
    requests, model = mixed_requests(SamplingParams(), count=9), tiny_model(name)
    got: dict[str, list[int]] = {request.request_id: [] for request in requests}
    for request in requests:
        scheduler.submit(request)
    steps, cancelled = 0, []
    while scheduler.has_work:
        batch = scheduler.schedule(0.0)
        for output in scheduler.postprocess(batch, runner.run(batch)):
            got[output.request_id] += output.token_ids
        steps += 1
        # Each third request goes: in the middle of its prompt, or of its answer.
        for sequence in batch.sequences:
            if int(sequence.request_id) % 3 == 0 and steps % 4 == 0:
                scheduler.cancel(sequence.request_id)
                cancelled.append(sequence.status)
    assert {SequenceStatus.PREFILL, SequenceStatus.DECODE} <= set(cancelled)
    for request in requests:
        expected = generate(model, list(request.prompt_ids), request.max_tokens)
        answer = got[request.request_id]
        assert answer == expected[: len(answer)]
        assert int(request.request_id) % 3 == 0 or answer == expected
