"""What a query may look at in long lists, and what counts for how much."""

from __future__ import annotations

from math import inf

import pytest

from alula.errors import BadRequest
from alula.query import SUPPORTED_OPERATORS, Grammar, predicate
from alula.query._match import _weight_of
from alula.query._query import FREE_TESTS, MANY_CONDITIONS, SHORT_LIST, Budget

grammar = Grammar(operators=SUPPORTED_OPERATORS)
LIST = list(range(2000))
OBJECTS = [{"x": number, "many": LIST[:2]} for number in LIST]
RECORD = {
    "n": LIST,
    "s": [str(number) for number in LIST],
    "o": OBJECTS,
    "deep": {"n": LIST, "o": OBJECTS},
    "inner": [{"n": LIST[:20]} for _ in range(1000)],
    "lists": [LIST[:100] for _ in range(20)],
    "short": LIST[:10],
    "longest": LIST[:SHORT_LIST],
}


def steps_of(raw, record=RECORD):
    """Return the least number of steps with which a query is answered."""
    criteria = grammar.read(raw).criteria
    low, high = 0, 2**15
    while low < high:
        middle = (low + high) // 2
        try:
            predicate(criteria, middle)(record)
        except BadRequest:
            low = middle + 1
        else:
            high = middle
    return low


def test_without_a_limit_nothing_is_refused():
    budget = Budget()
    budget.spend(10**9)
    assert predicate(grammar.read({"$or": [{"o.x": -1}] * 20}).criteria)(RECORD) is False


def test_a_limit_is_for_all_records_together():
    meets = predicate(grammar.read({"n": -1}).criteria, 3 * len(LIST))
    assert [meets(RECORD) for _ in range(3)] == [False] * 3
    with pytest.raises(BadRequest, match="too many conditions for these records"):
        meets(RECORD)


@pytest.mark.parametrize(
    "raw",
    [
        {"short": -1},
        {"short": {"$gt": 100}},
        {"short": "x"},
        {"deep.absent": 1},
        {"absent": {"$nin": [1, 2]}},
        {"n.5": 5},
        {"$or": [{"short.x": number} for number in range(FREE_TESTS)]},
    ],
)
def test_what_is_short_does_not_count(raw):
    small = {**RECORD, "n": LIST[:10]}
    assert steps_of(raw, small) == 0


@pytest.mark.parametrize(
    ("raw", "steps"),
    [
        ({"n": -1}, 2000),
        ({"s": "x"}, 2000),
        ({"n": {"$gt": 9999}}, 2000),
        ({"n": {"$in": [-1, -2, "a"]}}, 2000),
        ({"n": {"$in": [{"a": 1}, {"a": 2}, 3]}}, 6000),
        ({"n": {"$size": 3}}, 2000),
        ({"deep.n": -1}, 2000),
        ({"deep.n": {"$size": 3}}, 2000),
        ({"o.x": -1}, 4000),
        ({"deep.o.x": -1}, 4000),
        ({"o.x": {"$in": [{"a": 1}, {"a": 2}]}}, 2000 + 3 * 2000),
        ({"o.x.y": -1}, 4000),
        ({"inner.n": -1}, 1000 + 21 * 1000),
        ({"inner.n.x": -1}, 1000 + 20 * 1000),
        ({"lists.0.x": -1}, 120),
        ({"short": -1}, 0),
        ({"n": -1, "s": {"$ne": "x"}}, 2000),
        ({"$or": [{"n": -1}, {"s": "x"}]}, 4000),
        ({"o": {"$elemMatch": {"x": -1, "$or": [{"x": -2}, {"x": {"$lt": 0, "$gt": 9}}]}}}, 8000),
        ({"n": {"$elemMatch": {"$gt": 9999, "$lt": 5}}}, 4000),
    ],
)
def test_every_element_counts_once_for_each_test(raw, steps):
    assert steps_of(raw) == steps


@pytest.mark.parametrize(
    ("name", "wanted", "weight"),
    [("$eq", [1, 2], 1), ("$in", [1, "a", 2.5], 1), ("$in", [True, None, {}], 4), ("$in", [], 1)],
)
def test_strings_and_numbers_are_one_look(name, wanted, weight):
    assert _weight_of(name, wanted) == weight


class TestManyConditions:
    """A query that is long itself pays for each record, and for short lists, too."""

    def test_each_record_counts(self):
        raw = {"$or": [{"absent": number} for number in range(MANY_CONDITIONS + 1)]}
        assert steps_of(raw, {"a": 1}) == MANY_CONDITIONS + 1

    def test_and_every_list(self):
        raw = {"$or": [{"short": -1} for _ in range(MANY_CONDITIONS + 1)]}
        assert steps_of(raw) == (MANY_CONDITIONS + 1) * (1 + len(RECORD["short"]))

    def test_values_of_one_condition_are_no_conditions(self):
        assert steps_of({"a": {"$in": list(range(1000))}}, {"a": 1}) == 0

    def test_of_fewer_each_list_counts_behind_the_first_conditions(self):
        for test, more in ((-1, 3), ("x", 2), ({"$gt": 10**6}, 5)):
            raw = {"$or": [{"longest": test} for _ in range(FREE_TESTS + more)]}
            assert steps_of(raw) == more * SHORT_LIST
        raw = {"$or": [{"inner.absent": 1} for _ in range(FREE_TESTS + 1)]}
        assert steps_of(raw, {"inner": [{}] * 10}) == 20

    def test_without_a_limit_nothing_is_counted(self):
        criteria = grammar.read({"$or": [{"absent": 1}] * (MANY_CONDITIONS + 1)}).criteria
        budget = Budget()
        assert predicate(criteria, budget)({"absent": 1})
        assert budget.steps_left == inf
