"""Validators for the schemas of openapi.json, as JSON Schema itself reads them."""

from __future__ import annotations

from functools import cache

from jsonschema import Draft202012Validator

from mashbox.app import contract


@cache
def schema(name: str) -> Draft202012Validator:
    """The validator of one schema of the contract."""
    components = contract()["components"]
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": components})
