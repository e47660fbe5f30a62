from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import huggingface_hub
import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from engine.errors import ModelError
from engine.hub import fetch_from_hub, is_hub_id


def ignore(done: int, total: int) -> None: ...


def answer(status: int) -> httpx.Response:
    return httpx.Response(status, request=httpx.Request("GET", "https://hub.test/api"))


@pytest.mark.parametrize("name", ["org/name", "Qwen/Qwen3-0.6B", "a_b/c.d-e"])
def test_hub_ids_are_recognised(name: str) -> None:
    assert is_hub_id(name)


@pytest.mark.parametrize("name", ["name", "a/b/c", "/a", "a/", "../x", "a b/c", "a/b?c"])
def test_other_names_are_no_hub_ids(name: str) -> None:
    assert not is_hub_id(name)


def test_safetensors_are_fetched_and_bytes_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def snapshot(name: str, **options: Any) -> str:
        assert name == "org/name"
        assert "*.safetensors" in options["allow_patterns"]
        assert not any("bin" in p or "py" in p for p in options["allow_patterns"])
        transfer = options["tqdm_class"](desc="Downloading bytes", total=0, unit="B")
        written = options["tqdm_class"](desc="Reconstructing (incomplete)", total=0, unit="B")
        written.total = 10
        transfer.update(3)
        written.update(4)
        written.update(6)
        return "/hub/snapshot"

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert fetch_from_hub("org/name", lambda *p: seen.append(p)) == Path("/hub/snapshot")
    assert seen == [(4, 10), (10, 10)]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (GatedRepoError("403", response=answer(403)), "accepted its terms on huggingface.co"),
        (RepositoryNotFoundError("404", response=answer(404)), "The hub has no model 'org/name'"),
        (HfHubHTTPError("500", response=answer(500)), r"could not be fetched \(500\)"),
        (LocalEntryNotFoundError("offline"), "the hub cannot be reached"),
        (httpx.ReadTimeout(""), r"could not be fetched \(ReadTimeout\)"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_refusals_are_explained(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def snapshot(name: str, **options: Any) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    with pytest.raises(ModelError, match=said):
        fetch_from_hub("org/name", ignore)


def test_nothing_is_drawn(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def snapshot(name: str, **options: Any) -> str:
        with options["tqdm_class"](desc="Fetching 3 files", total=3) as bar:
            bar.update()
        return "/hub"

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    fetch_from_hub("org/name", ignore)
    assert capfd.readouterr() == ("", "")
