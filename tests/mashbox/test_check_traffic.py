"""The whole check: recordings of the application, clean and with one thing broken."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.mashbox.test_cli import run
from tests.mashbox.traffic import CLAIM, KEY, REQUESTS, Json, check, har, json_lines, record


@pytest.mark.parametrize("form", [json_lines, har, lambda lines: har(lines, encoded=True)])
async def test_what_the_application_says_keeps_to_the_contract(
    form: Callable[[list[Json]], bytes],
) -> None:
    assert check(form(await record(*REQUESTS))) == ["15 requests, 15 responses checked, 0 findings"]


async def test_a_line_names_the_entry_the_request_and_the_field() -> None:
    lines = await record(*REQUESTS)
    lines[7]["response"]["body"] = lines[7]["response"]["body"].replace('"assistant"', '"user"')
    expected = [
        "entry 8: POST /v1/chat/completions 200: response: "
        'choices[0].message.role should be "assistant".',
        "15 requests, 15 responses checked, 1 finding",
    ]
    assert check(json_lines(lines)) == expected
    assert check(har(lines)) == expected


async def test_keys_queries_and_bodies_are_not_printed() -> None:
    recorded = (await record(("POST", f"/v1/{KEY}", CLAIM)))[0]
    recorded["request"]["url"] += "?token=hidden"
    (found, _) = check(json_lines([recorded]))
    assert found == "entry 1: POST /v1/[key] 404: request: The contract has no such path."


async def test_a_path_cannot_write_lines_of_its_own() -> None:
    recorded = (await record(("GET", "/health", None)))[0]
    recorded["request"]["url"] = "http://127.0.0.1/a\u2028b\x1b[2J"
    assert all(text.isprintable() for text in check(json_lines([recorded])))


async def test_a_fields_name_cannot_either() -> None:
    recorded = (await record(("POST", "/v1/responses", {"input": "Hi"})))[0]
    body = json.loads(recorded["response"]["body"]) | {"metadata": {f"a\n{KEY}": 1}}
    recorded["response"]["body"] = body
    (found, _) = check(json_lines([recorded]))
    assert found.endswith(r"response: metadata.a\n[key] should be a string, not a number.")


async def test_the_exit_code_tells_clean_broken_and_unusable(tmp_path) -> None:
    lines = await record(("GET", "/health", None))
    file = tmp_path / "traffic"
    file.write_bytes(har(lines))
    assert run("check-traffic", str(file)).exit_code == 0
    del lines[0]["response"]["headers"]["x-request-id"]
    file.write_bytes(json_lines(lines))
    done = run("check-traffic", str(file))
    assert done.exit_code == 1
    assert "entry 1: GET /health 200: response: The header X-Request-Id is missing." in done.output
    file.write_text("no JSON")
    done = run("check-traffic", str(file))
    assert done.exit_code == 2
    assert "Entry 1 cannot be read: it is not valid JSON" in done.output
    assert run("check-traffic", str(tmp_path / "nowhere")).exit_code == 2


async def test_a_dash_reads_standard_input() -> None:
    recording = json_lines(await record(("GET", "/health", None)))
    done = run("check-traffic", "-", stdin=recording)
    assert (done.exit_code, done.output) == (0, "1 request, 1 response checked, 0 findings\n")
