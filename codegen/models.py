"""The generated models: schemas of openapi.json through datamodel-code-generator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from codegen.document import Json

TEMPLATES = Path(__file__).with_name("templates")

# Formatting is left to generate.py, whose ruff has settings that no surrounding folder changes.
_FLAGS = """
--input-file-type openapi
--output-model-type pydantic_v2.BaseModel
--target-python-version 3.11
--base-class generated._base.ApiModel
--use-annotated --field-constraints --use-standard-collections --use-union-operator
--enum-field-as-literal all --use-type-alias
--use-schema-description --use-field-description --use-double-quotes
--strict-types int float bool
--disable-timestamp --strict-refs --no-formatters --ignore-pyproject
"""

_OWN_NAMES = ("ByJsonType", "ByTypeField", "JsonArray", "NullIsDefault")
# pydantic's own strict types refuse 4.0 for an integer and take infinity for a number.
_OWN_TYPES = {"StrictInt": "generated._base", "StrictFloat": "generated._base"}


def write_models(document: Json, header: str, folder: Path) -> None:
    """Write models.py into a folder, unformatted.

    Raises ValueError for a schema that has no exact model, and CalledProcessError when the
    generator fails.
    """
    source = folder / "schemas.json"
    source.write_text(json.dumps(model_view(document)), encoding="utf-8")
    docstring = '"""Models of the schemas of openapi.json."""'
    command = [sys.executable, "-m", "datamodel_code_generator", *_FLAGS.split()]
    command += ["--input", source.name, "--output", "models.py"]
    command += ["--custom-template-dir", str(TEMPLATES / "models")]
    command += ["--additional-imports", ",".join(f"generated._base.{n}" for n in _OWN_NAMES)]
    command += ["--import-overrides", json.dumps(_OWN_TYPES)]
    command += ["--custom-file-header", f"# {header}\n{docstring}"]
    subprocess.run(command, cwd=folder, check=True)
    source.unlink()


def model_view(document: Json) -> Json:
    """Return the schemas in words that the generator turns into models of the same meaning."""
    schemas = document["components"]["schemas"]
    view = {name: _simplify(_one_union(schemas, schema)) for name, schema in schemas.items()}
    head = {key: document[key] for key in ("openapi", "info")}
    return {**head, "paths": {}, "components": {"schemas": view}}


def _one_union(schemas: Json, schema: Json) -> Json:
    """Put the members of the unions in a union beside its own: `ByTypeField` tells all apart."""
    if "oneOf" not in schema:
        return schema
    members: list[Json] = []
    for member in schema["oneOf"]:
        name = member["$ref"].rpartition("/")[2]
        target = _one_union(schemas, schemas.get(name, {}))
        members += target.get("oneOf", [member])
    return {**schema, "oneOf": members}


def _simplify(schema: Json) -> Json:
    """Rewrite a schema and those inside it."""
    result = _plain_union(schema)
    if "properties" in result:
        result["properties"] = {k: _field(v) for k, v in result["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _simplify(result[key])
    if "anyOf" in result:
        result["anyOf"] = [_simplify(member) for member in result["anyOf"]]
    return _exact_constant(_default_for_null(result))


def _plain_union(schema: Json) -> Json:
    """Drop the discriminator: `ByTypeField` reads the members' `type` itself."""
    rest = {key: value for key, value in schema.items() if key not in ("oneOf", "discriminator")}
    return {**rest, "anyOf": schema["oneOf"]} if "oneOf" in schema else rest


def _field(schema: Json) -> Json:
    """Rewrite the schema of a field; pydantic's words for null are not JSON's."""
    if schema.get("type") == "null":
        return {**schema, "customTypePath": "generated._base.OnlyNull"}
    return _simplify(schema)


def _default_for_null(schema: Json) -> Json:
    """Drop null beside a default: `NullIsDefault` keeps it out of the field's type."""
    types = schema.get("type")
    if schema.get("default") is None or not isinstance(types, list):
        return schema
    rest = [name for name in types if name != "null"]
    return {**schema, "type": rest[0] if len(rest) == 1 else rest}


def _exact_constant(schema: Json) -> Json:
    """Put a number's constant into bounds and false into a type: `Literal` takes 1.0, true and 0.

    Raises ValueError for a constant that neither way fits.
    """
    constant = schema.get("const")
    if constant is None or isinstance(constant, str):
        return schema
    rest = {key: value for key, value in schema.items() if key != "const"}
    if constant is False:
        return {**rest, "customTypePath": "generated._base.OnlyFalse"}
    if isinstance(constant, int) and constant is not True:
        return {**rest, "minimum": constant, "maximum": constant}
    raise ValueError(f"no exact model for the constant {constant!r}")
