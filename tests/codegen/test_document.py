from __future__ import annotations

import pytest

from codegen.document import Json, operations, resolve

DOCUMENT: Json = {
    "paths": {
        "/things/{id}": {
            "summary": "not an operation",
            "get": {
                "operationId": "get_thing",
                "summary": "A thing",
                "parameters": [
                    {"$ref": "#/components/parameters/Id"},
                    {"name": "x", "in": "header"},
                ],
            },
            "post": {
                "operationId": "change_thing",
                "summary": "Change",
                "security": [{"key": []}],
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}
                    }
                },
            },
        }
    },
    "components": {
        "parameters": {
            "Id": {"$ref": "#/components/parameters/Real~1Id"},
            "Real/Id": {"name": "id", "in": "path"},
        },
        "schemas": {"Thing": {"type": "object"}},
    },
}


def test_operations_come_in_order_with_their_path_parameters_and_body_models() -> None:
    found = [
        (op.operation_id, op.method, op.path, op.path_parameters, op.request_model, op.needs_key)
        for op in operations(DOCUMENT)
    ]
    assert found == [
        ("get_thing", "GET", "/things/{id}", ("id",), None, False),
        ("change_thing", "POST", "/things/{id}", (), "Thing", True),
    ]


def test_a_reference_is_followed_to_its_end() -> None:
    assert resolve(DOCUMENT, {"$ref": "#/components/parameters/Id"}) == {"name": "id", "in": "path"}


def test_a_reference_to_nothing_is_an_error() -> None:
    with pytest.raises(KeyError):
        resolve(DOCUMENT, {"$ref": "#/components/schemas/Nothing"})
