"""Writes are one statement, atomic, and do the same on both databases."""

from __future__ import annotations

import asyncio
import math
import re
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations
from random import Random
from types import MappingProxyType
from uuid import UUID

import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    Column,
    Computed,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
    true,
)
from tests.adapters.sql.people import GRAMMAR, PATHS, Store, people, store_of
from tests.adapters.sql.test_criteria import offline

from alula.adapters.sql._errors import translated
from alula.adapters.sql._options import SQLOptions
from alula.adapters.sql._own_sql import compiled_condition
from alula.adapters.sql._statement import Statement
from alula.adapters.sql._statements._data import NewRow
from alula.adapters.sql._statements._reads import (
    select_by_id,
    select_by_ids,
    select_count,
    select_page,
    select_page_and_total,
)
from alula.adapters.sql._statements._writes import (
    delete_many,
    delete_one,
    insert_many,
    insert_one,
    insert_shared,
    inserted_shared,
    replace_one,
    update_many,
    update_one,
    update_shared,
    updated_shared,
    upsert_one,
)
from alula.adapters.sql._tables._tables import table_of
from alula.errors import BadRequest
from alula.query import EMPTY_QUERY

ADA = {
    "name": "Ada", "age": 36, "score": 0.1, "price": "12.50", "active": True, "born": "1815-12-10",
    "seen": "2024-01-01T00:00:00Z", "token": "00000000-0000-0000-0000-000000000001",
    "raw": b"\x00\xff", "data": {"color": "red", "none": None}, "tags": ["a", None, 'b"\\{'],
    "marks": [0.1, None], "city": "London",
}  # fmt: skip
STORED = {
    "id": 1, **ADA, "price": Decimal("12.50"), "born": datetime(1815, 12, 10).date(),
    "seen": datetime(2024, 1, 1, tzinfo=UTC), "token": UUID(ADA["token"]),
}  # fmt: skip
NOTHING = dict.fromkeys(STORED, None) | {"city": "Oslo"}


@pytest.fixture
async def store(sql_url):
    async with store_of(sql_url, paths=PATHS) as store:
        yield store


@pytest.fixture
async def stores():
    """Make stores of tables of a test's own."""
    async with AsyncExitStack() as stack:
        yield lambda *args, **options: stack.enter_async_context(store_of(*args, **options))


def read(**query):
    return GRAMMAR.read(query)


async def test_a_record_comes_back_as_it_was_stored(store):
    [alone] = await store.records(insert_one(store.shapes, store.shapes.writer.new_row(ADA)))
    assert alone == STORED
    many = await store.insert(ADA, ADA)
    assert many == [{**STORED, "id": 2}, {**STORED, "id": 3}]


async def test_what_a_record_does_not_give_gets_its_default(store):
    [empty] = await store.insert({})
    assert empty == {**NOTHING, "id": 1}
    stored = await store.insert({"age": 1}, {}, {"name": "x", "city": "Bergen"}, {"name": "y"}, {})
    assert [record["age"] for record in stored] == [1, None, None, None, None]
    assert [record["city"] for record in stored] == ["Oslo", "Oslo", "Bergen", "Oslo", "Oslo"]
    assert await store.insert({}, {}) == [{**NOTHING, "id": 7}, {**NOTHING, "id": 8}]


async def test_long_lists_go_in_parts(store, monkeypatch):
    monkeypatch.setattr("alula.adapters.sql._statements._writes._MAX_ROWS", 4)
    records = [{"age": number} for number in range(10)]
    rows = [store.shapes.writer.new_row(record) for record in records]
    assert [len(at) for at, _ in insert_many(store.shapes, rows)] == [4, 4, 2]
    stored = await store.insert(*records)
    assert [(record["id"], record["age"]) for record in stored] == [(n + 1, n) for n in range(10)]


async def test_a_list_has_no_bound_for_parameters(store):
    stored = await store.insert(*({"age": number, "name": "x"} for number in range(5_000)))
    assert [record["age"] for record in stored] == [*range(5_000)]
    assert len(await store.find(age={"$in": [*range(40_000)]})) == 5_000


def test_a_row_is_in_the_order_of_its_table(monkeypatch):
    """Whatever the order of the data is: statements of the same columns are shared."""
    monkeypatch.setattr("alula.adapters.sql._statements._data._MAX_PLANS", 2)
    shapes = offline("sqlite")
    for names in permutations(("name", "age", "city")):
        for record in ({name: ADA[name] for name in names}, dict.fromkeys(names)):
            for _ in range(2):
                row = shapes.writer.new_row(record)
                assert row.columns == ("name", "age", "city")
                assert row.values == tuple(record[name] for name in row.columns)
    assert shapes.writer.new_row({"age": 36}) == (("age",), (36,))


class Shouted(str):
    __slots__ = ()


VALUES = {
    "id": [1, -(2**63), 2**63 - 1, 2**63, True, 5.0, 5.5, "5"],
    "small": [0, 2**15 - 1, -(2**15), 2**15, -(2**15) - 1, False, 2.0],
    "text": ["", "a", "Zürich", "x" * 9, Shouted("x"), "a\x00", "\ud800", "ü\udfff", 5, b"a"],
    "word": ["", "abcde", "äöüéß", "abcdef", "a\x00", "\ud83d", 5],
    "flag": [True, False, 1, "true"],
    "ratio": [1.5, 2, math.nan, "1"],
    "at": ["2024-03-01T12:00:00Z", datetime(2024, 3, 1, tzinfo=UTC), "x", 5],
    "data": [{"a": [1]}, [], "a"],
    "key": [UUID(int=5), str(UUID(int=5)), "x"],
}


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_rows_have_what_each_column_stores(dialect):
    """By a plan or without one, and whichever value is refused first is the one that is named."""
    types = {
        "id": BigInteger,
        "small": SmallInteger,
        "text": Text,
        "word": String(5),
        "flag": Boolean,
        "ratio": Float(53),
        "at": DateTime(timezone=True),
        "data": JSON,
        "key": Uuid,
    }
    columns = [Column(name, type_, primary_key=name == "id") for name, type_ in types.items()]
    shapes = offline(dialect, Table("mixed", MetaData(), *columns))

    def expected(record):
        return tuple(
            None if value is None else shapes.table.columns[name].type.store(value, name)
            for name, value in record.items()
        )

    def outcome(make, record):
        try:
            return make(record)
        except BadRequest as error:
            return str(error), error.errors

    random = Random(5)
    names = [*VALUES]
    records = [{name: value} for name in names for value in (*VALUES[name], None)]
    for _ in range(2_000):
        chosen = [name for name in names if random.random() < 0.5]
        records.append({name: random.choice([*VALUES[name][:2], *VALUES[name]]) for name in chosen})
    stored = 0
    for record in records:
        for make in shapes.writer.new_row, shapes.writer.changed_row:
            if record or make == shapes.writer.new_row:
                row, wanted = outcome(make, record), outcome(expected, record)
                if isinstance(row, NewRow):
                    stored += 1
                    assert row.columns == tuple(record)
                    row = row.values
                assert repr(row) == repr(wanted)
    assert stored > 500


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ({"nme": 1}, "nme"),
        ({"age": "5"}, "age"),
        ({"name": 5}, "name"),
        ({"tags": "a"}, "tags"),
        ({"data.color": "red"}, "data.color"),
        ({5: 1}, "5"),
    ],
)
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_data_that_a_table_cannot_have_is_refused_by_name(dialect, record, named):
    with pytest.raises(BadRequest, match=re.escape(named)):
        offline(dialect).writer.new_row(record)


async def test_get(store):
    await store.insert({"name": "Ada"}, {"name": "Bob"})
    shapes = store.shapes
    [record] = await store.records(select_by_id(shapes, 2, EMPTY_QUERY))
    assert record == {**NOTHING, "id": 2, "name": "Bob"}
    assert await store.records(select_by_id(shapes, 2, read(name="Ada"))) == []
    query = read(name="Bob", **{"$select": ["name"]})
    assert await store.records(select_by_id(shapes, 2, query), query.select) == [
        {"name": "Bob", "id": 2}
    ]
    found = await store.records(select_by_ids(shapes, [1, 2, 9], EMPTY_QUERY))
    assert sorted(record["id"] for record in found) == [1, 2]
    found = await store.records(select_by_ids(shapes, [1, 2, 9], read(name="Bob")))
    assert [record["id"] for record in found] == [2]


def test_ids_that_no_record_can_have():
    for dialect in "sqlite", "postgresql":
        shapes = offline(dialect)
        assert shapes.id_value("5") == 5
        assert shapes.id_value("x") is None
        assert shapes.id_value(5.5) is None
        assert shapes.id_value(None) is None
        assert shapes.id_value(2**70) is None


async def test_locks(store):
    await store.insert({"name": "Ada"})
    shapes = store.shapes
    for lock in "update", "share":
        text = select_by_id(shapes, 1, EMPTY_QUERY, lock=lock).text
        assert text.endswith(f" for {lock}") is (store.table.dialect == "postgresql")
        assert len(await store.records(select_by_id(shapes, 1, EMPTY_QUERY, lock=lock))) == 1
        assert len(await store.records(select_page(shapes, EMPTY_QUERY, lock=lock))) == 1


async def test_conditions_of_the_application(store):
    await store.insert({"name": "Ada", "age": 1}, {"name": "Bob", "age": 2}, {"age": 3})
    columns = store.table.source.c
    where = compiled_condition((columns.age > 1) & (columns.name != "it's"), store.table.dialect)
    shapes = store.shapes
    query = read(age={"$lt": 3})

    async def ids(statement):
        return [record["id"] for record in await store.records(statement)]

    assert await ids(select_page(shapes, query, where=where)) == [2]
    assert await ids(select_page(shapes, EMPTY_QUERY, where=where)) == [2]
    assert await ids(select_by_id(shapes, 2, query, where=where)) == [2]
    assert await ids(select_by_id(shapes, 1, EMPTY_QUERY, where=where)) == []
    assert await ids(select_by_ids(shapes, [1, 2], query, where=where)) == [2]
    [[count]] = await store.rows(select_count(shapes, query, where=where))
    assert count == 1
    rows = await store.rows(select_page_and_total(shapes, query, where=where))
    assert (rows[0][0], rows[0][-1]) == (2, 1)
    assert await ids(update_one(shapes, 1, {"age": 9}, EMPTY_QUERY, where=where)) == []
    assert await ids(replace_one(shapes, 1, {"age": 9}, EMPTY_QUERY, where=where)) == []
    assert await ids(delete_one(shapes, 1, EMPTY_QUERY, where=where)) == []
    assert await ids(update_many(shapes, {"score": 1.0}, query, where=where)) == [2]
    assert await ids(update_many(shapes, {}, query, where=where)) == [2]
    assert await ids(delete_many(shapes, query, where=where)) == [2]


async def test_counts_up_to_a_number(store):
    await store.insert(*({"age": number} for number in range(20)))
    for at_most, expected in [(5, 5), (50, 15)]:
        [[count]] = await store.rows(select_count(store.shapes, read(age={"$gte": 5}), at_most))
        assert count == expected


# -- changes of one record -------------------------------------------------------------------------


async def test_update_sets_what_is_not_given_to_its_default(store):
    await store.insert(ADA)
    shapes = store.shapes
    [record] = await store.records(replace_one(shapes, 1, {"name": "New"}, EMPTY_QUERY))
    assert record == {**NOTHING, "id": 1, "name": "New"}
    assert await store.records(replace_one(shapes, 1, {"name": "x"}, read(name="Ada"))) == []
    query = read(name="New", **{"$select": ["age"]})
    changed = await store.records(replace_one(shapes, 1, {"age": 4}, query), query.select)
    assert changed == [{"age": 4, "id": 1}]


async def test_defaults_of_each_kind(sql_url, stores):
    model = Table(
        "defaults",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("name", Text),
        Column("text", Text, server_default="it's :x"),
        Column("number", Integer, server_default="5"),
        Column("flag", Boolean, server_default=true()),
        Column("made", DateTime(timezone=True), server_default=func.now()),
        Column("joined", Text, server_default=text("('a' || 'b')")),
        Column("none", Text),
    )
    store = await stores(sql_url, model)
    [stored] = await store.insert({"name": "x"})
    expected = {"id": 1, "name": "x", "text": "it's :x", "number": 5, "flag": True}
    expected |= {"made": stored["made"], "joined": "ab", "none": None}
    assert stored == expected
    reflected = Store(store.database, await table_of("defaults", store.database), SQLOptions())
    for other in store, reflected:
        [updated] = await store.records(replace_one(other.shapes, 1, {"name": "y"}, EMPTY_QUERY))
        assert updated.pop("made") >= stored["made"]
        assert updated == {**{name: expected[name] for name in updated}, "name": "y"}


async def test_a_change_is_made_only_where_the_query_still_holds(store):
    await store.insert({"city": "London"})
    statement = update_one(store.shapes, 1, {"city": "Paris"}, read(city="London"))
    results = await asyncio.gather(*(store.records(statement) for _ in range(20)))
    assert sorted(map(len, results)) == [0] * 19 + [1]


CHANGES = [
    ({"age": 2, "name": None}, {"age": 2, "name": None}),
    ({"$inc": {"age": 3, "score": 0.5, "price": "0.10"}},
     {"age": 39, "score": 0.6, "price": Decimal("12.60")}),
    ({"$mul": {"age": 2, "price": "2"}}, {"age": 72, "price": Decimal("25.00")}),
    ({"$min": {"age": 4, "name": "B"}}, {"age": 4, "name": "Ada"}),
    ({"$max": {"age": 4, "name": "B"}}, {"age": 36, "name": "B"}),
    ({"$min": {"price": "9.99"}}, {"price": Decimal("9.99")}),
    ({"$max": {"price": "9.99"}}, {"price": Decimal("12.50")}),
    ({"$push": {"tags": "x"}}, {"tags": [*ADA["tags"], "x"]}),
    ({"$push": {"tags": {"$each": ["x", "y"]}}}, {"tags": [*ADA["tags"], "x", "y"]}),
    ({"$push": {"marks": 2.5}, "age": 1}, {"marks": [0.1, None, 2.5], "age": 1}),
    ({"$set": {"age": 7}, "name": "x"}, {"age": 7, "name": "x"}),
    ({"data.color": "blue"}, {"data": {"color": "blue", "none": None}}),
    ({"data.color": None, "data.a.b": 1.5, "data.it's": "x"},
     {"data": {"color": None, "none": None, "a": {"b": 1.5}, "it's": "x"}}),
    ({"$set": {"data.n": 5}}, {"data": {"color": "red", "none": None, "n": 5}}),
    ({"data": {"a": "x"}}, {"data": {"a": "x"}}),
    ({}, {}),
]  # fmt: skip


async def test_patches(store):
    for changes, expected in CHANGES:
        [stored] = await store.insert(ADA)
        changed = await store.records(update_one(store.shapes, stored["id"], changes, EMPTY_QUERY))
        assert changed == [{**STORED, **expected, "id": stored["id"]}], changes


async def test_a_path_makes_objects_on_its_way(store):
    for data in [1, "x", {"a": 5}, {"a": [1]}, {"a": {"b": 1}}, None]:
        [stored] = await store.insert({"data": data})
        statement = update_one(store.shapes, stored["id"], {"data.a.b": 1.5}, EMPTY_QUERY)
        [changed] = await store.records(statement)
        assert changed["data"] == {"a": {"b": 1.5}}


async def test_update_operators_take_null_for_nothing(store):
    for changes, expected in [
        ({"$inc": {"age": 3, "price": "0.1"}}, {"age": 3, "price": Decimal("0.10")}),
        ({"$mul": {"age": 3, "price": "2"}}, {"age": 0, "price": Decimal("0.00")}),
        ({"$min": {"age": 3}}, {"age": 3}),
        ({"$max": {"name": "x"}}, {"name": "x"}),
        ({"$push": {"tags": "x", "data": {"a": 1}}}, {"tags": ["x"], "data": [{"a": 1}]}),
        ({"data.a.b": 1.0, "data.n": 2}, {"data": {"a": {"b": 1.0}, "n": 2}}),
    ]:
        [stored] = await store.insert({})
        changed = await store.records(update_one(store.shapes, stored["id"], changes, EMPTY_QUERY))
        assert changed == [{**stored, **expected}], changes


async def test_decimals_are_rounded_and_bounded_as_the_column_says(sql_url, stores):
    model = Table(
        "prices",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("price", Numeric(6, 2)),
        Column("free", Numeric),
    )
    store = await stores(sql_url, model)
    await store.insert({"price": "12.51", "free": "1.1"})

    async def patched(changes):
        with translated(store.table):
            [record] = await store.records(update_one(store.shapes, 1, changes, EMPTY_QUERY))
        return record["price"], record["free"]

    assert await patched({"$mul": {"price": "0.5", "free": "0.05"}}) == (
        Decimal("6.26"), Decimal("0.055"),
    )  # fmt: skip
    assert await patched({"$mul": {"price": -1}}) == (Decimal("-6.26"), Decimal("0.055"))
    assert await patched({"$inc": {"price": "6.26"}}) == (Decimal("0.00"), Decimal("0.055"))
    assert await patched({"$inc": {"price": "9999.99"}}) == (Decimal("9999.99"), Decimal("0.055"))
    for changes in {"$inc": {"price": "0.01"}}, {"$mul": {"price": 2}}:
        with pytest.raises(BadRequest):
            await patched(changes)


async def test_a_column_that_is_not_strict_may_hold_text_that_is_no_json(tmp_path):
    async with store_of(f"sqlite:///{tmp_path / 'test.sqlite'}", paths=PATHS) as store:
        await store.insert({"data": 1}, {"data": 1})
        await store.database.execute("update people set data = 'no json'")
        assert await store.find(data={"$contains": "no json"}) == [1, 2]
        assert await store.find(data={"a": 1}) == []
        [changed] = await store.records(
            update_one(store.shapes, 1, {"$push": {"data": 1}}, EMPTY_QUERY)
        )
        assert changed["data"] == ["no json", 1]
        [changed] = await store.records(update_one(store.shapes, 2, {"data.n": 1}, EMPTY_QUERY))
        assert changed["data"] == {"n": 1}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"nme": 1}, "nme"),
        ({"data.other": 1}, "data.other"),
        ({"age": "5"}, "age"),
        ({"id": 5}, "id"),
        ({"$inc": 5}, "$inc"),
        ({"$inc": {"name": 5}}, "name"),
        ({"$inc": {"age": None}}, "age"),
        ({"$inc": {"id": 1}}, "id"),
        ({"$inc": {"nme": 1}}, "nme"),
        ({"$mul": {"age": "x"}}, "age"),
        ({"$rename": {"age": "x"}}, "$rename"),
        ({"$min": {"data": 1}}, "data"),
        ({"$max": {"age": None}}, "age"),
        ({"$push": {"name": "x"}}, "name"),
        ({"$push": {"tags": 5}}, "tags"),
        ({"$push": {"tags": {"$each": "x"}}}, "$push"),
        ({"$push": {"tags": {"$each": ["x"], "$slice": 1}}}, "$push"),
        ({"age": 1, "$inc": {"age": 1}}, "age"),
        ({"age": 1, "$set": {"age": 1}}, "age"),
        ({"data": {}, "data.color": "x"}, "data"),
        ({"data.a": {}, "data.a.b": 1}, "data.a.b"),
        ({"data.a.b": 1, "data.a": {}}, "data.a"),
    ],
)
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_changes_that_cannot_be_are_refused_by_name(dialect, changes, named):
    shapes = offline(dialect, paths=MappingProxyType({**PATHS, "data.a": str}))
    with pytest.raises(BadRequest, match=re.escape(named)):
        update_one(shapes, 1, changes, EMPTY_QUERY)


async def test_remove(store):
    await store.insert({"name": "Ada"}, {"name": "Bob"})
    shapes = store.shapes
    assert await store.records(delete_one(shapes, 1, read(name="Bob"))) == []
    assert await store.records(delete_one(shapes, 1, read(name="Ada"))) == [
        {**NOTHING, "id": 1, "name": "Ada"}
    ]
    assert await store.find() == [2]


async def test_upsert(sql_url, stores):
    model = Table(
        "codes",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("code", Text, nullable=False),
        Column("used", Integer),
        UniqueConstraint("code"),
    )
    store = await stores(sql_url, model)
    shapes = store.shapes

    async def upsert(record, columns=("code",)):
        return await store.records(upsert_one(shapes, shapes.writer.new_row(record), columns))

    assert await upsert({"code": "a", "used": 1}) == [{"id": 1, "code": "a", "used": 1}]
    assert await upsert({"code": "a", "used": 2}) == [{"id": 1, "code": "a", "used": 2}]
    assert await upsert({"code": "a"}) == [{"id": 1, "code": "a", "used": 2}]
    with pytest.raises(BadRequest, match="code"):
        await upsert({"used": 1})
    with pytest.raises(ValueError, match="upsert has 'cod'"):
        await upsert({"code": "a"}, ("cod",))


# -- changes of many records -----------------------------------------------------------------------


async def test_many_come_back_in_the_order_that_they_had(store):
    await store.insert(
        *({"age": age, "name": name} for age, name in zip([3, 1, None, 2], "abcd", strict=True))
    )
    shapes = store.shapes
    query = read(name={"$ne": "b"}, **{"$sort": {"age": -1}, "$select": ["age", "name"]})
    changed = await store.records(update_many(shapes, {"age": 9}, query), query.select)
    assert [(record["id"], record["age"]) for record in changed] == [(1, 9), (4, 9), (3, 9)]
    unsorted = await store.records(update_many(shapes, {"$inc": {"age": 1}}, EMPTY_QUERY))
    assert [(record["id"], record["age"]) for record in unsorted] == [
        (1, 10),
        (2, 2),
        (3, 10),
        (4, 10),
    ]
    assert await store.records(update_many(shapes, {"age": 1}, read(name="x"))) == []
    query = read(**{"$sort": {"name": -1}})
    for number in 1, 2:  # with the same text
        changed = await store.records(update_many(shapes, {"age": number}, query))
        assert {record["age"] for record in changed} == {number}
    removed = await store.records(delete_many(shapes, query))
    assert [record["id"] for record in removed] == [4, 3, 2, 1]
    assert await store.find() == []


# -- properties without a column -------------------------------------------------------------------


async def test_other_properties_go_into_the_extra_column(sql_url, stores):
    model = Table(
        "notes",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("text", Text),
        Column("more", JSON(none_as_null=True)),
    )
    store = await stores(sql_url, model, extra="more", paths={"color": str, "size.w": int})
    shapes = store.shapes
    stored = await store.insert(
        {"text": "a", "color": "red", "none": None, "more": 1}, {"text": "b"}
    )
    assert stored == [
        {"id": 1, "text": "a", "color": "red", "none": None, "more": 1},
        {"id": 2, "text": "b"},
    ]
    assert await store.find(color="red") == [1]
    assert await store.find(color={"$ne": "red"}) == [2]
    with pytest.raises(BadRequest, match="none"):
        await store.find(none=1)
    with pytest.raises(BadRequest, match="more"):
        await store.find(more=1)

    async def patched(id, changes):
        return await store.records(update_one(shapes, id, changes, EMPTY_QUERY))

    assert await patched(1, {"color": None, "x": [1]}) == [
        {"id": 1, "text": "a", "color": None, "none": None, "more": 1, "x": [1]}
    ]
    assert await patched(2, {"size.w": 5, "x": 1, "text": "c"}) == [
        {"id": 2, "text": "c", "size": {"w": 5}, "x": 1}
    ]
    with pytest.raises(BadRequest, match=re.escape("x.y")):
        await patched(2, {"x.y": 1})
    assert shapes.writer.changed_row({"x": 1}) is None
    query = read(**{"$select": ["x", "size.w"]})
    assert await store.records(select_by_id(shapes, 2, query), query.select) == [
        {"x": 1, "id": 2, "size": {"w": 5}}
    ]
    updated = await store.records(replace_one(shapes, 2, {"y": 1}, EMPTY_QUERY))
    assert updated == [{"id": 2, "text": None, "y": 1}]


async def test_a_property_of_an_extra_column_does_not_hide_a_column(sql_url, stores):
    columns = Column("id", Integer, primary_key=True), Column("text", Text), Column("more", JSON)
    store = await stores(sql_url, Table("notes", MetaData(), *columns), extra="more")
    place = "$1::jsonb" if store.table.dialect == "postgresql" else "?"
    text = f"insert into notes (more) values ({place})"
    await store.database.execute(text, '{"id": 5, "text": "x", "y": 1}')
    await store.database.execute(text, "[1]")
    records = await store.records(select_page(store.shapes, EMPTY_QUERY))
    assert records == [{"id": 1, "text": None, "y": 1}, {"id": 2, "text": None}]
    changed = await store.records(update_one(store.shapes, 2, {"z": 1}, EMPTY_QUERY))
    assert changed == [{"id": 2, "text": None, "z": 1}]


# -- values that the application makes -------------------------------------------------------------


async def test_values_made_by_python_and_by_the_database(sql_url, stores):
    model = Table(
        "things",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("name", Text),
        Column("made", Text, default=lambda: "new"),
        Column("changed", Integer, default=0, onupdate=1),
        Column("double", Integer, Computed("changed * 2")),
    )
    store = await stores(sql_url, model)
    shapes = store.shapes
    assert await store.insert({"name": "a"}) == [
        {"id": 1, "name": "a", "made": "new", "changed": 0, "double": 0}
    ]
    changed = await store.records(update_one(shapes, 1, {"name": "b"}, EMPTY_QUERY))
    assert changed == [{"id": 1, "name": "b", "made": "new", "changed": 1, "double": 2}]
    changed = await store.records(update_one(shapes, 1, {"changed": 5}, EMPTY_QUERY))
    assert changed[0]["changed"] == 5
    changed = await store.records(replace_one(shapes, 1, {"made": None}, EMPTY_QUERY))
    assert changed == [{"id": 1, "name": None, "made": None, "changed": 1, "double": 2}]
    assert shapes.writer.changed_row({"name": "c"}) == (("name", "changed"), ("c", 1))
    with pytest.raises(BadRequest, match="double"):
        shapes.writer.new_row({"double": 1})


def test_a_record_brings_its_id_where_nothing_makes_one():
    model = Table("keyed", MetaData(), Column("key", Text, primary_key=True))
    shapes = offline("sqlite", model)
    assert shapes.writer.new_row({"key": "a"}) == (("key",), ("a",))
    for record in {}, {"key": None}:
        with pytest.raises(BadRequest, match="'key' is missing"):
            shapes.writer.new_row(record)


async def test_lists_of_arrays(sql_url, stores):
    model = Table(
        "grids",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("grid", ARRAY(Integer, dimensions=2)),
        Column("parts", ARRAY(LargeBinary)),
        Column("flags", ARRAY(Boolean)),
        Column("prices", ARRAY(Numeric(8, 2))),
        Column("tokens", ARRAY(Uuid)),
    )
    store = await stores(sql_url, model)
    record = {
        "grid": [[1, 2], [3, 4]],
        "parts": [b"\x00\\", None],
        "flags": [True, False, None],
        "prices": [Decimal("1.50")],
        "tokens": [UUID(int=5)],
    }
    stored = await store.insert(record, {**record, "grid": []}, {"flags": []})
    assert stored[0] == {**record, "id": 1}
    assert stored[1] == {**record, "id": 2, "grid": []}
    assert stored[2]["flags"] == []


# -- shared statements, on PostgreSQL --------------------------------------------------------------


@pytest.fixture
async def shared(postgresql_schema):
    async with store_of(postgresql_schema) as store:
        yield store


async def store_shared(store, *records):
    """Store records as those of several calls; None for each that was refused."""
    stored = [None] * len(records)
    rows = [store.shapes.writer.new_row(record) for record in records]
    for positions, statement in insert_shared(store.shapes, rows):
        records = inserted_shared(store.shapes, await store.rows(statement))
        for position, record in zip(positions, records, strict=True):
            stored[position] = record
    return stored


async def test_shared_inserts(shared):
    assert shared.shapes.shares_inserts
    stored = await store_shared(shared, ADA, {"age": 5}, ADA, {"city": "x"})
    assert stored[0] == STORED
    assert stored[2] == {**STORED, "id": stored[2]["id"]}
    assert [record["city"] for record in stored] == ["London", "Oslo", "London", "x"]


async def test_a_refused_record_does_not_keep_others_out(postgresql_schema, stores):
    model = Table("keyed", MetaData(), Column("key", Text, primary_key=True), Column("n", Integer))
    store = await stores(postgresql_schema, model)
    assert store.shapes.shares_inserts
    stored = await store_shared(store, {"key": "a"}, {"key": "b", "n": 1}, {"key": "c"})
    assert stored == [{"key": "a", "n": None}, {"key": "b", "n": 1}, {"key": "c", "n": None}]
    stored = await store_shared(store, {"key": "b", "n": 5}, {"key": "d", "n": 5})
    assert stored == [None, {"key": "d", "n": 5}]


async def test_shared_patches(shared):
    await shared.insert(*({"age": 0, "name": name} for name in "abcd"))
    rows = [
        shared.shapes.writer.changed_row({"age": number, "tags": [str(number)] * number})
        for number in range(4)
    ]
    statement = update_shared(shared.shapes, [3, 1, 99, 2], rows, read(name={"$ne": "a"}))
    changed = updated_shared(shared.shapes, await shared.database.run(statement, 30))
    assert {key: record["age"] for key, record in changed.items()} == {2: 3, 3: 0}
    assert {tuple(record["tags"]) for record in changed.values()} == {(), ("3", "3", "3")}


async def test_shared_patches_never_wait_for_each_other(shared):
    await shared.insert(*({"age": 0} for _ in range(40)))
    ids = [*range(1, 41)]

    async def patch(order):
        rows = [shared.shapes.writer.changed_row({"age": 1})] * len(order)
        for _ in range(10):
            await shared.records(update_shared(shared.shapes, order, rows, EMPTY_QUERY))

    await asyncio.gather(*map(patch, [ids, ids[::-1], ids[::2] + ids[1::2], ids[20:] + ids[:20]]))


def test_nothing_is_shared_on_sqlite_or_without_known_ids():
    assert not offline("sqlite").shares_inserts


def test_changes_that_go_alone():
    shapes = offline("postgresql", paths=MappingProxyType(PATHS))
    for changes in {}, {"$inc": {"age": 1}}, {"data.color": "x"}, {"nme": 1}:
        assert shapes.writer.changed_row(changes) is None
    with pytest.raises(BadRequest, match="age"):
        shapes.writer.changed_row({"age": "x"})


async def test_the_texts_of_other_options_are_others(store):
    other = Store(store.database, store.table, SQLOptions(nulls="last"))
    assert isinstance(select_page(other.shapes, read(**{"$sort": {"age": 1}})), Statement)
    assert people().name == other.table.name
