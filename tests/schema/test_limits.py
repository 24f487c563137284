"""Where a check ends early, so that one request cannot hold up the others.

How long it takes is measured in `tests/robustness`.
"""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from alula.errors import BadRequest
from alula.schema import Validator, get_validator
from alula.schema._failures import MOST_COUNTED, MOST_LISTED

NAMES = [f"name{number}" for number in range(MOST_LISTED + 100)]


def refusal_of(validator, value) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        validator.validate(value)
    return caught.value


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": False},
        {"properties": {name: {"type": "string"} for name in NAMES}},
        {"propertyNames": {"maxLength": 1}},
    ],
)
def test_no_more_failures_are_looked_for_than_are_listed(schema):
    assert len(refusal_of(Validator(schema), dict.fromkeys(NAMES)).data) == MOST_LISTED


def test_no_more_items_are_checked_than_are_listed():
    for schema in ({"items": {"type": "string"}}, {"contains": {"type": "string"}}):
        assert len(refusal_of(Validator(schema), [1] * (MOST_LISTED * 2)).data) == MOST_LISTED


def test_branches_that_lead_to_one_reference_take_so_many_steps():
    below = {"type": "array", "items": {"$ref": "#"}}
    validator = Validator({"anyOf": [below, {**below, "minItems": 1}]})
    value: object = 5
    for _ in range(8):
        value = [value]
    assert refusal_of(validator, value).message == "validation failed"
    for _ in range(30):
        value = [value]
    assert "takes too long" in refusal_of(validator, value).message


@pytest.mark.parametrize("text", ["a" * 1_001, "(?i)a", "("])
def test_long_patterns_and_flags_are_not_of_the_format_regex(text):
    assert not Validator({"format": "regex"}).is_valid(text)
    assert Validator({"format": "regex"}).is_valid("a" * 1_000)


def test_so_many_regular_expressions_are_compiled():
    validator = Validator({"items": {"format": "regex"}})
    assert "takes too long" in refusal_of(validator, ["[a][b]"] * 200).message


def test_so_many_failures_of_a_model_are_counted():
    validator = get_validator(list[int])
    assert len(refusal_of(validator, ["x"] * MOST_COUNTED).data) == MOST_LISTED
    assert "too many failures" in refusal_of(validator, ["x"] * (MOST_COUNTED + 1)).message


class Node(BaseModel):
    next: object = None


def test_deep_data_of_a_model_is_refused():
    value: object = None
    for _ in range(5_000):
        value = [value]
    assert "nested too deeply" in refusal_of(get_validator(Node), {"next": value}).message
