"""Random JSON Schemas of tool arguments that something is valid under."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

_NAMES = st.sampled_from(["a", "b", "path", "kind", "ü x"])
_PATTERNS = [r"^[a-z]+$", r"^\d{3,5}$", r"^(foo|bar)-\w+", r"[^a]x", r"^v\d+(\.\d+)*$", r"^\S.*\S$"]
_FORMATS = ["date", "date-time", "email", "uuid", "ipv4", "uri", "unheard-of"]


@st.composite
def _strings(draw: st.DrawFn) -> Schema:
    bounds = draw(st.sampled_from([{}, {"minLength": 4}, {"maxLength": 2}, {"maxLength": 0}]))
    kinds = [bounds, {"pattern": draw(st.sampled_from(_PATTERNS))}]
    kinds.append({"format": draw(st.sampled_from(_FORMATS))})
    return {"type": "string", **draw(st.sampled_from(kinds))}


@st.composite
def _numbers(draw: st.DrawFn) -> Schema:
    low = draw(st.integers(-50, 50))
    width = draw(st.integers(3, 20))
    lows = st.sampled_from([{}, {"minimum": low}, {"exclusiveMinimum": low}])
    highs = st.sampled_from([{}, {"maximum": low + width}, {"exclusiveMaximum": low + width}])
    step = draw(st.sampled_from([{}, {"multipleOf": 2}, {"multipleOf": 0.5}]))
    return {
        "type": draw(st.sampled_from(["integer", "number"])),
        **draw(lows),
        **draw(highs),
        **step,
    }


def _listed() -> st.SearchStrategy[Schema]:
    values = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["x", "y", [1]])
    return st.builds(lambda v: {"const": v}, values) | st.builds(
        lambda v: {"enum": v}, st.lists(values, min_size=1, max_size=3)
    )


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(_NAMES, inner, max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    schema: Schema = {"type": "object", "properties": properties, "required": required}
    if draw(st.booleans()):
        schema["additionalProperties"] = False
        schema["minProperties"] = draw(st.integers(0, len(properties)))
    elif draw(st.booleans()):
        schema |= {"minProperties": 3, "additionalProperties": draw(inner)}
    return schema


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    schema: Schema = {"type": "array", "items": draw(inner), "minItems": draw(st.integers(0, 3))}
    if draw(st.booleans()):
        # With strings, of which there are enough different ones.
        schema |= {"items": {"type": "string"}, "uniqueItems": True}
    elif draw(st.booleans()):
        schema |= {"contains": schema["items"]}
    elif draw(st.booleans()):
        schema |= {"prefixItems": [draw(inner)], "items": schema["items"]}
    return schema


def _joins(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    branches = st.lists(inner, min_size=1, max_size=3)
    nullable = st.sampled_from(["string", "integer", "object"]).map(
        lambda name: {"type": ["null", name]}
    )
    any_of = branches.map(lambda b: {"anyOf": b})
    all_of = inner.map(lambda s: {"allOf": [s, {"description": "the same"}]})
    recursive = st.just({"anyOf": [{"$ref": "#"}, {"type": "null"}]})
    reference = st.sampled_from(["leaf", "a/b"]).map(
        lambda n: {"$ref": "#/$defs/" + n.replace("/", "~1")}
    )
    return nullable | any_of | all_of | recursive | reference


_VALUES = st.recursive(
    _strings()
    | _numbers()
    | _listed()
    | st.sampled_from([{}, {"type": "boolean"}, {"type": "null"}]),
    lambda inner: _objects(inner) | _arrays(inner) | _joins(inner),
    max_leaves=8,
)


@st.composite
def argument_schemas(draw: st.DrawFn) -> Schema:
    """Draw the schema of a tool's arguments."""
    defs = {"leaf": draw(_strings()), "a/b": draw(_numbers())}
    return {**draw(_objects(_VALUES)), "$defs": defs}
