from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from generated.models import ChatCompletionRequest
from handlers import body as body_module
from handlers.body import (
    MAX_BODY_BYTES,
    MAX_PARTS,
    PARSED_BODY,
    PydanticBody,
    has_too_many_parts,
    json_path,
    parse_body,
    render_path,
)
from handlers.disconnect import ClientLeft
from handlers.errors import ApiError
from tests.handlers.asgi import Connection, http_scope

USER = {"role": "user", "content": "Hi"}


def parse(raw: bytes) -> ChatCompletionRequest:
    body = parse_body(ChatCompletionRequest, raw)
    assert isinstance(body, ChatCompletionRequest)
    return body


def refusal(raw: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(raw)
    assert (caught.value.status, caught.value.type) == (400, "invalid_request_error")
    return caught.value


def with_extra(raw_value: bytes) -> bytes:
    return b'{"messages": [{"role": "user", "content": "Hi"}], "extra": ' + raw_value + b"}"


def test_a_bom_is_accepted_once() -> None:
    raw = json.dumps({"messages": [USER]}).encode()
    assert parse(b"\xef\xbb\xbf" + raw) == parse(raw)
    assert refusal(b"\xef\xbb\xbf\xef\xbb\xbf" + raw).code == "invalid_json"


def wrong_lists() -> list[dict[str, Any]]:
    wrong = [1] * 1000
    return [
        {"messages": wrong},
        {"messages": [{"role": "user", "content": wrong}]},
        {"messages": [{"role": "assistant", "tool_calls": wrong}]},
        {"messages": [USER], "tools": wrong},
        {"messages": [USER], "stop": wrong},
        {"messages": [USER], "stop_sequences": wrong},
    ]


@pytest.mark.parametrize("body", wrong_lists())
def test_a_list_of_wrong_items_costs_one_error(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        ChatCompletionRequest.model_validate_json(json.dumps(body))
    assert caught.value.error_count() == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"", b" ", b"{", b"{} {}", b"{}x", b"{'a': 1}", b'{"a": 1,}', b"\x00", b"// c\n{}",
        with_extra(b'"\xff"'),
        with_extra(b'"\xed\xa0\x80"'),
        with_extra(rb'"\ud800"'),
        with_extra(rb'"\ud800\u0041"'),
        with_extra(rb'"\udc00"'),
        with_extra(b"NaN"),
        with_extra(b"[Infinity]"),
        with_extra(b'{"a": -Infinity}'),
        with_extra(b"01"),
        '{"messages": []}'.encode("utf-16"),
    ],
)  # fmt: skip
def test_what_is_not_json_gets_invalid_json(raw: bytes) -> None:
    error = refusal(raw)
    assert (error.code, error.param) == ("invalid_json", None)
    assert error.message.startswith("The body is not valid JSON: ")


def test_the_words_nan_and_infinity_may_stand_in_texts() -> None:
    text = "NaN, Infinity, -Infinity"
    raw = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    assert parse(raw).messages[0].content == text


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["temperature", "seed"])
def test_numbers_that_are_not_finite_get_400(field: str, number: str) -> None:
    refusal(f'{{"messages": [{{"role": "user"}}], "{field}": {number}}}'.encode())


@pytest.mark.parametrize(("depth", "passes"), [(60, True), (199, True), (210, False)])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_has_a_limit(depth: int, passes: bool, opening: bytes, closing: bytes) -> None:
    raw = with_extra(opening * depth + b"1" + closing * depth)
    if passes:
        assert parse(raw)
    else:
        assert refusal(raw).code == "invalid_json"


@pytest.mark.parametrize("depth", [900, 5000, 100_000])
def test_deep_nesting_is_refused_wherever_it_stands(depth: int) -> None:
    nest = b"[" * depth + b"]" * depth
    for raw in (nest, with_extra(nest), b'{"messages": ' + nest + b"}", b"[" * depth):
        assert refusal(raw).code == "invalid_json"


def test_nesting_below_the_limit_does_not_hide_the_bad_field() -> None:
    nest = b"[" * 190 + b"]" * 190
    assert refusal(b'{"messages": [], "extra": ' + nest + b"}").param == "messages"


def test_the_last_of_duplicate_keys_wins_at_every_level() -> None:
    body = parse(b'{"messages": 5, "messages": [{"role": "x", "role": "user"}], "n": 2, "n": 1}')
    assert (body.messages[0].role, body.n) == ("user", 1)
    assert refusal(b'{"messages": [{"role": "user"}], "messages": 5}').param == "messages"


@pytest.mark.parametrize("raw", [b"[]", b"[{}]", b"null", b"5", b"true", b'"text"'])
def test_a_body_that_is_no_object_is_told_so(raw: bytes) -> None:
    error = refusal(raw)
    assert (error.message, error.param) == ("The body must be a JSON object.", None)


BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "text"}, "messages"),
    ({"messages": [None]}, "messages[0]"),
    ({"messages": [USER, {"content": "x"}]}, "messages[1].role"),
    ({"messages": [{"role": "robot"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": {}}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0].type",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "messages[0].content[0].text",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": 5}}]}]},
        "messages[0].tool_calls[0].function.arguments",
    ),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 4.01}, "temperature"),
    ({"temperature": "1"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"top_k": 1.5}, "top_k"),
    ({"min_p": 1}, "min_p"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": "4"}, "max_tokens"),
    ({"max_completion_tokens": True}, "max_completion_tokens"),
    ({"seed": 2**64}, "seed"),
    ({"seed": -(2**63) - 1}, "seed"),
    ({"stop": ""}, "stop"),
    ({"stop": 5}, "stop"),
    ({"stop": ["x", ""]}, "stop[1]"),
    ({"stop_sequences": "x"}, "stop_sequences"),
    ({"stream": 1}, "stream"),
    ({"stream": "true"}, "stream"),
    ({"stream_options": []}, "stream_options"),
    ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
    ({"tools": {}}, "tools"),
    ({"tools": [5]}, "tools[0]"),
    ({"tool_choice": "maybe"}, "tool_choice"),
    ({"tool_choice": {"function": {}}}, "tool_choice.function.name"),
    ({"chat_template_kwargs": {"enable_thinking": 1}}, "chat_template_kwargs.enable_thinking"),
    ({"n": 2}, "n"),
    ({"n": 0}, "n"),
    ({"logprobs": True}, "logprobs"),
    ({"logprobs": 0}, "logprobs"),
    ({"top_logprobs": 1}, "top_logprobs"),
    ({"response_format": {"type": "json_object"}}, "response_format.type"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"frequency_penalty": 2.1}, "frequency_penalty"),
    ({"presence_penalty": -2.1}, "presence_penalty"),
    ({"model": 5}, "model"),
]


@pytest.mark.parametrize(("fields", "path"), BAD_FIELDS, ids=[path for _, path in BAD_FIELDS])
def test_a_bad_field_is_named_by_its_path(fields: dict[str, Any], path: str) -> None:
    error = refusal(json.dumps({"messages": [USER]} | fields).encode())
    assert (error.param, error.code) == (path, None)
    assert error.message.startswith(path + " ")
    assert error.message.endswith(".")


def test_a_missing_field_is_named() -> None:
    error = refusal(b"{}")
    assert (error.message, error.param) == ("messages is missing.", "messages")


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": "s3cret"},
        {"messages": [{"role": "s3cret", "content": "s3cret"}]},
        {"messages": [{"role": "user", "content": [{"type": "s3cret", "text": "s3cret"}]}]},
        {"messages": {"s3cret": "s3cret"}},
        {"stop": {"s3cret": 1}},
        {"tool_choice": "s3cret"},
        {"response_format": {"type": "s3cret"}},
        {"s3cret": {"s3cret": 1}, "n": 2},
    ],
)
def test_nothing_of_the_body_is_echoed(fields: dict[str, Any]) -> None:
    error = refusal(json.dumps({"messages": [USER]} | fields).encode())
    assert "s3cret" not in error.message + (error.param or "")


def test_broken_json_is_not_echoed() -> None:
    assert "s3cret" not in refusal(b'{"s3cret": s3cret}').message


def test_null_means_absent_and_unknown_fields_pass() -> None:
    optional = set(ChatCompletionRequest.model_fields) - {"messages"}
    raw = json.dumps({"messages": [USER], "unknown": {"a": [1]}} | dict.fromkeys(optional))
    defaults = parse(json.dumps({"messages": [USER]}).encode())
    assert parse(raw.encode()).model_dump() == defaults.model_dump()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "function", "<array>", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(
    field=st.sampled_from(sorted(ChatCompletionRequest.model_fields)),
    value=JSON_VALUES,
)
def test_any_value_of_any_field_is_taken_or_refused_by_name(field: str, value: Any) -> None:
    raw = json.dumps({"messages": [USER], field: value}).encode()
    try:
        parse(raw)
    except ApiError as error:
        assert error.status == 400
        assert error.code == "invalid_json" or (error.param or "").startswith(field)


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_refused(raw: bytes) -> None:
    refusal(raw)


@pytest.mark.parametrize(
    "text", ["a, b: [c] {d}", '"a", "b"', "\\\\", '\\"', "\\", '"', ",\n\t\\n", 'x\\\\"y,']
)
def test_texts_may_be_long_whatever_stands_in_them(text: str) -> None:
    content = text * (2 * MAX_PARTS // len(text) + MAX_PARTS)
    raw = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    assert parse(raw).messages[0].content == content


@pytest.mark.parametrize(
    "raw",
    [
        b"[" + b"1," * MAX_PARTS + b"1]",
        b'{"messages": [' + b",".join([b"{}"] * MAX_PARTS) + b"]}",
        with_extra(b"[" + b'"",' * MAX_PARTS + b'""]'),
        with_extra(b"[" + b'"\\",",' * MAX_PARTS + b'""]'),
        with_extra(b"{" + b'"a":1,' * MAX_PARTS + b'"b": 2}'),
        b'"' * (4 * MAX_PARTS),
    ],
)
def test_bodies_of_very_many_parts_are_refused_unparsed(raw: bytes) -> None:
    error = refusal(raw)
    assert error.message.startswith(f"The body has more than {MAX_PARTS} JSON parts ")
    assert (error.param, error.code) == (None, None)


def parts_of(text: str) -> int:
    """Count strings and what stands between values, one character after the other."""
    parts, quoted, escaped = 0, False, False
    for character in text:
        if quoted:
            quoted, escaped = escaped or character != '"', character == "\\" and not escaped
        else:
            quoted = character == '"'
            parts += quoted or character in ",:[{"
    return parts


JSON_TEXT = st.text(st.sampled_from('\\",:[{ab'), max_size=8)


@given(st.recursive(JSON_TEXT | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(
    JSON_TEXT, inner)))  # fmt: skip
def test_parts_are_counted_exactly(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    parts = parts_of(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body_module, "MAX_PARTS", parts)
        assert not has_too_many_parts(text.encode())
        patch.setattr(body_module, "MAX_PARTS", max(parts - 1, 0))
        assert has_too_many_parts(text.encode()) is (parts > 0)


def test_union_tags_are_stripped_from_locations() -> None:
    body = {"content": [{"type": "x"}]}
    assert json_path(body, ("content", "<array>", 0, "type")) == ("content", 0, "type")
    assert json_path(body, ("content", "<array>", 0, "text")) == ("content", 0, "text")
    assert json_path(None, ("content",)) == ()


def test_paths_are_written_as_people_write_them() -> None:
    assert render_path(("messages", 1, "content", 0, "type")) == "messages[1].content[0].type"
    assert render_path(()) == ""


async def read(*pieces: bytes) -> Any:
    validator = PydanticBody(schema={"type": "object", "x-model": "ChatCompletionRequest"})
    _, scope = await validator.wrap_receive(Connection(*pieces).receive, scope=http_scope())
    return scope["extensions"][PARSED_BODY]


async def test_a_body_in_pieces_becomes_one_model() -> None:
    body = await read(b'{"messages": [{"ro', b"", b'le": "user"}]}')
    assert body.messages[0].role == "user"


async def test_a_large_body_is_parsed_outside_the_event_loop() -> None:
    threads: list[str] = []

    class Model(ChatCompletionRequest):
        @classmethod
        def model_validate_json(cls, *args: Any, **kwargs: Any) -> Any:
            threads.append(threading.current_thread().name)
            return super().model_validate_json(*args, **kwargs)

    validator = PydanticBody(schema={"x-model": "ChatCompletionRequest"})
    validator._model = Model
    for text in ("small", "large" * MAX_PARTS):
        raw = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        await validator.wrap_receive(Connection(raw).receive, scope=http_scope())
    assert threads == ["MainThread", "parse_0"]


async def test_a_body_is_measured_where_it_is_read() -> None:
    piece = b" " * 2**20
    whole = [piece] * (MAX_BODY_BYTES // len(piece))
    with pytest.raises(ApiError) as caught:
        await read(*whole, b"{}")
    assert (caught.value.status, caught.value.code) == (413, "request_too_large")
    with pytest.raises(ApiError) as caught:
        await read(*whole)
    assert caught.value.code == "invalid_json"


async def test_reading_stops_at_the_limit() -> None:
    pieces = [b"x" * MAX_BODY_BYTES, b"x", b"never read"]
    connection = Connection(*pieces)
    validator = PydanticBody(schema={"x-model": "ChatCompletionRequest"})
    with pytest.raises(ApiError):
        await validator.wrap_receive(connection.receive, scope=http_scope())
    assert (await connection.receive())["body"] == b"never read"


async def test_a_client_that_leaves_while_sending_is_noticed() -> None:
    connection = Connection()
    validator = PydanticBody(schema={"x-model": "ChatCompletionRequest"})
    reading = asyncio.ensure_future(validator.wrap_receive(connection.receive, scope=http_scope()))
    connection.left.set()
    with pytest.raises(ClientLeft):
        await reading
