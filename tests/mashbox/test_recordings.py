"""Both forms of recordings, and what is neither."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from mashbox import recordings
from mashbox.recordings import Exchange, UnusableRecording, read_recording

LINE: dict[str, Any] = {
    "request": {"method": "post", "url": "http://h:1/v1/x?k=v", "headers": {"A": "1"}, "body": [1]},
    "response": {"status": 200, "headers": {"B": "2"}, "body": "data: 1"},
}


def read(data: bytes | str) -> list[Exchange]:
    return list(read_recording(io.BytesIO(data.encode() if isinstance(data, str) else data)))


def har_entry(**content: object) -> dict[str, Any]:
    request = {"method": "GET", "url": "/", "headers": []}
    return {"request": request, "response": {"status": 200, "headers": [], "content": content}}


def har(*entries: object, **others: object) -> str:
    return json.dumps({"log": {**others, "entries": list(entries)}})


def test_a_line_has_a_body_as_json_or_as_text() -> None:
    (exchange,) = read(json.dumps(LINE))
    assert (exchange.number, exchange.method, exchange.path) == (1, "POST", "/v1/x")
    assert exchange.request_headers["a"] == "1"
    assert exchange.request_body == b"[1]"
    assert (exchange.status, exchange.response_body) == (200, b"data: 1")


def test_a_line_without_bodies_and_headers_is_one_too() -> None:
    line = {"request": {"method": "GET", "url": "/"}, "response": {"status": 200}}
    (exchange,) = read(json.dumps(line))
    assert (exchange.request_body, exchange.response_body) == (b"", b"")


def test_bodies_of_a_har_file_may_be_base64_or_left_out() -> None:
    entries = [
        har_entry(text="e30=", encoding="base64"),
        har_entry(text="e30="),
        har_entry(size=0),
        har_entry(size=9),
        har_entry() | {"response": {"status": 200, "headers": [], "content": None}},
    ]
    bodies = [exchange.response_body for exchange in read("\ufeff" + har(*entries, pages=[]))]
    assert bodies == [b"{}", b"e30=", b"", None, b""]


def test_a_recording_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "_CHUNK", 16)
    entries = [har_entry(text="é" * length) for length in (1, 300, 7)]
    bodies = [
        exchange.response_body or b"" for exchange in read(har(*entries, comment='"entries"'))
    ]
    assert [len(body.decode()) for body in bodies] == [1, 300, 7]
    assert [e.number for e in read("\n".join([json.dumps(LINE)] * 3) + "\n\n")] == [1, 2, 3]


def test_exchanges_before_a_broken_one_are_read() -> None:
    reading = read_recording(io.BytesIO(f"{json.dumps(LINE)}\n{{".encode()))
    assert next(reading).number == 1
    with pytest.raises(UnusableRecording, match="Entry 2 cannot be read: it is not valid JSON"):
        next(reading)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "It holds no exchanges"),
        ("\n", "It holds no exchanges"),
        (har(), "It holds no exchanges"),
        ('{"log": {}}', "It cannot be read: the log has no entries. Record HAR or"),
        (har(har_entry())[:-3], "Entry 2 cannot be read: it is not valid JSON, or cut off"),
        (har(har_entry(text="%", encoding="base64")), "Entry 1 cannot be read"),
        (
            har({"request": {}}),
            "Entry 1 is no exchange: request.headers: Field required. Record HAR or",
        ),
        ("[]", "Entry 1 is no exchange: it should be an object. Record HAR or"),
        ('{"request": "GET /"}', "Entry 1 is no exchange: request should be an object"),
        ("]", "Entry 1 cannot be read"),
        ('{"method": "GET"}', "Entry 1 is no exchange: request: Field required"),
        ("[" * 100_000, "Entry 1 cannot be read"),
        (b"\xff\xfe", "It cannot be read: 'utf-8' codec"),
        (json.dumps(LINE).replace("http://h:1", "http://[h"), "Entry 1 cannot be read"),
        (json.dumps(LINE).replace("200", "9" * 99), "Entry 1 is no exchange: response.status: "),
    ],
)
def test_what_cannot_be_used_says_why(data: bytes | str, said: str) -> None:
    with pytest.raises(UnusableRecording) as caught:
        read(data)
    assert said in str(caught.value)
