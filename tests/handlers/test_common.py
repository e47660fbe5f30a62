from __future__ import annotations

import pytest

from engine.request import SamplingParams
from generated.models import ChatCompletionRequest, ChatTextPart
from handlers.common import (
    MAX_STOP_CHARACTERS,
    check_model,
    flatten_text,
    new_id,
    read_sampling,
)
from handlers.errors import ApiError


def body(**fields: object) -> ChatCompletionRequest:
    return ChatCompletionRequest.model_validate({"messages": [{"role": "user"}], **fields})


def test_without_fields_sampling_is_greedy_and_nothing_else_is_on() -> None:
    assert read_sampling(body(seed=0), None) == SamplingParams()


def test_every_sampling_field_is_read() -> None:
    fields = {
        "temperature": 0.5, "top_p": 0.25, "top_k": 3, "min_p": 0.125, "seed": -7,
        "repetition_penalty": 1.5, "frequency_penalty": -2.0, "presence_penalty": 2.0,
    }  # fmt: skip
    sampling = read_sampling(body(**fields, stop=["a", "b"]), 9)
    assert sampling == SamplingParams(**fields, stop=("a", "b"), max_tokens=9)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, 0.0])
def test_zero_is_a_value_and_not_the_default(value: float) -> None:
    sampling = read_sampling(body(temperature=value, seed=0, top_k=0), None)
    assert (sampling.temperature, sampling.seed, sampling.top_k) == (0, 0, 0)


def test_a_seed_is_drawn_where_none_is_given() -> None:
    drawn = {read_sampling(body(), None).seed for _ in range(20)}
    assert len(drawn) == 20
    assert all(0 <= seed < 2**63 for seed in drawn)


@pytest.mark.parametrize("seed", [-(2**63), 2**64 - 1])
def test_the_seed_s_bounds_are_taken_as_they_are(seed: int) -> None:
    assert read_sampling(body(seed=seed), None).seed == seed


@pytest.mark.parametrize(
    ("fields", "stop"),
    [
        ({}, ()),
        ({"stop": "x"}, ("x",)),
        ({"stop": ["x", "y"]}, ("x", "y")),
        ({"stop_sequences": ["z"]}, ("z",)),
        ({"stop": "x", "stop_sequences": ["z"]}, ("x",)),
        ({"stop": [], "stop_sequences": ["z"]}, ()),
        ({"stop": None, "stop_sequences": ["z"]}, ("z",)),
    ],
)
def test_stop_wins_over_stop_sequences(fields: dict[str, object], stop: tuple[str, ...]) -> None:
    assert read_sampling(body(**fields), None).stop == stop


@pytest.mark.parametrize("name", ["stop", "stop_sequences"])
def test_stop_strings_of_too_many_characters_are_refused(name: str) -> None:
    most = ["x" * (MAX_STOP_CHARACTERS - 9), "y" * 9]
    assert read_sampling(body(**{name: most}), None).stop == tuple(most)
    with pytest.raises(ApiError) as caught:
        read_sampling(body(**{name: [*most, "z"]}), None)
    assert (caught.value.status, caught.value.param) == (400, name)
    assert caught.value.message.startswith(f"{name} holds more than")


def test_text_parts_are_joined_by_line_breaks() -> None:
    one, two = ChatTextPart(type="text", text="one"), ChatTextPart(type="text", text="two")
    assert flatten_text([one, two]) == "one\ntwo"
    assert flatten_text([one]) == flatten_text("one") == "one"
    assert flatten_text(None) == flatten_text([]) == ""


@pytest.mark.parametrize("model", [None, "served"])
def test_the_served_model_or_none_is_accepted(model: str | None) -> None:
    check_model(model, "served")


@pytest.mark.parametrize("model", ["", "other", "Served"])
def test_another_model_is_not_found(model: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_model(model, "served")
    error = caught.value
    assert (error.status, error.type) == (404, "invalid_request_error")
    assert (error.code, error.param) == ("model_not_found", "model")
    assert "`served`" in error.message


def test_ids_are_fresh() -> None:
    assert new_id("chatcmpl-").startswith("chatcmpl-")
    assert new_id("x") != new_id("x")
