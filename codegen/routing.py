"""The routing view: what connexion loads, since it takes no OpenAPI 3.1 documents."""

from __future__ import annotations

import json

from codegen.document import Json, Operation, operations


def render_routing(document: Json, header: str) -> str:
    """Return an OpenAPI 3.0.3 document with the routes alone, as JSON text.

    A body is any object there and names its model by `x-model`: validation is the model's work.
    """
    paths: dict[str, Json] = {}
    for operation in operations(document):
        paths.setdefault(operation.path, {})[operation.method.lower()] = _view(operation)
    info = {key: document["info"][key] for key in ("title", "version")}
    view = {"x-generated": header, "openapi": "3.0.3", "info": info, "paths": paths}
    return json.dumps(view, indent=2) + "\n"


def _view(operation: Operation) -> Json:
    view: Json = {"operationId": operation.operation_id}
    if operation.parameters:
        view["parameters"] = [_parameter(node) for node in operation.parameters]
    if operation.request_model:
        schema = {"type": "object", "x-model": operation.request_model}
        content = {"application/json": {"schema": schema}}
        view["requestBody"] = {"required": True, "content": content}
    view["responses"] = {"200": {"description": operation.summary}}
    return view


def _parameter(node: Json) -> Json:
    return {key: node[key] for key in ("name", "in", "required", "schema") if key in node}
