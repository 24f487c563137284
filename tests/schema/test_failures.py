"""Failures as they are told, and how checks are put together."""

from __future__ import annotations

import pytest

from alula.errors import BadRequest
from alula.query._query import MAX_STEPS
from alula.schema import Validator
from alula.schema._failures import MOST_LISTED, failure, refusal
from alula.schema._json_schema.compiler import accept, in_sequence, passes, work_limit
from alula.types import SchemaKeyword

ONE = failure("/a", "#/x/minimum", "minimum", {"limit": 1}, "must be >= 1")


def grown(value, path, failures):
    return value + 1


def wrong(value, path, failures):
    failures.append(failure(path, "#", "wrong", {"value": value}, "is wrong"))
    return value


def test_a_failure_has_the_five_names():
    assert ONE == {
        "instancePath": "/a",
        "schemaPath": "#/x/minimum",
        "keyword": "minimum",
        "params": {"limit": 1},
        "message": "must be >= 1",
    }


def test_the_error_lists_them():
    error = refusal([ONE])
    assert isinstance(error, BadRequest)
    assert (error.message, error.data) == ("validation failed", [ONE])


def test_the_error_lists_no_more_than_a_client_can_use():
    assert len(refusal([ONE] * (MOST_LISTED + 1)).data) == MOST_LISTED
    with pytest.raises(BadRequest) as caught:
        Validator({"items": False}).validate([0] * (MOST_LISTED * 2))
    assert len(caught.value.data) == MOST_LISTED


def test_in_sequence_each_gets_what_the_one_before_returned():
    failures = []
    assert in_sequence([grown, wrong, grown])(1, "/x", failures) == 3
    assert [each["params"] for each in failures] == [{"value": 2}]


def test_in_sequence_makes_nothing_of_nothing():
    assert in_sequence([]) is accept
    assert in_sequence([grown]) is grown
    assert accept(5, "", []) == 5


def test_passes():
    assert passes(accept, 5)
    assert not passes(wrong, 5, "/x")


def test_a_check_within_another_takes_from_the_same_steps():
    left = []

    def spend(value, _):
        work_limit.spend(10)
        left.append(work_limit.steps_left)
        Validator({"type": "integer"}).validate(value)
        left.append(work_limit.steps_left)
        return value

    keyword = SchemaKeyword("spend", spend, "must be good")
    Validator({"spend": True}, keywords=[keyword]).validate(1)
    assert left == [MAX_STEPS - 10, MAX_STEPS - 10]
    assert work_limit.steps_left is None
