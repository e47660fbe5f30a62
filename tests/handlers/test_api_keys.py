from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from handlers.api_keys import find_tenant
from handlers.errors import ApiError
from handlers.tenants import key_digest

RED, BLUE = "red-key-0123456789", "blue-key-0123456789"
TENANTS = {key_digest(RED): "red", key_digest(BLUE): "blue"}

Raw = list[tuple[str, str]]


def tenant(*headers: tuple[str, str]) -> str:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return find_tenant(Headers(raw=raw), TENANTS)


def bearer(key: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {key}")


def x_api_key(key: str) -> tuple[str, str]:
    return ("x-api-key", key)


@pytest.mark.parametrize(
    "headers",
    [
        [bearer(BLUE)],
        [x_api_key(BLUE)],
        [("authorization", f"bEARER   {BLUE}")],
        [bearer("none"), x_api_key(BLUE)],
        [bearer(BLUE), x_api_key("none")],
        [("authorization", "Basic Og=="), x_api_key(BLUE)],
    ],
)
def test_one_valid_key_names_the_tenant(headers: Raw) -> None:
    assert tenant(*headers) == "blue"


def test_of_two_valid_keys_the_bearer_s_counts() -> None:
    assert tenant(x_api_key(RED), bearer(BLUE)) == "blue"


NO_KEY = "No key was sent. Send one as Authorization: Bearer <key> or as x-api-key: <key>."
WRONG = "The key that was sent is not one of this server's. Ask whoever runs it for one."


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ([], NO_KEY),
        ([("authorization", "")], NO_KEY),
        ([("authorization", "Bearer")], NO_KEY),
        ([("authorization", "Bearer ")], NO_KEY),
        ([("authorization", RED)], NO_KEY),
        ([("authorization", f"Basic {RED}")], NO_KEY),
        ([("authorization", f"Bearer\t{RED}")], NO_KEY),
        ([("authorization", f" Bearer {RED}")], NO_KEY),
        ([x_api_key("")], NO_KEY),
        ([bearer(RED), bearer(RED)], NO_KEY),
        ([x_api_key("none"), x_api_key(RED)], NO_KEY),
        ([bearer(RED[:-1])], WRONG),
        ([bearer(RED + "x")], WRONG),
        ([bearer(RED.upper())], WRONG),
        ([bearer(f"{RED}, {RED}")], WRONG),
        ([bearer(f"{RED}\t")], WRONG),
        ([bearer("schl\xfcssel\xff\x00")], WRONG),
        ([x_api_key(f"Bearer {RED}")], WRONG),
        ([x_api_key(key_digest(RED).hex())], WRONG),
        ([x_api_key("k" * 1_000_000)], WRONG),
        ([("cookie", f"key={RED}"), ("proxy-authorization", f"Bearer {RED}")], NO_KEY),
    ],
)
def test_anything_else_gets_401_that_does_not_repeat_it(headers: Raw, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        tenant(*headers)
    error = caught.value
    assert (error.status, error.message) == (401, message)
    assert (error.type, error.code) == ("authentication_error", "invalid_api_key")
    assert error.headers == {"WWW-Authenticate": "Bearer"}
