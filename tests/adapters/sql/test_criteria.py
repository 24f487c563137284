"""Criteria of queries find the same records on both databases, by one text for each shape."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from types import MappingProxyType

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text
from tests.adapters.sql.people import GRAMMAR, PATHS, Store, people, store_of

from alula.adapters.sql._options import SQLOptions
from alula.adapters.sql._statements._reads import select_count, select_page
from alula.adapters.sql._statements._shapes import Shapes
from alula.adapters.sql._tables._tables import TableSource
from alula.errors import BadRequest
from alula.query import And, Query, Where

RECORDS = [
    {
        "name": "Ada", "age": 36, "score": 1.5, "price": "12.50", "active": True,
        "born": "1815-12-10", "seen": "2024-01-01T00:00:00Z", "raw": b"\x00\xff",
        "token": "00000000-0000-0000-0000-000000000001",
        "data": {"color": "red", "n": 5, "ok": True, "it's": "so", "list": [1, "x", {"a": 1}]},
        "tags": ["a", "b"], "marks": [1.0, 0.1],
    },
    {
        "name": "Zoë", "age": -7, "score": -0.1, "price": "-3", "active": False,
        "born": "2000-02-29", "seen": "2024-01-01T00:00:00.000001Z",
        "token": "00000000-0000-0000-0000-000000000002",
        "data": {"color": 5, "n": "5", "a": {"b": 2.5}}, "tags": ["b", 'c"{,'], "marks": [],
    },
    {"name": "zoE", "age": 7, "score": 1e300, "city": "Bergen", "data": [1, "x"], "tags": []},
    {"city": "100%", "data": "x"},
    {"name": "a_b\\", "tags": [None, "d"], "marks": [None], "data": {"a": 5, "n": 2.5}},
]  # fmt: skip


@pytest.fixture
async def store(sql_url):
    async with store_of(sql_url, paths=PATHS) as store:
        for record in RECORDS:
            await store.insert(record)
        yield store


CASES = [
    # Null equals itself, and is neither less nor greater than anything.
    ({"age": None}, [4, 5]),
    ({"age": {"$ne": None}}, [1, 2, 3]),
    ({"age": {"$gt": None}}, []),
    ({"age": {"$lt": None}}, []),
    ({"age": {"$gte": None}}, [4, 5]),
    ({"age": {"$lte": None}}, [4, 5]),
    ({"age": {"$ne": 36}}, [2, 3, 4, 5]),
    ({"age": {"$in": [36, None]}}, [1, 4, 5]),
    ({"age": {"$in": [None]}}, [4, 5]),
    ({"age": {"$in": []}}, []),
    ({"age": {"$nin": [36]}}, [2, 3, 4, 5]),
    ({"age": {"$nin": [36, None]}}, [2, 3]),
    ({"age": {"$nin": [None]}}, [1, 2, 3]),
    ({"age": {"$nin": []}}, [1, 2, 3, 4, 5]),
    ({"age": {"$null": True}}, [4, 5]),
    ({"age": {"$null": "false"}}, [1, 2, 3]),
    ({"age": {"$not": {"$gt": 0}}}, [2, 4, 5]),
    ({"age": {"$not": {"$ne": 7}}}, [3]),
    ({"age": {"$all": [7]}}, [3]),
    ({"age": {"$all": [7, 36]}}, []),
    ({"age": {"$all": []}}, []),
    ({"city": None}, []),
    ({"city": {"$ne": None}}, [1, 2, 3, 4, 5]),
    ({"city": {"$ne": "Oslo"}}, [3, 4]),
    ({"city": {"$nin": ["Oslo"]}}, [3, 4]),
    ({"city": {"$null": True}}, []),
    # What no value of a column can be has one outcome, also for null.
    ({"age": 5.5}, []),
    ({"age": {"$ne": 5.5}}, [1, 2, 3, 4, 5]),
    ({"age": {"$gt": 5.5}}, [1, 3]),
    ({"age": {"$lt": 2**70}}, [1, 2, 3]),
    ({"age": {"$gt": 2**70}}, []),
    ({"city": {"$gte": ""}}, [1, 2, 3, 4, 5]),
    ({"age": {"$in": [5.5, 7]}}, [3]),
    ({"age": {"$nin": [5.5]}}, [1, 2, 3, 4, 5]),
    # Values of each type, and the text of them.
    ({"age": {"$gte": "7"}}, [1, 3]),
    ({"score": {"$in": [-0.1, 1e300]}}, [2, 3]),
    ({"score": {"$lt": 1.5}}, [2]),
    ({"price": "12.5"}, [1]),
    ({"price": {"$lt": 0}}, [2]),
    ({"price": {"$in": ["-3.00", 12.5]}}, [1, 2]),
    ({"active": "true"}, [1]),
    ({"active": {"$ne": True}}, [2, 3, 4, 5]),
    ({"born": {"$gt": "1900-01-01"}}, [2]),
    ({"seen": {"$gt": "2024-01-01T00:00:00Z"}}, [2]),
    ({"seen": datetime(2024, 1, 1, tzinfo=UTC)}, [1]),
    ({"seen": {"$in": ["2024-01-01T01:00:00+01:00"]}}, [1]),
    ({"token": "00000000-0000-0000-0000-000000000002"}, [2]),
    ({"token": {"$in": ["00000000-0000-0000-0000-000000000002"]}}, [2]),
    ({"raw": b"\x00\xff"}, [1]),
    ({"raw": {"$in": [b"\x00\xff", b""]}}, [1]),
    ({"name": {"$gt": "Zoë"}}, [3, 5]),
    # Text.
    ({"name": {"$like": "_d%"}}, [1]),
    ({"name": {"$like": "a\\_%"}}, [5]),
    ({"name": {"$like": "a%\\\\"}}, [5]),
    ({"city": {"$like": "100\\%"}}, [4]),
    ({"name": {"$like": "ADA"}}, []),
    ({"name": {"$ilike": "zOË"}}, [2]),
    ({"name": {"$ilike": "zo_"}}, [2, 3]),
    ({"name": {"$notlike": "A%"}}, [2, 3, 4, 5]),
    ({"city": {"$notlike": "O%"}}, [3, 4]),
    # Several conditions.
    ({"name": "Ada", "age": {"$gt": 1, "$lt": 40}}, [1]),
    ({"$or": [{"name": "Ada"}, {"age": 7, "city": "Bergen"}, {"city": "x", "age": 1}]}, [1, 3]),
    ({"$or": [{"$and": [{"age": {"$lt": 0}}, {"name": {"$ne": None}}]}]}, [2]),
    ({"$and": [{"$or": [{"age": 7}, {"age": 36}]}, {"age": {"$gt": 10}}]}, [1]),
    # JSON.
    ({"data.color": "red"}, [1]),
    ({"data.color": {"$ne": "red"}}, [2, 3, 4, 5]),
    ({"data.n": 5}, [1]),
    ({"data.n": {"$lt": 5}}, [5]),
    ({"data.n": {"$in": [2.5, 5]}}, [1, 5]),
    ({"data.n": None}, [2, 3, 4]),
    ({"data.a.b": {"$gt": 2}}, [2]),
    ({"data.ok": "true"}, [1]),
    ({"data.it's": {"$like": "s%"}}, [1]),
    ({"data": "x"}, [3, 4]),
    ({"data": {"$ne": "x"}}, [1, 2, 5]),
    ({"data": {"$ne": None}}, [1, 2, 3, 4, 5]),
    ({"data": [1, "x"]}, [3]),
    ({"data": [1.0, "x"]}, [3]),
    ({"data": [True, "x"]}, []),
    ({"data": [1]}, []),
    ({"data": {"n": 2.5, "a": 5}}, [5]),
    ({"data": {"$ne": {"n": 2.5, "a": 5}}}, [1, 2, 3, 4]),
    ({"data": {"n": 2.5}}, []),
    ({"data": {"$in": ["x", None, [1, "x"]]}}, [3, 4]),
    ({"data": {"$in": [[1, "x"]]}}, [3]),
    ({"data": {"$in": []}}, []),
    ({"data": {"$nin": ["x"]}}, [1, 2, 5]),
    ({"data": {"$contains": {"a": {"b": 2.5}}}}, [2]),
    ({"data": {"$contains": {"list": [{"a": 1}]}}}, [1]),
    ({"data": {"$contains": ["x"]}}, [3]),
    ({"data": {"$contains": {"ok": 1}}}, []),
    ({"data": {"$overlaps": [1, 2, None]}}, [3]),
    ({"data": {"$overlaps": "x"}}, [3]),
    # Arrays: the array itself, or one of its elements.
    ({"tags": "b"}, [1, 2]),
    ({"tags": ["a", "b"]}, [1]),
    ({"tags": None}, [4, 5]),
    ({"tags": {"$ne": "b"}}, [3, 4, 5]),
    ({"tags": {"$ne": ["a", "b"]}}, [2, 3, 4, 5]),
    ({"tags": {"$in": ["a", None]}}, [1, 4, 5]),
    ({"tags": {"$in": [["a", "b"], "d"]}}, [1, 5]),
    ({"tags": {"$in": []}}, []),
    ({"tags": {"$nin": ["a", "d"]}}, [2, 3, 4]),
    ({"tags": {"$gt": "b"}}, [2, 5]),
    ({"tags": {"$all": ["a", "b"]}}, [1]),
    ({"tags": {"$contains": ["b", 'c"{,']}}, [2]),
    ({"tags": {"$contains": "b"}}, [1, 2]),
    ({"tags": {"$contains": []}}, [1, 2, 3, 5]),
    ({"tags": {"$contains": [None]}}, []),
    ({"tags": {"$overlaps": ["a", "d"]}}, [1, 5]),
    ({"tags": {"$overlaps": []}}, []),
    ({"tags": {"$overlaps": [None, "a"]}}, [1]),
    ({"tags": {"$overlaps": [None]}}, []),
    ({"tags": {"$like": "c%"}}, [2]),
    ({"tags": {"$notlike": "c%"}}, [1, 3, 4, 5]),
    ({"tags": {"$size": "2"}}, [1, 2, 5]),
    ({"tags": {"$elemMatch": {"$gt": "a", "$lt": "c"}}}, [1, 2]),
    ({"tags": {"$not": {"$in": ["a"]}}}, [2, 3, 4, 5]),
    ({"tags": {"$null": True}}, [4]),
    ({"marks": {"$lt": 1}}, [1]),
    ({"marks": {"$contains": [0.1]}}, [1]),
    ({"marks": {"$in": [0.1]}}, [1]),
]  # fmt: skip


async def test_criteria_find_the_same_on_both(store):
    wrong = []
    for query, expected in CASES:
        try:
            found = await store.find(**query)
        except Exception as error:
            found = error
        if found != expected:
            wrong.append((query, expected, found))
    assert wrong == []


REFUSED = [
    ({"nme": 1}, "nme"),
    ({"$or": [{"nme": 1}]}, "nme"),
    ({"data.x": 1}, "data.x"),
    ({"age": "x"}, "age"),
    ({"age": {"$in": [1, "x"]}}, "age"),
    ({"$sort": {"nme": 1}}, "nme"),
    ({"$sort": {"data": 1}}, "data"),
    ({"$sort": {"tags": -1}}, "tags"),
    ({"$select": ["nme"]}, "nme"),
    ({"$select": ["name.x"]}, "name.x"),
    ({"name": {"$like": 5}}, "$like"),
    ({"name": {"$like": "a" * 1_001}}, "$like"),
    ({"name": {"$like": "a\\"}}, "$like"),
    ({"name": {"$ilike": "a\0"}}, "$ilike"),
    ({"name": {"$notlike": "\ud800"}}, "$notlike"),
    ({"age": {"$like": "5"}}, "$like"),
    ({"name": {"$null": "perhaps"}}, "$null"),
    ({"name": {"$contains": "a"}}, "$contains"),
    ({"name": {"$elemMatch": {"$gt": "a"}}}, "$elemMatch"),
    ({"tags": {"$elemMatch": {"a": 1}}}, "$elemMatch"),
    ({"tags": {"$size": -1}}, "$size"),
    ({"tags": {"$size": "x"}}, "$size"),
    ({"$search": "x"}, "$search"),
    ({"$or": [{"age": 1}] * 101}, "101 conditions"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "named"), REFUSED, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_what_a_table_cannot_have_is_refused_by_name(dialect, query, named):
    shapes = offline(dialect)
    with pytest.raises(BadRequest, match=re.escape(named)):
        select_page(shapes, GRAMMAR.read(query))


def offline(dialect, model=None, **options):
    """Return the shapes of the statements for a table of no database."""
    table = TableSource(people() if model is None else model, dialect).table
    return Shapes(table, SQLOptions(grammar=GRAMMAR, **options))


def test_an_array_has_no_order_and_a_regex_no_sqlite():
    with pytest.raises(BadRequest, match=r"\$regex"):
        select_page(offline("sqlite"), GRAMMAR.read({"name": {"$regex": "^A"}}))
    with pytest.raises(BadRequest, match="tags"):
        select_page(offline("sqlite"), GRAMMAR.read({"tags": {"$gt": ["a"]}}))


async def test_regex_on_postgresql(store):
    if store.table.dialect == "postgresql":
        assert await store.find(name={"$regex": "^[AZ]"}) == [1, 2]
        assert await store.find(tags={"$regex": "^c"}) == [2]


def test_texts_hold_names_and_places_only():
    shapes = offline("postgresql", paths=MappingProxyType(PATHS))
    first = select_page(shapes, GRAMMAR.read({"name": "'; drop table people", "age": {"$gt": 1}}))
    second = select_page(shapes, GRAMMAR.read({"name": "x", "age": {"$gt": 2}}))
    assert first.text is second.text
    assert first.text.endswith(
        'from "people" where "name" = $1::text and "age" > $2::int8 order by "people"."id"'
    )
    assert second.parameters == ("x", 2)


def test_texts_are_bounded(monkeypatch):
    monkeypatch.setattr("alula.adapters.sql._statements._shapes._MAX_TEXTS", 3)
    shapes = offline("sqlite")
    for names in ["name"], ["age"], ["score"], ["city"], ["age", "city"]:
        select_page(shapes, GRAMMAR.read({"$select": names}))
        shapes.selection(tuple(names))
    assert len(shapes.texts) <= 3
    assert len(shapes._selections) <= 3


def test_lists_of_clients_count_against_their_budget():
    query = GRAMMAR.read({"age": {"$in": [1, 2, 3]}}, 2)
    with pytest.raises(BadRequest, match=r"\$in has too many values"):
        select_page(offline("sqlite"), query)
    query = GRAMMAR.read({"$or": [{"age": {"$in": [1, 2, 3]}}]}, 2)
    with pytest.raises(BadRequest, match=r"\$in has too many values"):
        select_page(offline("sqlite"), query)


def test_conditions_have_no_limit_if_the_options_say_so():
    shapes = offline("sqlite", max_conditions=None)
    text = select_page(shapes, GRAMMAR.read({"$or": [{"age": 1}] * 300})).text
    assert text.count("`age` = ?") == 300


def test_empty_criteria_within_criteria():
    query = Query(And((And(()), Where("age", (("$eq", 1),)))))
    assert " where true and `age` = ?1 " in select_page(offline("sqlite"), query).text


ORDERS = [
    ("first", {"age": 1}, [4, 5, 2, 3, 1]),
    ("first", {"age": -1}, [1, 3, 2, 4, 5]),
    ("last", {"age": 1}, [2, 3, 1, 4, 5]),
    ("last", {"age": -1}, [4, 5, 1, 3, 2]),
    ("first", {"city": -1, "id": -1}, [5, 2, 1, 3, 4]),
    ("first", {"name": 1}, [4, 1, 2, 5, 3]),
    ("first", {"price": 1}, [3, 4, 5, 2, 1]),
    ("first", {"data.n": -1}, [1, 5, 2, 3, 4]),
    ("first", {"active": 1, "id": 1}, [3, 4, 5, 2, 1]),
]


async def test_orders(store):
    for nulls, sort, expected in ORDERS:
        options = SQLOptions(nulls=nulls, paths=MappingProxyType(PATHS))
        other = Store(store.database, store.table, options)
        assert await other.find(**{"$sort": sort}) == expected, (nulls, sort)
    native = Store(store.database, store.table, SQLOptions(nulls="native"))
    nulls = {"sqlite": [4, 5, 2, 3, 1], "postgresql": [2, 3, 1, 4, 5]}
    assert await native.find(**{"$sort": {"age": 1}}) == nulls[store.table.dialect]


def test_columns_without_null_have_no_clause_for_it():
    shapes = offline("postgresql")
    text = select_page(shapes, GRAMMAR.read({"$sort": {"city": 1, "age": 1}})).text
    # The model alone does not tell that the database orders by code points.
    order = '"people"."city" COLLATE "C", "people"."age" nulls first, "people"."id"'
    assert text.endswith(f"order by {order}")


async def test_ranges_of_pages(store):
    assert await store.find(**{"$limit": 2}) == [1, 2]
    assert await store.find(**{"$limit": 2, "$skip": 3}) == [4, 5]
    assert await store.find(**{"$skip": 3}) == [4, 5]
    assert await store.find(**{"$limit": 2, "$skip": 5}) == []
    assert await store.find(age={"$gt": 100}) == []


@pytest.mark.parametrize("path", ["age.x", "data", "other.x", 'data.a"b', "data..x", "data.\0"])
def test_paths_that_cannot_be(path):
    with pytest.raises(ValueError, match="paths has"):
        offline("sqlite", paths=MappingProxyType({path: str}))


@pytest.mark.parametrize("test", ["red", {"$in": ["red", "x"]}])
async def test_an_index_on_a_path_serves_equality(postgresql_schema, test):
    async with store_of(postgresql_schema, paths=PATHS) as store:
        await store.insert(*({"data": {"color": str(number)}} for number in range(1000)))
        # The column has the type json, whose operator makes another expression.
        await store.database.execute("alter table people alter data type jsonb")
        await store.database.execute("create index on people ((data->>'color'))")
        await store.database.execute("analyze people")
        text, parameters = select_count(store.shapes, GRAMMAR.read({"data.color": test}))
        plan = await store.database.fetch(f"explain {text}", *parameters)
        assert "Index" in str(plan)


def test_search_names_columns():
    with pytest.raises(ValueError, match="search has 'nme'"):
        offline("sqlite", search=("nme",))


def test_a_table_may_have_any_names():
    model = Table(
        'a"b', MetaData(), Column("id", Integer, primary_key=True), Column("se lect", Text)
    )
    text = select_page(offline("sqlite", model), GRAMMAR.read({"se lect": "x"})).text
    assert text == 'select `id`, `se lect` from "a""b" where `se lect` = ?1 order by "a""b".`id`'
