"""What of `params.docdb` and `params.collation` reaches which call of the driver."""

from __future__ import annotations

import pytest
from pymongo import ReturnDocument

from alula._context import Params
from alula.adapters.mongodb._options import driver_options, upsert_options
from alula.adapters.mongodb._queries import with_docdb_range
from alula.query import Query

COLLATION = {"locale": "en", "strength": 2}
CALLS = [
    "find", "aggregate", "count", "get", "insert", "change", "replace", "delete",
    "select_many", "create_many", "patch_many", "remove_many",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_there_are_none_where_none_are_given(call):
    assert driver_options(call, Params()) == {}
    assert driver_options(call, Params(docdb={})) == {}


@pytest.mark.parametrize("call", CALLS)
def test_a_collation_is_for_find_patch_and_remove(call):
    found = driver_options(call, Params(collation=COLLATION))
    wanted = {"find", "aggregate", "count", "change", "delete", "select_many"}
    assert found == ({"collation": COLLATION} if call in wanted else {})


def test_an_option_of_the_driver_goes_before_the_param():
    own = {"locale": "de"}
    params = Params(collation=COLLATION, docdb={"collation": own})
    assert driver_options("find", params) == {"collation": own}
    assert driver_options("get", params) == {"collation": own}


@pytest.mark.parametrize("call", CALLS)
def test_a_session_takes_part_in_every_call(call):
    found = driver_options(call, Params(docdb={"session": "s"}))
    # Calls on several records hand it over apart: it may be one of their own.
    apart = {"select_many", "create_many", "patch_many", "remove_many"}
    assert found == ({} if call in apart else {"session": "s"})


@pytest.mark.parametrize("call", CALLS)
def test_an_upsert_concerns_writes_of_one_record(call):
    found = driver_options(call, Params(docdb={"upsert": True, "comment": "c"}))
    assert found == {"comment": "c"} | ({"upsert": True} if call in {"change", "replace"} else {})


def test_options_of_commands_bear_the_names_of_the_server():
    params = Params(docdb={"max_time_ms": 5, "allow_disk_use": True, "batch_size": 2})
    assert driver_options("find", params) == dict(params.docdb)
    assert driver_options("aggregate", params) == {
        "maxTimeMS": 5,
        "allowDiskUse": True,
        "batchSize": 2,
    }
    assert driver_options("change", params) == {"maxTimeMS": 5}


def test_a_name_that_no_call_knows_is_an_error():
    with pytest.raises(ValueError, match=r"params\.docdb has 'sesion'; .*session"):
        driver_options("find", Params(docdb={"sesion": 1}))


@pytest.mark.parametrize(
    ("name", "why"),
    [("return_document", "as it is after"), ("ordered", "or none"), ("filter", "params.query")],
)
def test_the_error_of_an_owned_option_names_the_way_to_set_it(name, why):
    with pytest.raises(ValueError, match=rf"params\.docdb has '{name}'; .*{why}"):
        driver_options("change", Params(docdb={name: 1}))


@pytest.mark.parametrize("call", ["find", "aggregate", "count", "change"])
@pytest.mark.parametrize(
    ("hint", "wanted"),
    [
        ("by_age", "by_age"),
        ([("age", 1), ("name", -1)], {"age": 1, "name": -1}),
        (["age", ("name", -1)], {"age": 1, "name": -1}),
        ({"age": 1}, {"age": 1}),
        (None, None),
    ],
)
def test_an_index_has_the_forms_that_the_driver_knows(call, hint, wanted):
    assert driver_options(call, Params(docdb={"hint": hint})) == {"hint": wanted}


@pytest.mark.parametrize("call", CALLS)
def test_order_and_range_go_with_the_query(call):
    assert driver_options(call, Params(docdb={"sort": "a", "limit": 1, "skip": 1})) == {}


@pytest.mark.parametrize(
    ("docdb", "query", "wanted"),
    [
        (None, Query(limit=5), Query(limit=5)),
        ({"comment": "c"}, Query(limit=5), Query(limit=5)),
        ({"limit": 2}, Query(), Query(limit=2)),
        ({"limit": 2}, Query(limit=5), Query(limit=2)),
        ({"limit": 9}, Query(limit=5), Query(limit=5)),
        ({"limit": 9}, Query(limit=0), Query(limit=0)),
        ({"limit": -2}, Query(), Query(limit=2)),
        ({"limit": 0}, Query(limit=5), Query(limit=5)),
        ({"limit": None, "skip": None, "sort": None}, Query(), Query()),
        ({"skip": 3}, Query(limit=5), Query(limit=5, skip=3)),
        ({"skip": 3}, Query(skip=1), Query(skip=1)),
        ({"sort": [("a", 1), ("b", -1)]}, Query(), Query(sort=(("a", 1), ("b", -1)))),
        ({"sort": "a"}, Query(), Query(sort=(("a", 1),))),
        ({"sort": {"a": -1}}, Query(), Query(sort=(("a", -1),))),
        ({"sort": ["a", "b"]}, Query(), Query(sort=(("a", 1), ("b", 1)))),
        ({"sort": "a"}, Query(sort=(("b", -1),)), Query(sort=(("b", -1),))),
    ],
)
def test_the_query_goes_before_order_and_range_of_the_driver(docdb, query, wanted):
    assert with_docdb_range(query, Params(docdb=docdb)) == wanted


def test_an_upsert_of_a_query_has_the_options_of_a_change():
    docdb = {"upsert": True, "session": "s", "projection": ["a"], "comment": "c"}
    assert upsert_options(Params(docdb=docdb, collation=COLLATION)) == {
        "upsert": True,
        "comment": "c",
        "collation": COLLATION,
        "return_document": ReturnDocument.AFTER,
    }
    for none in (None, {}, {"upsert": False}, {"comment": "c"}):
        assert upsert_options(Params(docdb=none)) is None
