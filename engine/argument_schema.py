"""JSON Schemas of tool arguments, brought into the form that constrained decoding can follow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

# Whitespace is bounded, or a weak model fills its answer with it. The separators are patterns:
# some families were trained with a space there, others without.
_OPTIONS = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
    "coerce_one_of": True,
    "lenient": True,
}
ANY_OBJECT: dict[str, Any] = {"type": "object"}
LIMITS = LLParserLimits(verbose_errors=False)

_LONGEST = 2**18
_INT64 = range(-(2**63), 2**63)
_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NODES = frozenset(
    {"items", "additionalProperties", "additionalItems", "contains", "propertyNames", "not"}
)
_VALUES = frozenset({"const", "enum"})
_SIZES = frozenset({"minLength", "maxLength", "minItems", "maxItems"})
_LARGEST_SIZE = 2**20
# They change what is understood, not what is valid, or are not ours to follow.
_DROPPED = frozenset(
    {
        *("title", "description", "default", "examples", "$comment", "$schema", "$id", "$anchor"),
        *("x-guidance", "nullable", "deprecated", "readOnly", "writeOnly", "strict"),
    }
)
# What may ask for properties that are not listed beside it.
_OPEN_ENDED = frozenset(
    {
        *("additionalProperties", "patternProperties", "anyOf", "oneOf", "allOf", "$ref"),
        *("if", "dependentRequired", "dependentSchemas", "dependencies"),
    }
)
# What makes most of the schemas that cannot be followed impossible to follow.
_DEMANDING = frozenset(
    {
        *("pattern", "patternProperties", "propertyNames", "format", "multipleOf", "not"),
        *("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minItems", "maxItems", "uniqueItems", "contains"),
    }
)


def usable_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """A schema of `parameters` objects that compiles; any object's if nothing closer does."""
    try:
        text = json.dumps(parameters)
    except (RecursionError, TypeError, ValueError):
        return ANY_OBJECT
    return _usable(text)


def usable_value_schema(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    """The same for the value of one argument; `root` is the usable schema of all of them."""
    definitions = {name: root[name] for name in ("$defs", "definitions") if name in root}
    value = {**schema, **definitions} if isinstance(schema, dict) else {}
    return value if _compiles(json.dumps(value)) else {}


def json_rule(schema: dict[str, Any]) -> str:
    """The grammar term for JSON text that is valid under a usable schema."""
    return "%json " + json.dumps({**schema, "x-guidance": _OPTIONS})


@lru_cache(maxsize=512)
def _usable(text: str) -> dict[str, Any]:
    if len(text) > _LONGEST:
        return ANY_OBJECT
    try:
        return next(s for s in _candidates(json.loads(text)) if _compiles(json.dumps(s)))
    except (RecursionError, StopIteration):
        return ANY_OBJECT


def _candidates(schema: Any) -> Iterator[dict[str, Any]]:
    """Ever looser readings of a schema."""
    for dropped in (_DROPPED, _DROPPED | _DEMANDING):
        cleaned = _clean(schema, dropped)
        if isinstance(cleaned, dict):
            yield _closed({**cleaned, "type": "object"})


@lru_cache(maxsize=512)
def _compiles(text: str) -> bool:
    # Over the 256 bytes as tokens: some faults show only when the first token is asked for.
    grammar = LLMatcher.grammar_from_lark("start: " + json_rule(json.loads(text)))
    matcher = LLMatcher(_byte_tokenizer(), grammar, log_level=0, limits=LIMITS)
    return not matcher.is_error() and any(matcher.compute_bitmask()) and not matcher.is_error()


@cache
def _byte_tokenizer() -> LLTokenizer:
    return LLTokenizer("byte")


@lru_cache(maxsize=1024)
def _is_pattern(pattern: str) -> bool:
    try:
        return not LLMatcher.validate_grammar(LLMatcher.grammar_from_regex(pattern), None)
    except UnicodeError:  # half a surrogate pair
        return False


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    # Authors who list properties mean these; left open, a weak model never stops adding others.
    listed = schema.get("properties")
    if not isinstance(listed, dict) or not _OPEN_ENDED.isdisjoint(schema):
        return schema
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(name in listed for name in required):
        return schema
    return {**schema, "additionalProperties": False}


def _clean(schema: Any, dropped: frozenset[str]) -> Any:
    """The schema without what cannot be followed, at every depth; OpenAPI's nullable as a type."""
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key not in dropped and _is_usable(key, value):
            kept[_modern(key, value)] = _clean_value(key, value, dropped)
    if schema.get("nullable") is True:
        return {"anyOf": [kept, {"type": "null"}]}
    return kept


def _clean_value(key: str, value: Any, dropped: frozenset[str]) -> Any:
    if key in _MAPS and isinstance(value, dict):
        names = [n for n in value if key != "patternProperties" or _is_pattern(n)]
        return {name: _clean(value[name], dropped) for name in names}
    if key in _LISTS | _NODES and isinstance(value, list):
        return [_clean(item, dropped) for item in value]
    return _clean(value, dropped) if key in _NODES else value


def _modern(key: str, value: Any) -> str:
    # The list form of `items` got a name of its own in draft 2020-12.
    return "prefixItems" if key == "items" and isinstance(value, list) else key


def _is_usable(key: str, value: Any) -> bool:
    if key == "pattern":
        return isinstance(value, str) and _is_pattern(value)
    if key == "$ref":
        return isinstance(value, str) and value.startswith("#")
    if key == "type":
        names = value if isinstance(value, list) else [value]
        return bool(names) and all(isinstance(n, str) and n in _TYPES for n in names)
    if key in _SIZES:
        return isinstance(value, int) and 0 <= value <= _LARGEST_SIZE
    if key in _VALUES:
        return value != [] and all(n in _INT64 for n in _integers(value))
    return value != [] or key not in _LISTS


def _integers(value: Any) -> Iterator[int]:
    """All integers in a JSON value; those beyond 64 bits would be rounded."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _integers(item)
