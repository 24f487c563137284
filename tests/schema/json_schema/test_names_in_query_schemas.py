"""Which operators and filters a query's schema names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alula.schema import Validator, get_validator, query_syntax
from alula.schema._json_schema.query_schema import beside_the_common, names_opened

SCHEMAS = Path(__file__).parents[2] / "conformance" / "schemas"

SIZE = {"$size": {"type": "integer"}}
OPENED = [
    (True, (), ()),
    ({"properties": {"$text": {}, "a": {}}}, (), ("$text",)),
    ({"properties": {"$limit": {}, "$or": {}, "a": {"properties": {"$gt": {}}}}}, (), ()),
    ({"properties": {"a": {"anyOf": [True, {"properties": SIZE}]}}}, ("$size",), ()),
    ({"allOf": [{"properties": {"$text": {"properties": SIZE}}}]}, ("$size",), ("$text",)),
    ({"anyOf": [True, {"oneOf": [{"properties": {"$text": {}}}]}]}, (), ("$text",)),
    ({"additionalProperties": {"properties": SIZE}}, ("$size",), ()),
    ({"$defs": {"x": {"properties": SIZE}}}, ("$size",), ()),
    ({"properties": {"properties": {"properties": SIZE}}}, ("$size",), ()),
    ({"properties": {"a": {"enum": [{"properties": 5}]}}}, (), ()),
]


@pytest.mark.parametrize(("schema", "operators", "filters"), OPENED)
def test_names(schema, operators, filters):
    assert names_opened(schema) == (set(operators), set(filters))
    validator = Validator(schema)
    assert (validator.operators, validator.filters) == (set(operators), set(filters))


@pytest.mark.parametrize(
    ("name", "operators"),
    [("validatedQuery", set()), ("eventQuery", {"$regex", "$options"}), ("atMongoQuery", set())],
)
def test_names_in_the_recorded_schemas(name, operators):
    schema = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    assert names_opened(schema) == (operators, set())


def test_names_of_extensions():
    schema = query_syntax({"a": {}}, {"a": SIZE, "$text": {"type": "object"}})
    validator = get_validator(schema)
    assert (validator.operators, validator.filters) == ({"$size"}, {"$text"})


def test_leaves_the_common_names_out():
    assert beside_the_common(["$gt", "$limit", "$or", "$x"]) == {"$x"}
