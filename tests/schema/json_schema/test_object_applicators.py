"""Checks of objects."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from tests.schema.failures import brief, report

from alula.schema import Validator


@pytest.mark.parametrize(
    ("schema", "value", "params", "message"),
    [
        (
            {"required": ["a", "b"]},
            {"a": 1},
            {"missingProperty": "b"},
            "must have required property 'b'",
        ),
        (
            {"properties": {"a": True}, "additionalProperties": False},
            {"a": 1, "b": 2},
            {"additionalProperty": "b"},
            "must NOT have additional properties",
        ),
        (
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1},
            {"property": "a", "missingProperty": "b", "depsCount": 1, "deps": "b"},
            "must have property b when property a is present",
        ),
        (
            {"dependentRequired": {"a": ["b", "c"]}},
            {"a": 1, "b": 1},
            {"property": "a", "missingProperty": "c", "depsCount": 2, "deps": "b, c"},
            "must have properties b, c when property a is present",
        ),
    ],
)
def test_failures_have_keyword_params_and_message(schema, value, params, message):
    (failure,) = report({"properties": {"x": schema}}, {"x": value})
    assert failure["instancePath"] == "/x"
    assert failure["params"] == params
    assert failure["message"] == message


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"required": ["a"]}, [{"a": None}, "x", None]),
        ({"dependentRequired": {"a": ["b"]}}, [{}, {"b": 1}, {"a": 1, "b": 2}, "a"]),
        ({"dependentSchemas": {"a": False}}, [{}, {"b": 1}, "a"]),
        ({"propertyNames": {"maxLength": 1}}, [{"a": 1}, "ab", ["ab"]]),
        ({"properties": {"a": False}}, [{}, {"b": 1}, "a"]),
        ({"patternProperties": {"^a": False}}, [{"b": 1}, "a"]),
        ({"additionalProperties": False}, [{}, "a", object()]),
    ],
)
def test_finds_nothing_wrong(schema, values):
    for value in values:
        assert report(schema, value) == []


def test_all_failures_are_reported_at_once():
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"type": "object", "required": ["c"]}},
        "required": ["d"],
        "additionalProperties": False,
    }
    assert brief(report(schema, {"a": "x", "b": {}, "e": 1, "f": 2})) == [
        ("", "#/required", "required"),
        ("/a", "#/properties/a/type", "type"),
        ("/b", "#/properties/b/required", "required"),
        ("", "#/additionalProperties", "additionalProperties"),
        ("", "#/additionalProperties", "additionalProperties"),
    ]


def test_a_name_may_be_checked_by_several_schemas():
    schema = {
        "properties": {"ab": {"type": "integer"}},
        "patternProperties": {"^a": {"minimum": 5}, "b$": {"maximum": 3}},
        "additionalProperties": {"type": "null"},
    }
    assert brief(report(schema, {"ab": 4, "ax": 4, "x": 4})) == [
        ("/ab", "#/patternProperties/%5Ea/minimum", "minimum"),
        ("/ab", "#/patternProperties/b%24/maximum", "maximum"),
        ("/ax", "#/patternProperties/%5Ea/minimum", "minimum"),
        ("/x", "#/additionalProperties/type", "type"),
    ]


def test_an_invalid_name_is_reported_with_the_reason():
    found = report({"propertyNames": {"maxLength": 1}}, {"ab": 1, "c": 1})
    assert brief(found) == [
        ("", "#/propertyNames/maxLength", "maxLength"),
        ("", "#/propertyNames", "propertyNames"),
    ]
    assert [each.get("propertyName") for each in found] == ["ab", None]
    assert found[1]["params"] == {"propertyName": "ab"}
    assert found[1]["message"] == "property name must be valid"


INTEGER = {"type": "integer"}
CONVERTING = [
    ({"properties": {"a": INTEGER}}, {"a": "1", "b": "2"}, {"a": 1, "b": "2"}),
    ({"patternProperties": {"^a": INTEGER}}, {"ab": "1", "b": "2"}, {"ab": 1, "b": "2"}),
    ({"additionalProperties": INTEGER}, {"a": "1"}, {"a": 1}),
    (
        {"dependentSchemas": {"a": {"properties": {"b": INTEGER}}}},
        {"a": "1", "b": "2"},
        {"a": "1", "b": 2},
    ),
    ({"properties": {"a": {"properties": {"b": INTEGER}}}}, {"a": {"b": "1"}}, {"a": {"b": 1}}),
]


@pytest.mark.parametrize(("schema", "value", "wanted"), CONVERTING)
def test_converts_into_a_new_object(schema, value, wanted):
    before = str(value)
    found = Validator(schema, coerce=True).validate(MappingProxyType(value))
    assert found == wanted
    assert str(value) == before


@pytest.mark.parametrize("schema", [schema for schema, _, _ in CONVERTING])
def test_returns_the_very_object_where_nothing_is_converted(schema):
    value = {"a": 1, "b": 2}
    assert Validator(schema, coerce=True).validate(value) is value


def test_several_converted_properties_are_all_in_the_one_new_object():
    found = Validator({"additionalProperties": INTEGER}, coerce=True).validate({"a": "1", "b": "2"})
    assert found == {"a": 1, "b": 2}


WITH_DEFAULTS = {
    "properties": {"a": {"default": []}, "b": {"type": "integer", "default": 5}, "c": True},
    "required": ["a", "b"],
}


class TestDefaults:
    def test_take_the_place_of_what_is_absent(self):
        value = {"b": 1}
        assert Validator(WITH_DEFAULTS).validate(value) == {"b": 1, "a": []}
        assert value == {"b": 1}

    def test_are_copies(self):
        validator = Validator(WITH_DEFAULTS)
        validator.validate({})["a"].append(1)
        assert validator.validate({}) == {"a": [], "b": 5}

    def test_leave_a_value_alone_that_has_all(self):
        value = {"a": None, "b": 1}
        assert Validator(WITH_DEFAULTS).validate(value) is value
        assert Validator(WITH_DEFAULTS).validate("x") == "x"

    def test_can_be_left_out(self):
        assert brief(report(WITH_DEFAULTS, {"b": 1}, defaults=False)) == [
            ("", "#/required", "required")
        ]

    def test_fill_objects_inside_of_objects(self):
        schema = {"properties": {"x": {"properties": {"y": {"default": 1}}, "default": {}}}}
        assert Validator(schema).validate({}) == {"x": {"y": 1}}

    @pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
    def test_mean_nothing_in_a_branch_that_may_not_apply(self, keyword):
        schema = {keyword: [{"properties": {"a": {"default": 1}}}]}
        assert Validator(schema).validate({}) == {}

    def test_count_in_all_of_and_behind_a_reference(self):
        schema = {"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": WITH_DEFAULTS}}
        assert Validator(schema).validate({}) == {"a": [], "b": 5}
