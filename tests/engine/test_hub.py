from __future__ import annotations

from typing import Any

import httpx
import huggingface_hub
import pytest

from engine.errors import ModelError
from engine.hub import fetch_from_hub, is_hub_id


def ignore(done: int, total: int) -> None: ...


@pytest.mark.parametrize("name", ["org/name", "Qwen/Qwen3-0.6B", "a_b/c.d-e"])
def test_hub_ids_are_recognised(name: str) -> None:
    assert is_hub_id(name)


@pytest.mark.parametrize("name", ["name", "a/b/c", "/a", "a/", "../x", "a b/c", "a/b?c"])
def test_other_names_are_no_hub_ids(name: str) -> None:
    assert not is_hub_id(name)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (httpx.ReadTimeout(""), r"could not be fetched \(ReadTimeout\)"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_what_no_hub_here_can_do_is_explained(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def snapshot(name: str, **options: Any) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    with pytest.raises(ModelError, match=said):
        fetch_from_hub("org/name", ignore)
