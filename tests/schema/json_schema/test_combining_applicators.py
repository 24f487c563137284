"""Checks made of other checks: what they say, and which branch converts."""

from __future__ import annotations

import pytest
from tests.schema.failures import brief, report

from alula.schema import Validator


def converted(schema, value):
    return Validator(schema, coerce=True).validate(value)


def test_any_of_reports_the_failures_of_all_branches():
    schema = {"anyOf": [{"type": "integer"}, {"minLength": 5}]}
    found = report(schema, "a")
    assert brief(found) == [
        ("", "#/anyOf/0/type", "type"),
        ("", "#/anyOf/1/minLength", "minLength"),
        ("", "#/anyOf", "anyOf"),
    ]
    assert found[-1]["message"] == "must match a schema in anyOf"
    assert found[-1]["params"] == {}
    assert report(schema, 5) == []
    assert report(schema, "abcde") == []


def test_one_of_reports_which_branches_passed():
    schema = {"oneOf": [{"minimum": 1}, {"minimum": 2}, {"minimum": 3}]}
    (failure,) = [each for each in report(schema, 3) if each["keyword"] == "oneOf"]
    assert failure["params"] == {"passingSchemas": [0, 1]}
    assert failure["message"] == "must match exactly one schema in oneOf"
    assert report(schema, 1) == []
    assert report(schema, 0)[-1]["params"] == {"passingSchemas": None}


def test_all_of_reports_the_failures_of_each():
    found = report({"allOf": [{"minimum": 5}, {"multipleOf": 2}, True]}, 3)
    assert brief(found) == [
        ("", "#/allOf/0/minimum", "minimum"),
        ("", "#/allOf/1/multipleOf", "multipleOf"),
    ]


def test_not():
    assert brief(report({"not": {"type": "string"}}, "a")) == [("", "#/not", "not")]
    assert report({"not": {"type": "string"}}, "a")[0]["message"] == "must NOT be valid"
    assert report({"not": {"type": "string"}}, 5) == []


CONDITION = {"if": {"minimum": 5}, "then": {"multipleOf": 2}, "else": {"multipleOf": 3}}


class TestConditions:
    def test_lead_to_one_schema_or_the_other(self):
        assert report(CONDITION, 6) == []
        assert report(CONDITION, 3) == []
        then, otherwise = report(CONDITION, 7), report(CONDITION, 4)
        assert brief(then) == [("", "#/then/multipleOf", "multipleOf"), ("", "#/if", "if")]
        assert then[1]["params"] == {"failingKeyword": "then"}
        assert then[1]["message"] == 'must match "then" schema'
        assert brief(otherwise) == [("", "#/else/multipleOf", "multipleOf"), ("", "#/if", "if")]
        assert otherwise[1]["message"] == 'must match "else" schema'

    @pytest.mark.parametrize("missing", ["then", "else"])
    def test_need_not_lead_to_both(self, missing):
        schema = {name: CONDITION[name] for name in CONDITION if name != missing}
        assert bool(report(schema, 7)) is (missing == "else")
        assert bool(report(schema, 4)) is (missing == "then")

    def test_alone_mean_nothing(self):
        assert report({"if": False}, 5) == []
        assert report({"then": False, "else": False}, 5) == []


NUMBER, BOOLEAN, STRING = {"type": "number"}, {"type": "boolean"}, {"type": "string"}

CONVERTING = [
    ({"anyOf": [NUMBER, BOOLEAN]}, "5", 5),
    ({"anyOf": [NUMBER, BOOLEAN]}, "true", True),
    ({"anyOf": [STRING, NUMBER]}, "5", "5"),
    ({"anyOf": [{"type": "number", "minimum": 9}, STRING]}, "5", "5"),
    ({"oneOf": [NUMBER, BOOLEAN]}, "true", True),
    ({"oneOf": [{"type": "number", "minimum": 9}, {"type": "number", "maximum": 5}]}, "5", 5),
    ({"allOf": [NUMBER, {"minimum": 2}]}, "5", 5),
    ({"not": NUMBER}, "x", "x"),
    ({"if": NUMBER, "then": {"minimum": 2}}, "5", 5),
    ({"if": {"type": "number", "minimum": 9}, "then": True}, "5", "5"),
    ({"if": NUMBER, "then": True, "else": BOOLEAN}, "true", True),
]


@pytest.mark.parametrize(("schema", "value", "wanted"), CONVERTING)
def test_the_branch_that_counts_converts(schema, value, wanted):
    found = converted(schema, value)
    assert found == wanted
    assert type(found) is type(wanted)


def test_a_branch_that_fails_leaves_no_trace():
    inner = {"type": "object", "properties": {"a": NUMBER, "b": False}}
    schema = {"anyOf": [inner, {"type": "object", "properties": {"b": NUMBER}}]}
    value = {"a": "1", "b": "2"}
    assert converted(schema, value) == {"a": "1", "b": 2}
    assert converted({"not": inner}, value) is value
    assert converted({"oneOf": [inner, True]}, value) is value
