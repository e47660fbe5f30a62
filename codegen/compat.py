"""Command line: `python -m codegen.compat OLD NEW` names what a later openapi.json breaks."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from codegen.compat_schema import Direction, SchemaComparison
from codegen.document import METHODS, Json, resolve


def main(arguments: Sequence[str]) -> int:
    """Print a line for each breaking change; return 1 if any, exit with 2 on a file of no use."""
    parser = argparse.ArgumentParser(prog="python -m codegen.compat", description=__doc__)
    parser.add_argument("old", type=_document, help="the document that clients were made for")
    parser.add_argument(
        "new", type=_document, help="the document of the server that they will meet"
    )
    options = parser.parse_args(arguments)
    changes = breaking_changes(options.old, options.new)
    print(*changes or ["No breaking changes."], sep="\n")
    return 1 if changes else 0


def breaking_changes(old: Json, new: Json) -> list[str]:
    """Say in one line each what a client of the old document can stumble over, place first."""
    return list(_Comparison(old, new).breaks())


class _Comparison:
    def __init__(self, old: Json, new: Json) -> None:
        self._old = old
        self._new = new
        self._schemas = SchemaComparison(old, new)

    def breaks(self) -> Iterator[str]:
        """Compare all operations, and the ways to be let in that they name."""
        yield from self._schemes()
        for path, item in self._old["paths"].items():
            later = self._new["paths"].get(path, {})
            for method in [name for name in METHODS if name in item]:
                place = f"{method.upper()} {path}"
                if method in later:
                    pair = _with_parameters(item, method), _with_parameters(later, method)
                    yield from self._operation(place, *pair)
                else:
                    yield f"{place}: is gone"

    def _schemes(self) -> Iterator[str]:
        befores, afters = (
            document.get("components", {}).get("securitySchemes", {})
            for document in (self._old, self._new)
        )
        for name, before in befores.items():
            if name not in afters:
                yield f"security scheme {name}: is gone"
                continue
            keys = sorted({*before, *afters[name]} - {"description"})
            for key in [key for key in keys if before.get(key) != afters[name].get(key)]:
                change = f"{before.get(key)!r} is now {afters[name].get(key)!r}"
                yield f"security scheme {name}: the {key} {change}"

    def _operation(self, place: str, old: Json, new: Json) -> Iterator[str]:
        if old["operationId"] != new["operationId"]:
            yield f"{place}: the operationId {old['operationId']} is now {new['operationId']}"
        yield from _security(place, old.get("security", []), new.get("security", []))
        yield from self._parameters(place, old, new)
        yield from self._body(place, old.get("requestBody", {}), new.get("requestBody", {}))
        for status, response in old["responses"].items():
            where = f"{place} {status}"
            if status not in new["responses"]:
                yield f"{where}: is gone"
                continue
            pair = resolve(self._old, response), resolve(self._new, new["responses"][status])
            yield from self._content(where, *pair, "response")
            yield from self._headers(where, *(each.get("headers", {}) for each in pair))

    def _parameters(self, place: str, old: Json, new: Json) -> Iterator[str]:
        befores = _named(self._old, old.get("parameters", ()))
        for key, after in _named(self._new, new.get("parameters", ())).items():
            before = befores.pop(key, {})
            if after.get("required", False) and not before.get("required", False):
                yield f"{place} {key}: is now required"
            if before:
                pair = before["schema"], after["schema"]
                yield from self._schemas.breaks(f"{place} {key}", *pair, "request")
        yield from (f"{place} {key}: is gone" for key in befores)

    def _body(self, place: str, old: Json, new: Json) -> Iterator[str]:
        if new.get("required", False) and not old.get("required", False):
            yield f"{place} body: is now required"
        yield from self._content(f"{place} body", old, new, "request")

    def _content(self, place: str, old: Json, new: Json, direction: Direction) -> Iterator[str]:
        for media_type, media in old.get("content", {}).items():
            later = new.get("content", {}).get(media_type)
            where = f"{place} {media_type}"
            if later is None:
                yield f"{where}: is gone"
            else:
                pair = media.get("schema", {}), later.get("schema", {})
                yield from self._schemas.breaks(where, *pair, direction)

    def _headers(self, place: str, old: Json, new: Json) -> Iterator[str]:
        # Header names have no case.
        later = {name.lower(): header for name, header in new.items()}
        for name, header in old.items():
            where = f"{place} header {name}"
            if name.lower() not in later:
                yield f"{where}: is gone"
                continue
            before, after = resolve(self._old, header), resolve(self._new, later[name.lower()])
            if before.get("required", False) and not after.get("required", False):
                yield f"{where}: may now be missing"
            yield from self._schemas.breaks(where, before["schema"], after["schema"], "response")


def _document(name: str) -> Json:
    hint = "Save a server's /openapi.json again, with curl -f."
    try:
        document = json.loads(Path(name).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{name} cannot be read: {error}. {hint}") from None
    if not isinstance(document, dict) or not document.get("paths"):
        # An error body, as saved by a curl without -f.
        raise argparse.ArgumentTypeError(f"{name} is no OpenAPI document with paths. {hint}")
    return document


def _with_parameters(item: Json, method: str) -> Json:
    """Give an operation with the parameters too that its path has for all operations."""
    operation: Json = item[method]
    return {
        **operation,
        "parameters": [*item.get("parameters", ()), *operation.get("parameters", ())],
    }


def _security(place: str, old: list[Any], new: list[Any]) -> Iterator[str]:
    """Compare the ways to be let in; an empty list means that nothing is asked."""
    if not new or {} in new:
        return
    if not old:
        yield f"{place}: now needs a key"
    for way in [way for way in old if way not in new]:
        yield f"{place}: does not take {' and '.join(way) or 'calls without a key'} any more"


def _named(document: Json, parameters: Sequence[Json]) -> dict[str, Json]:
    found = (resolve(document, node) for node in parameters)
    return {f"{node['in']} {node['name']}": node for node in found}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
