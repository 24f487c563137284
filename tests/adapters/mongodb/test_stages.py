"""From a query to stages, and a caller's own stages around them."""

from __future__ import annotations

import time

import pytest

from alula.adapters.mongodb._queries import (
    NOTHING,
    counting,
    projection_of,
    stages_of,
    with_caller_stages,
)
from alula.query import Grammar, Query

MARKER = {"$framework": {}}


@pytest.mark.parametrize(
    ("select", "wanted"),
    [
        (None, None),
        ((), {"_id": 1}),
        (("a",), {"a": 1, "_id": 1}),
        (("a", "a"), {"a": 1, "_id": 1}),
        (("a.b", "a", "a.b.c", "ab"), {"a": 1, "ab": 1, "_id": 1}),
        (("a.b", "a.c"), {"a.b": 1, "a.c": 1, "_id": 1}),
        (("_id.x", "a"), {"a": 1, "_id": 1}),
    ],
)
def test_a_projection_keeps_the_id_and_has_no_colliding_paths(select, wanted):
    assert projection_of(select, "_id") == wanted


def test_an_own_id_stands_for_the_one_of_the_database():
    assert projection_of(("a",), "key") == {"a": 1, "key": 1, "_id": 0}
    assert projection_of(("_id",), "key") == {"_id": 1, "key": 1}
    assert projection_of(("_id.x",), "key") == {"_id.x": 1, "key": 1}
    assert projection_of(None, "key") is None


def test_many_fields_take_no_long_time():
    names = [f"a{number}.b.c" for number in range(20_000)]
    start = time.process_time()
    projection_of(names, "_id")
    assert time.process_time() - start < 2


def test_stages_have_the_order_of_the_interface():
    query = Grammar().read({"a": 1, "$limit": 3, "$skip": 2, "$sort": {"b": -1, "a": 1}})
    assert stages_of(query, {"a": 1}, {"a": 1}) == [
        {"$match": {"a": 1}},
        {"$sort": {"b": -1, "a": 1}},
        {"$skip": 2},
        {"$limit": 3},
        {"$project": {"a": 1}},
    ]


def test_there_is_no_stage_that_does_nothing():
    assert stages_of(Query(), {}, None) == []


def test_a_limit_of_0_gives_nothing():
    assert stages_of(Query(limit=0), {"a": 1}, None) == [{"$match": NOTHING}]


STAGES = [{"$match": {"a": 1}}, {"$limit": 2}]
UNWIND = {"$unwind": "$b"}
ADD = {"$addFields": {"c": 1}}


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (None, STAGES),
        ([], STAGES),
        ([UNWIND], [*STAGES, UNWIND]),
        ([MARKER], STAGES),
        ([UNWIND, MARKER], [UNWIND, *STAGES]),
        ([MARKER, UNWIND], [*STAGES, UNWIND]),
        ([UNWIND, MARKER, ADD], [UNWIND, *STAGES, ADD]),
    ],
)
def test_the_marker_says_where_the_stages_go(own, wanted):
    before = None if own is None else list(own)
    assert with_caller_stages(STAGES, own) == wanted
    assert own == before


def test_counting_leaves_the_page_out():
    total = {"$count": "total"}
    assert counting({}, None) == [total]
    assert counting({"a": 1}, [UNWIND]) == [{"$match": {"a": 1}}, UNWIND, total]
    assert counting({"a": 1}, [UNWIND, MARKER]) == [UNWIND, {"$match": {"a": 1}}, total]
    assert counting({}, [UNWIND, MARKER]) == [UNWIND, total]
