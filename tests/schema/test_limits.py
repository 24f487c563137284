"""Where a check ends early, so that one request cannot hold up the others.

How long it takes is measured in `tests/robustness`.
"""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from alula.adapters.memory import MemoryService
from alula.errors import BadRequest
from alula.schema import Validator, _changes, get_validator
from alula.schema._failures import MOST_COUNTED, MOST_LISTED
from alula.schema._validators import records_of

NAMES = [f"name{number}" for number in range(MOST_LISTED + 100)]


class Tags(BaseModel):
    tags: list[int] = []


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


@pytest.mark.parametrize("model", ["schema", "model"])
@pytest.mark.parametrize(
    "data",
    [
        {f"{name}.a": 1 for name in NAMES},
        {"$set": dict.fromkeys(NAMES, 1)},
        {"$push": {"tags": {"$each": NAMES * 2}}},
    ],
    ids=["paths", "operators", "items"],
)
def test_no_more_changes_are_checked_than_are_listed(data, model, monkeypatch):
    schema = {"properties": {"tags": {"type": "array", "items": {"type": "integer"}}}}
    checked = []
    for name in ("failure", "_collected"):
        function = getattr(_changes, name)

        def counting(*given, function=function):
            checked.append(given)
            return function(*given)

        monkeypatch.setattr(_changes, name, counting)
    changes = records_of(schema if model == "schema" else Tags, MemoryService()).changes()
    assert len(refusal_of(changes, data).data) == MOST_LISTED
    assert len(checked) < MOST_LISTED + 5


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    "branches",
    [
        [{"items": {"type": "string"}}, {"items": {"type": "boolean"}}],
        [{"additionalProperties": {"type": "string"}}, {"propertyNames": {"maxLength": 1}}],
        [
            {"additionalProperties": {"type": "string"}},
            {"additionalProperties": {"type": "boolean"}},
        ],
    ],
)
def test_many_failures_of_one_branch_do_not_let_another_pass(keyword, branches):
    others = [f"name{number}" for number in range(MOST_LISTED * 2)]
    value = [True, *[1] * len(others)]
    if "items" not in branches[0]:
        value = {"a": True, **dict.fromkeys(others, 1)}
    listed = refusal_of(Validator({keyword: branches}), value).data
    assert len(listed) == MOST_LISTED


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
