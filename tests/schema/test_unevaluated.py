"""What no other keyword has looked at."""

from __future__ import annotations

import pytest
from tests.schema.told import brief, told

from alula.schema import Validator

A, B = ({"properties": {name: True}} for name in "ab")

SEEN = [
    ({"properties": {"a": True}}, {"a": 1}),
    ({"patternProperties": {"^a": True}}, {"ab": 1, "a": 1}),
    ({"additionalProperties": True}, {"a": 1, "b": 2}),
    ({"allOf": [A, B]}, {"a": 1, "b": 2}),
    ({"anyOf": [A, B]}, {"a": 1, "b": 2}),
    ({"oneOf": [A, False]}, {"a": 1}),
    ({"if": A, "then": B}, {"a": 1, "b": 2}),
    ({"if": {"required": ["b"]}, "else": A}, {"a": 1}),
    ({"dependentSchemas": {"a": A}}, {"a": 1}),
    ({"$ref": "#/$defs/a", "$defs": {"a": A}}, {"a": 1}),
    ({"allOf": [{"unevaluatedProperties": True}]}, {"a": 1}),
    ({"allOf": [True]}, {}),
]

UNSEEN = [
    ({"properties": {"a": True}}, {"b": 1}),
    ({"patternProperties": {"^a": True}}, {"b": 1}),
    ({"anyOf": [{**A, "required": ["x"]}, True]}, {"b": 1}),
    ({"oneOf": [{**B, "required": ["x"]}, True]}, {"b": 1}),
    ({"not": {"not": B}}, {"b": 1}),
    ({"if": {"required": ["a"]}, "then": B, "else": True}, {"b": 1}),
    ({"if": {"required": ["b"]}, "then": True, "else": B}, {"b": 1}),
    ({"dependentSchemas": {"a": B}}, {"b": 1}),
    ({"$ref": "#/$defs/a", "$defs": {"a": A}}, {"b": 1}),
]


@pytest.mark.parametrize(("schema", "value"), SEEN)
def test_properties_that_were_looked_at_may_be_there(schema, value):
    assert told({**schema, "unevaluatedProperties": False}, value) == []


@pytest.mark.parametrize(("schema", "value"), UNSEEN)
def test_properties_that_were_not_are_told(schema, value):
    found = told({**schema, "unevaluatedProperties": False}, value)
    assert brief(found) == [("", "#/unevaluatedProperties", "unevaluatedProperties")]
    assert found[0]["params"] == {"unevaluatedProperty": "b"}
    assert found[0]["message"] == "must NOT have unevaluated properties"


def test_the_rest_of_the_properties_may_have_a_schema():
    schema = {"anyOf": [A], "unevaluatedProperties": {"type": "integer"}}
    value = {"a": "x", "b/c": "5"}
    assert Validator(schema, coerce=True).validate(value) == {"a": "x", "b/c": 5}
    assert value == {"a": "x", "b/c": "5"}
    assert brief(told(schema, value)) == [("/b~1c", "#/unevaluatedProperties/type", "type")]


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_other_values_are_no_matter_of_theirs(keyword):
    for value in ("a", 5, None):
        assert told({keyword: False}, value) == []


def test_a_value_in_which_nothing_is_left_comes_back_itself():
    for keyword, value in (("unevaluatedProperties", {}), ("unevaluatedItems", [])):
        assert Validator({keyword: {"type": "integer"}}).validate(value) is value


ONE = {"prefixItems": [True]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (ONE, [1]),
        ({"items": True}, [1, 2]),
        ({"contains": {"const": 1}}, [1, 1]),
        ({"allOf": [ONE]}, [1]),
        ({"anyOf": [ONE, {"prefixItems": [True, True]}]}, [1, 2]),
        ({"allOf": [{"unevaluatedItems": True}]}, [1, 2]),
    ],
)
def test_items_that_were_looked_at_may_be_there(schema, value):
    assert told({**schema, "unevaluatedItems": False}, value) == []


@pytest.mark.parametrize(
    ("schema", "value", "most"),
    [
        (ONE, [1, 2, 3], 1),
        ({"contains": {"const": 2}}, [1, 2], 0),
        ({"anyOf": [{**ONE, "minItems": 5}, True]}, [1], 0),
    ],
)
def test_items_that_were_not_are_told(schema, value, most):
    found = told({**schema, "unevaluatedItems": False}, value)
    assert brief(found) == [("", "#/unevaluatedItems", "unevaluatedItems")]
    assert found[0]["params"] == {"limit": most}
    assert found[0]["message"] == f"must NOT have more than {most} items"


def test_the_rest_of_the_items_may_have_a_schema():
    schema = {"anyOf": [ONE], "unevaluatedItems": {"type": "integer"}}
    value = ["x", "5"]
    assert Validator(schema, coerce=True).validate(value) == ["x", 5]
    assert value == ["x", "5"]
    assert brief(told(schema, value)) == [("/1", "#/unevaluatedItems/type", "type")]


def test_looks_along_references_that_lead_back():
    schema = {
        "$ref": "#/$defs/node",
        "unevaluatedProperties": False,
        "$defs": {
            "node": {
                "properties": {"next": {"$ref": "#/$defs/node"}},
                "anyOf": [{"$ref": "#/$defs/leaf"}, True],
            },
            "leaf": {"properties": {"leaf": True}},
        },
    }
    assert told(schema, {"next": {"x": 1}, "leaf": 1}) == []
    assert len(told(schema, {"other": 1})) == 1
