"""openapi.json as codegen reads it: operations, and the objects that references point to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
"""The keys of a path item that are operations (OpenAPI 3.1.1, section 4.8.9)."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `request_model` names the schema of its JSON body, if it takes one.

    `needs_key` tells that a server with keys answers it only to those who have one.
    """

    operation_id: str
    method: str
    path: str
    summary: str
    parameters: tuple[Json, ...]
    request_model: str | None
    needs_key: bool

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """The names in the braces of `path`."""
        return tuple(p["name"] for p in self.parameters if p["in"] == "path")


def resolve(document: Json, node: Json) -> Json:
    """Return the object that a `$ref` into this document means, or the node if it has none.

    Raises KeyError when the reference leads nowhere.
    """
    if "$ref" not in node:
        return node
    target: Any = document
    for key in node["$ref"].removeprefix("#/").split("/"):
        target = target[key.replace("~1", "/").replace("~0", "~")]
    return resolve(document, target)


def operations(document: Json) -> Iterator[Operation]:
    """Yield the operations in the document's order."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield _operation(document, path, method, item[method])


def _operation(document: Json, path: str, method: str, node: Json) -> Operation:
    return Operation(
        operation_id=node["operationId"],
        method=method.upper(),
        path=path,
        summary=node["summary"],
        parameters=tuple(resolve(document, p) for p in node.get("parameters", ())),
        request_model=_request_model(node),
        needs_key=bool(node.get("security")),
    )


def _request_model(node: Json) -> str | None:
    if "requestBody" not in node:
        return None
    reference: str = node["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    return reference.rpartition("/")[2]
