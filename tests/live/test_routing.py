"""Which lists a change may concern: "no" only where every adapter says no."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal

import pytest

from alula._live._routing import Shelves, _cached_keys, may_match


@pytest.fixture(autouse=True)
def _no_forms_of_other_tests():
    _cached_keys.cache_clear()


RECORD = {"n": 5, "s": "Red", "done": False, "none": None, "list": [1]}


def near_in(shelves, record):
    found = {}
    shelves.add_near(record, found)
    return [*found]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, True),
        ({"$limit": 3, "$sort": {"n": 1}}, True),
        ({"n": 5}, True),
        ({"n": 6}, False),
        ({"n": "5"}, True),
        ({"n": "6"}, False),
        ({"n": "x"}, False),
        ({"n": 5.0}, True),
        ({"n": 10**400}, True),
        ({"n": Decimal(6)}, True),
        ({"n": {"$gt": 4}}, True),
        ({"n": {"$gt": 5}}, False),
        ({"n": {"$gte": "5"}}, True),
        ({"n": {"$lt": 5}}, False),
        ({"n": {"$lte": "x"}}, True),
        ({"n": {"$lt": True}}, True),
        ({"n": {"$in": [1, 2]}}, False),
        ({"n": {"$in": [1, "5"]}}, True),
        ({"n": {"$in": "5"}}, True),
        ({"n": {"$ne": 5}}, True),
        ({"s": "red"}, True),
        ({"s": "blue"}, False),
        ({"s": {"$gt": "z"}}, True),
        ({"s": 5}, False),
        ({"done": "false"}, True),
        ({"done": "true"}, True),
        ({"done": True}, False),
        ({"done": 0}, True),
        ({"done": {"$gt": 1}}, True),
        ({"none": 1}, True),
        ({"n": None}, True),
        ({"list": 1}, True),
        ({"missing": 1}, True),
        ({"a.b": 1}, True),
        ({"$or": [{"n": 6}, {"s": "red"}]}, True),
        ({"$or": [{"n": 6}, {"s": "blue"}]}, False),
        ({"$or": "?"}, True),
        ({"$and": [{"n": 5}, {"s": "blue"}]}, False),
        ({"$and": ["?", {"n": 5}]}, True),
        ({"$search": "x"}, True),
    ],
)
def test_may_match(query, expected):
    assert may_match(RECORD, query) is expected


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ({"n": 5}, [{"n": 5}, {"n": "5"}, {"n": None}, {}, {"n": Decimal(5)}], [{"n": 6}]),
        ({"n": {"$in": [5, 6]}}, [{"n": 6}], [{"n": 7}]),
        ({"done": "false"}, [{"done": False}, {"done": True}], [{"done": 7}]),
        ({"s": "a-b"}, [{"s": "AB"}, {"s": [1]}], [{"s": "c"}]),
        ({"$and": [{"s": "a"}, "?"]}, [{"s": "a"}], [{"s": "c"}]),
        ({"n": {"$in": []}}, [{}], [{"n": 1}]),
        ({"n": True}, [{"n": True}, {"n": "true"}, {"n": 1}], [{"n": False}, {"n": 2}]),
        # None of these is found by a value, so each change looks at them.
        ({"n": {"$gt": 1}}, [{"n": 0}], []),
        ({"n": {"$in": [*range(21)]}}, [{"n": 99}], []),
        ({"n": datetime.date(2026, 1, 1)}, [{"n": 1}], []),
        ({"n": uuid.UUID(int=1)}, [{"n": 1}], []),
        ({"a.b": 1}, [{"n": 1}], []),
    ],
)
def test_lists_stand_under_a_value_of_their_records(query, near, far):
    shelves = Shelves()
    shelves.put("list", query)
    assert all(near_in(shelves, record) == ["list"] for record in near)
    assert all(near_in(shelves, record) == [] for record in far)
    shelves.put("list", query)
    shelves.take("list")
    shelves.take("list")
    assert all(near_in(shelves, record) == [] for record in near)
    assert not any([shelves.scanned, shelves._by_value, shelves._all, shelves._places])


def test_a_list_stands_on_the_emptiest_shelf():
    shelves = Shelves()
    for number in range(5):
        shelves.put(number, {"team": "red"})
    shelves.put("list", {"team": "red", "user": 7})
    assert near_in(shelves, {"team": "red", "user": 8}) == [0, 1, 2, 3, 4]
    assert near_in(shelves, {"team": "blue", "user": 7}) == ["list"]
    shelves.take(0)
    assert near_in(shelves, {"team": "red", "user": 8}) == [1, 2, 3, 4]
