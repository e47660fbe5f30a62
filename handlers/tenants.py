"""Tenants: who may call a server, remembered by the digests of their keys.

The start reads keys before the HTTP side is imported, so nothing of it is imported here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

SHORTEST_KEY = 16

Tenants = Mapping[bytes, str]
"""The tenants' names by the SHA-256 digests of their keys; the keys themselves are not kept."""

NO_KEYS: Tenants = MappingProxyType({})
"""What a server has that answers everybody."""


def key_digest(key: str) -> bytes:
    """Give what a key is remembered by; `key` is a header's text (Latin-1)."""
    return hashlib.sha256(key.encode("latin-1")).digest()
