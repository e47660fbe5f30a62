"""Reading catalogues of models: the one that is shipped, and the user's over it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_config_path

from engine.errors import ModelError
from engine.fetch import Wheel
from engine.script import MOCK

_VARIABLE = "MASHBOX_MODELS"
_NAME = "models.json"
# Far more than a catalogue of thousands.
_MOST_BYTES = 1 << 24

Thinking = Literal["none", "always", "switch"]
Source = Literal["PyPI", "hub", "file"]


@dataclass(frozen=True, slots=True)
class HubModel:
    """Weights on the Hugging Face hub; `id` is `organisation/model`."""

    id: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the catalogue; None and empty texts where the file says nothing.

    `id` is its name on the command line, `name` the vendor's. `context` is in tokens, `size_bytes`
    what is downloaded. `tool_format` is one of `model_format.FORMATS`. `sampling` is the vendor's
    advice to clients, by request field: the server draws as a request says, by default greedily.
    """

    id: str
    weights: Wheel | HubModel | Path
    name: str = ""
    family: str = ""
    parameters: str = ""
    licence: str = ""
    context: int | None = None
    size_bytes: int | None = None
    thinking: Thinking | None = None
    tool_format: str | None = None
    sampling: Mapping[str, float] = field(default_factory=dict)

    @property
    def source(self) -> Source:
        """Return where the weights come from."""
        match self.weights:
            case Wheel():
                return "PyPI"
            case HubModel():
                return "hub"
            case _:
                return "file"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Entries by id, and the id of the one that is served when none is named."""

    entries: Mapping[str, Entry]
    default: str


def read_catalogue() -> Catalogue:
    """Read the shipped catalogue with the user's entries over it, which replace those of their id.

    The user's file is what `MASHBOX_MODELS` names, else models.json in the config folder, if
    there is one. Raises ModelError, naming file and field.
    """
    shipped = json.loads(files("engine").joinpath(_NAME).read_text("utf-8"))
    entries, default = _entries(shipped, Path()), str(shipped["default"])
    if (path := _own_file()) is not None:
        own = _read(path)
        entries |= _entries(own, path.parent)
        default = str(own.get("default", default))
        if default not in entries:
            raise ModelError(f"{path}: default is {default!r}, which is no model's id. Add it.")
    return Catalogue(entries, default)


def user_path(text: str) -> Path:
    """Return the path with its leading `~` or `~user` written out, as it is if there is no such."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _own_file() -> Path | None:
    named = os.environ.get(_VARIABLE)
    if named:
        return user_path(named).absolute()
    path = user_config_path("mashbox") / _NAME
    return path if path.exists() else None


def _read(path: Path) -> dict[str, Any]:
    """Return a file that follows the schema."""
    try:
        data = json.loads(_bytes(path), object_pairs_hook=_unique)
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read: {error.strerror}. Correct {_VARIABLE}, or the file's mode."
        ) from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON: {_where(error)}. Correct it there.") from error
    _check(path, data)
    return dict(data)


def _bytes(path: Path) -> bytes:
    """Return what is in the file; raises OSError, and ModelError for what no catalogue is."""
    status = path.stat()
    # A pipe or a device would be waited for, or never end.
    if stat.S_ISDIR(status.st_mode) or (
        stat.S_ISREG(status.st_mode) and status.st_size < _MOST_BYTES
    ):
        return path.read_bytes()
    raise ModelError(f"{path} is no catalogue but a device or a huge file. Correct {_VARIABLE}.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object; raises ValueError where a key stands twice, of which one would be lost."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice in one object")
    return fields


def _where(error: Exception) -> str:
    return str(error)[:200] or "nested too deeply"


def _check(path: Path, data: Any) -> None:
    """Raise ModelError for the first field that the schema does not allow."""
    # Here, not above: it takes 0.1 s, and few have a file of their own.
    from jsonschema.exceptions import best_match

    error = best_match(_validator().iter_errors(data))
    if error is not None:
        field = ".".join(map(str, error.absolute_path)) or "the whole"
        raise ModelError(
            f"{path}: {field}: {error.message[:200]}. docs/models.md lists the fields."
        )
    if MOCK in data["models"]:
        raise ModelError(f"{path}: {MOCK} is the scripted model's id. Call the entry otherwise.")


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    schema = files("engine").joinpath("models.schema.json").read_text("utf-8")
    return Draft202012Validator(json.loads(schema))


def _entries(data: Mapping[str, Any], folder: Path) -> dict[str, Entry]:
    return {name: _entry(name, fields, folder) for name, fields in data["models"].items()}


def _entry(name: str, fields: Mapping[str, Any], folder: Path) -> Entry:
    rest = {"name": name} | {key: value for key, value in fields.items() if key != "weights"}
    weights = _weights(fields["weights"], folder)
    if isinstance(weights, Wheel):
        rest.setdefault("size_bytes", weights.wheel_bytes)
    return Entry(id=name, weights=weights, **rest)


def _weights(fields: Mapping[str, Any], folder: Path) -> Wheel | HubModel | Path:
    match fields:
        case {"wheel": wheel}:
            return Wheel(**wheel)
        case {"hub": name}:
            return HubModel(name)
        case _:
            return folder / user_path(fields["file"])
