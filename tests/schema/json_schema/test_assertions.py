"""Checks of equality, multiples, patterns and formats, with the messages that front ends show."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.schema.failures import report

STRINGS = [
    ({"multipleOf": 2}, 3, "multipleOf", {"multipleOf": 2}, "must be multiple of 2"),
    ({"pattern": "^a"}, "b", "pattern", {"pattern": "^a"}, 'must match pattern "^a"'),
    ({"format": "date"}, "b", "format", {"format": "date"}, 'must match format "date"'),
]

EQUALITY = [
    ({"const": [1]}, [True], "const", {"allowedValue": [1]}, "must be equal to constant"),
    (
        {"enum": ["a", 1]},
        "b",
        "enum",
        {"allowedValues": ["a", 1]},
        "must be equal to one of the allowed values",
    ),
]


@pytest.mark.parametrize(("schema", "value", "keyword", "params", "message"), STRINGS + EQUALITY)
def test_failures_have_keyword_params_and_message(schema, value, keyword, params, message):
    assert report({"properties": {"a/b": schema}}, {"a/b": value}) == [
        {
            "instancePath": "/a~1b",
            "schemaPath": f"#/properties/a~1b/{keyword}",
            "keyword": keyword,
            "params": params,
            "message": message,
        }
    ]


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"multipleOf": 2}, [0, -4, 2.0, "3"]),
        ({"multipleOf": 0.1}, [0.3, 1.1, 5, Decimal("0.7")]),
        ({"multipleOf": 0.01}, [19.99, 1e300]),
        ({"pattern": "a"}, ["bab", 5, None]),
        ({"const": {"a": 1.0}}, [{"a": 1}]),
        ({"enum": ["a", 1, None, [2]]}, ["a", 1.0, None, [2.0]]),
    ],
)
def test_finds_nothing_wrong(schema, values):
    for value in values:
        assert report(schema, value) == []


@pytest.mark.parametrize("value", [0.35, 19.999, 1])
def test_decimals_that_are_no_multiples(value):
    assert len(report({"multipleOf": 0.3}, value)) == 1
