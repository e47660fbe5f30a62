"""API keys: which tenant a request comes from."""

from __future__ import annotations

import hmac
from collections.abc import Iterator

from starlette.datastructures import Headers

from handlers.errors import ApiError
from handlers.tenants import Tenants, key_digest


def find_tenant(headers: Headers, tenants: Tenants) -> str:
    """Name the tenant whose key the request carries; raises 401 when there is none.

    Of the two headers that can carry a key, one with a valid one is enough.
    """
    sent = [key_digest(key) for key in _sent_keys(headers)]
    # Every pair is compared, each in constant time: how long it takes tells nothing of the keys.
    found = [
        tenant
        for digest in sent
        for known, tenant in tenants.items()
        if hmac.compare_digest(digest, known)
    ]
    if not found:
        raise _unauthorized(
            "The key that was sent is not one of this server's. Ask whoever runs it for one."
            if sent
            else "No key was sent. Send one as Authorization: Bearer <key> or as x-api-key: <key>."
        )
    # The bearer's, if both are valid.
    return found[0]


def _sent_keys(headers: Headers) -> Iterator[str]:
    scheme, _, token = _single(headers, "authorization").partition(" ")
    if scheme.lower() == "bearer" and token.strip(" "):
        yield token.strip(" ")
    if key := _single(headers, "x-api-key"):
        yield key


def _single(headers: Headers, name: str) -> str:
    """Give a header's value, empty if it is not there exactly once.

    Nobody gets to try many keys in one request.
    """
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else ""


def _unauthorized(message: str) -> ApiError:
    return ApiError(
        401,
        message,
        "authentication_error",
        "invalid_api_key",
        headers={"WWW-Authenticate": "Bearer"},
    )
