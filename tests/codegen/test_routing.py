from __future__ import annotations

import inspect
import json

from openapi_spec_validator import OpenAPIV30SpecValidator

from codegen.document import Json, operations
from codegen.routing import render_routing
from generated import models
from generated.routes import OPERATIONS, Handlers


def test_view_is_a_valid_3_0_document(document: Json) -> None:
    view = json.loads(render_routing(document, "header"))
    assert view["openapi"] == "3.0.3"
    OpenAPIV30SpecValidator(view).validate()


def test_every_operation_has_a_routing_entry(document: Json) -> None:
    view = json.loads(render_routing(document, "header"))
    routed = {
        (entry["operationId"], method.upper(), path)
        for path, item in view["paths"].items()
        for method, entry in item.items()
    }
    assert routed == {(op.operation_id, op.method, op.path) for op in operations(document)}


def test_a_body_names_its_model(document: Json) -> None:
    post = json.loads(render_routing(document, "header"))["paths"]["/v1/chat/completions"]["post"]
    schema = post["requestBody"]["content"]["application/json"]["schema"]
    assert schema == {"type": "object", "x-model": "ChatCompletionRequest"}


def test_every_operation_has_a_row_and_a_handler_method(document: Json) -> None:
    expected = [(op.operation_id, op.method, op.path) for op in operations(document)]
    assert [(op.operation_id, op.method, op.path) for op in OPERATIONS] == expected
    for operation in OPERATIONS:
        method = getattr(Handlers, operation.operation_id)
        assert inspect.iscoroutinefunction(method)
        names = [*operation.path_parameters, *(["request"] if operation.request_model else [])]
        assert list(inspect.signature(method).parameters) == ["self", *names]


def test_the_chat_operation_knows_its_model() -> None:
    row = next(op for op in OPERATIONS if op.operation_id == "create_chat_completion")
    assert row.request_model is models.ChatCompletionRequest
