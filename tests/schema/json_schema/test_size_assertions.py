"""Checks of how great a number is, and how long a string, a list or an object."""

from __future__ import annotations

from decimal import Decimal
from types import MappingProxyType

import pytest
from tests.schema.failures import brief, report

NUMBERS = [
    ({"minimum": 2}, 1, "minimum", {"comparison": ">=", "limit": 2}, "must be >= 2"),
    ({"maximum": 2}, 3, "maximum", {"comparison": "<=", "limit": 2}, "must be <= 2"),
    (
        {"exclusiveMinimum": 2},
        2,
        "exclusiveMinimum",
        {"comparison": ">", "limit": 2},
        "must be > 2",
    ),
    (
        {"exclusiveMaximum": 2},
        2,
        "exclusiveMaximum",
        {"comparison": "<", "limit": 2},
        "must be < 2",
    ),
]

SIZES = [
    ({"minLength": 2}, "ü", "minLength", {"limit": 2}, "must NOT have fewer than 2 characters"),
    ({"maxLength": 2}, "abc", "maxLength", {"limit": 2}, "must NOT have more than 2 characters"),
    ({"minItems": 2}, [1], "minItems", {"limit": 2}, "must NOT have fewer than 2 items"),
    ({"maxItems": 1}, [1, 2], "maxItems", {"limit": 1}, "must NOT have more than 1 items"),
    (
        {"minProperties": 1},
        {},
        "minProperties",
        {"limit": 1},
        "must NOT have fewer than 1 properties",
    ),
    (
        {"maxProperties": 0},
        {"a": 1},
        "maxProperties",
        {"limit": 0},
        "must NOT have more than 0 properties",
    ),
]


@pytest.mark.parametrize(("schema", "value", "keyword", "params", "message"), NUMBERS + SIZES)
def test_failures_have_keyword_params_and_message(schema, value, keyword, params, message):
    (failure,) = report({"properties": {"a": schema}}, {"a": value})
    assert brief([failure]) == [("/a", f"#/properties/a/{keyword}", keyword)]
    assert failure["params"] == params
    assert failure["message"] == message


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"minimum": 2}, [2, 2.5, Decimal(3), "1", None, True, []]),
        ({"maximum": 2}, [2, 1, "3"]),
        ({"exclusiveMinimum": 2}, [2.1, "1"]),
        ({"exclusiveMaximum": 2}, [1.9, "3"]),
        ({"minLength": 1, "maxLength": 2}, ["a", "😀😀", 5, []]),
        ({"minItems": 1, "maxItems": 2}, [[1], [1, 2], (1,), "abc", {}]),
        ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}, MappingProxyType({"a": 1}), "x", []]),
    ],
)
def test_finds_nothing_wrong(schema, values):
    for value in values:
        assert report(schema, value) == []


def test_the_limits_of_length_themselves_are_within():
    assert report({"minLength": 2, "maxLength": 2}, "ab") == []
    assert len(report({"minLength": 3, "maxLength": 1}, "ab")) == 2
