"""The gate that int8 has to pass to be the default: perplexity within 1 % of float32."""

from __future__ import annotations

import pytest

from bench.quality import compare, load

pytestmark = pytest.mark.model


def test_perplexity_is_within_one_percent_of_float32() -> None:
    quality = compare(load("none"), load("int8"))
    assert quality.int8 < 1.01 * quality.float32
    assert quality.agreement > 0.9
