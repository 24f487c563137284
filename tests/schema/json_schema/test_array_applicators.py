"""Checks of lists."""

from __future__ import annotations

import pytest
from tests.schema.failures import brief, report

from alula.schema import Validator


@pytest.mark.parametrize(
    ("schema", "value", "params", "message"),
    [
        (
            {"uniqueItems": True},
            [1, 2, 1.0, 2],
            {"i": 3, "j": 1},
            "must NOT have duplicate items (items ## 1 and 3 are identical)",
        ),
        (
            {"contains": {"const": 1}},
            [],
            {"minContains": 1},
            "must contain at least 1 valid item(s)",
        ),
        (
            {"contains": {"const": 1}, "minContains": 1, "maxContains": 2},
            [1, 1, 1],
            {"minContains": 1, "maxContains": 2},
            "must contain at least 1 and no more than 2 valid item(s)",
        ),
        (
            {"prefixItems": [True], "items": False},
            [1, 2],
            {"limit": 1},
            "must NOT have more than 1 items",
        ),
    ],
)
def test_failures_have_keyword_params_and_message(schema, value, params, message):
    (failure,) = report(schema, value)
    assert failure["instancePath"] == ""
    assert failure["params"] == params
    assert failure["message"] == message


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"uniqueItems": True}, [[1, True, "1"], [[1], [2]], "aa", []]),
        ({"uniqueItems": False}, [[1, 1]]),
        ({"contains": {"const": 1}, "minContains": 0}, [[], [2]]),
        ({"contains": {"const": 1}, "minContains": 2}, [[1, 2, 1], "x"]),
        ({"items": {"type": "integer"}}, [[], [1, 2], "abc"]),
        ({"prefixItems": [{"type": "string"}]}, [["a", 5], [], "x"]),
        ({"prefixItems": [{"type": "string"}], "items": False}, [["a"], [], "x"]),
        ({"items": False}, [[]]),
    ],
)
def test_finds_nothing_wrong(schema, values):
    for value in values:
        assert report(schema, value) == []


def test_items_are_reported_by_their_index():
    assert brief(report({"items": {"type": "integer"}}, [1, "a", 2, "b"])) == [
        ("/1", "#/items/type", "type"),
        ("/3", "#/items/type", "type"),
    ]
    assert brief(report({"prefixItems": [True, {"type": "string"}], "items": False}, [1, 2])) == [
        ("/1", "#/prefixItems/1/type", "type")
    ]
    assert brief(report({"items": False}, [1])) == [("/0", "#/items/false schema", "false schema")]


def test_where_none_is_contained_the_reasons_are_reported():
    found = brief(report({"contains": {"type": "string"}}, [5]))
    assert found == [("/0", "#/contains/type", "type"), ("", "#/contains", "contains")]


CONVERTING = [
    ({"items": {"type": "integer"}}, ["1", 2, "3"], [1, 2, 3]),
    ({"items": {"type": "integer"}}, ("1", 2), [1, 2]),
    ({"prefixItems": [{"type": "integer"}]}, ["1", "2"], [1, "2"]),
    (
        {"prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}},
        ["1", "true"],
        [1, True],
    ),
    ({"prefixItems": [{"type": "integer"}], "items": False}, ["1"], [1]),
    ({"contains": {"type": "integer"}}, ["a", "1"], ["a", 1]),
]


@pytest.mark.parametrize(("schema", "value", "wanted"), CONVERTING)
def test_converts_into_a_new_list(schema, value, wanted):
    before = list(value)
    found = Validator(schema, coerce=True).validate(value)
    assert found == wanted
    assert list(value) == before


@pytest.mark.parametrize("schema", [schema for schema, _, _ in CONVERTING])
def test_returns_the_very_list_where_nothing_is_converted(schema):
    value = [1]
    assert Validator(schema, coerce=True).validate(value) is value
