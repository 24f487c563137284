"""Concurrent calls on PostgreSQL share statements, and each gets what it would get alone."""

from __future__ import annotations

import asyncio
import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from sqlalchemy import (
    CHAR,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    Uuid,
)

from alula.adapters.sql import Database, SQLService, _batches
from alula.adapters.sql._statement import Statement
from alula.errors import BadRequest, Conflict, GeneralError, NotFound, Unavailable

metadata = MetaData()
notes = Table(
    "notes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("room", Integer, CheckConstraint("room >= 0", name="room_not_negative")),
    Column("slug", Text, unique=True),
    Column("parent", ForeignKey("notes.id")),
)
typed = Table(
    "typed",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("real", Double),
    Column("price", Numeric(10, 2)),
    Column("at", DateTime(timezone=True)),
    Column("day", Date),
    Column("ok", Boolean),
    Column("text", Text),
    Column("raw", LargeBinary),
)
tokens = Table("tokens", metadata, Column("id", Uuid, primary_key=True), Column("name", Text))


@pytest.fixture
def sql_url(postgresql_schema):
    return postgresql_schema


@pytest.fixture
async def service(database):
    service = SQLService(notes, database, multi=True, paginate={"default": 10})
    await database.create(service)
    await service.create([{"text": f"note {n}", "room": n % 2} for n in range(20)])
    return service


async def gathered(*calls):
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_gets_share_a_statement(service, database, watched):
    seen = watched(database)
    ids = [1, 2, 3, 2, "4", 99]
    results = await gathered(*map(service.get, ids))
    assert [result["id"] for result in results[:5]] == [1, 2, 3, 2, 4]
    assert isinstance(results[5], NotFound)
    assert len(seen) == 1
    assert results[1] == results[3]
    assert results[1] is not results[3]


async def test_gets_with_the_same_query_share_one(service, database, watched):
    seen = watched(database)
    calls = [service.get(n, {"query": {"room": 0, "$select": ["text"]}}) for n in (1, 2, 3)]
    results = await gathered(*calls)
    assert results[0] == {"id": 1, "text": "note 0"}
    assert isinstance(results[1], NotFound)
    assert len(seen) == 1
    await gathered(service.get(1, {"query": {"room": 0}}), service.get(1, {"query": {"room": 1}}))
    assert len(seen) == 3


async def test_gets_by_ids_that_the_driver_reads_in_another_form_go_alone(database, watched):
    key = Column("id", Uuid(as_uuid=False), primary_key=True)
    service = SQLService(Table("keys", MetaData(), key), database)
    await database.create(service)
    ids = [(await service.create({}))["id"] for _ in range(2)]
    seen = watched(database)
    assert await gathered(*map(service.get, ids)) == [{"id": each} for each in ids]
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("collation", "found"),
    [
        ("binary", ["ann", None, None]),
        ("nocase", ["ann", "ann", None]),
        ("rtrim", ["ann", None, "ann"]),
    ],
)
async def test_text_ids_that_are_not_there_share_a_statement_on_sqlite(watched, collation, found):
    database = Database("sqlite://")
    await database.execute(f"create table keys (id text collate {collation} primary key)")
    service = SQLService(Table("keys", MetaData(), Column("id", Text, primary_key=True)), database)
    await service.create({"id": "ann"})
    seen = watched(database)
    results = await gathered(*(service.get(f"missing {n}") for n in range(50)))
    assert all(isinstance(result, NotFound) for result in results)
    assert len(seen) == 1
    results = await gathered(*map(service.get, ["ann", "ANN", "ann ", "bob"]))
    ids = [None if isinstance(result, NotFound) else result["id"] for result in results]
    assert ids == [*found, None]
    await database.close()


async def test_true_is_not_one(service, database, watched):
    seen = watched(database)
    first, second = {"query": {"room": {"$in": [0]}}}, {"query": {"room": {"$in": [1]}}}
    results = await gathered(service.get(1, first), service.get(1, second))
    assert results[0]["id"] == 1
    assert isinstance(results[1], NotFound)
    assert len(seen) == 2  # lists as parameters are not compared


async def test_pages_share_a_statement(service, database, watched):
    seen = watched(database)
    queries = [{"room": n % 2, "$limit": 3, "$skip": n, "$sort": {"text": -1}} for n in range(4)]
    queries += [{"room": 77, "$limit": 3, "$skip": 2, "$sort": {"text": -1}}]
    pages = await gathered(*(service.find({"query": query}) for query in queries))
    assert len(seen) == 2  # without $skip, the statement is another one
    alone = {"adapter": {"share": False}}
    assert pages == [await service.find({**alone, "query": query}) for query in queries]
    assert pages[0]["total"] == 10
    assert pages[4]["data"] == []


async def test_pages_of_any_type(database, watched):
    service = SQLService(typed, database, paginate={"default": 2}, share={"get": False})
    await database.create(service)
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    record = {"real": 0.1, "price": Decimal("0.30"), "at": moment, "day": date(2026, 1, 2),
              "ok": True, "text": "$1 \"'\\ é", "raw": b"a"}  # fmt: skip
    stored = await service.create(record)
    for name, value in record.items():
        seen = watched(database)
        queries = [{name: value}, {name: value}]
        pages = await gathered(*(service.find({"query": query}) for query in queries))
        assert [page["data"] for page in pages] == [[stored], [stored]], name
        # Bytes have no form in JSON that is the database's.
        assert len(seen) == (2 if name == "raw" else 1)
    infinite = [{"real": math.inf}, {"real": 0.1}]
    pages = await gathered(*(service.find({"query": query}) for query in infinite))
    assert [page["total"] for page in pages] == [0, 1]
    lists = [{"id": {"$in": [1, 2]}}, {"id": {"$in": [3]}}]
    pages = await gathered(*(service.find({"query": query}) for query in lists))
    assert [page["total"] for page in pages] == [1, 0]


async def test_the_values_of_shared_pages_are_converted_once(service, database, watched):
    seen = watched(database)
    moment = "2026-01-02T03:04:05Z"
    await gathered(*(service.find({"query": {"text": text}}) for text in ("a", "b")))
    assert "alula_value0" in seen[0]
    # In the statement of a page, a cast would be evaluated for each row of the table.
    assert "alula_value0::" not in seen[0]
    typed_service = SQLService(typed, database, paginate={"default": 2})
    await database.create(typed_service)
    del seen[:]
    queries = [{"at": moment, "day": "2026-01-02", "price": n, "ok": True} for n in range(2)]
    pages = await gathered(*(typed_service.find({"query": query}) for query in queries))
    assert [page["total"] for page in pages] == [0, 0]
    assert len(seen) == 1
    assert not re.search(r"alula_value\d+::", seen[0])


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("time with time zone", "12:00:00+02"),
        ("time(0) with time zone", "12:00:00+02"),
        ("inet", "10.0.0.1"),
        ("int4range", "[1,4)"),
        ('"a mood"', "good"),
        ("jsonpath_like", "x"),
        ("bit varying(5)", "101"),
    ],
)
async def test_pages_of_types_that_only_postgresql_has(database, watched, type_, value):
    await database.execute("create type \"a mood\" as enum ('good', 'bad')")
    await database.execute("create domain jsonpath_like as text")
    await database.execute(f"create table rare (id bigserial primary key, value {type_})")
    service = SQLService("rare", database, paginate={"default": 2})
    await service.setup(None, "rare")
    stored = await service.create({"value": value})
    seen = watched(database)
    queries = [{"value": value, "id": {"$lt": n}} for n in (10, 20)]
    pages = await gathered(*(service.find({"query": query}) for query in queries))
    assert [page["data"] for page in pages] == [[stored], [stored]]
    assert len(seen) == 1


async def test_a_page_that_fails_fails_alone(database):
    metadata = MetaData()
    strange = Table("a$1", metadata, Column("id", Integer, primary_key=True), Column("n", Integer))
    service = SQLService(strange, database, paginate={"default": 2})
    await database.create(service)
    await service.create({"n": 1})
    pages = await gathered(*(service.find({"query": {"n": n}}) for n in (1, 2)))
    assert [page["total"] for page in pages] == [1, 0]


async def test_a_refused_page_costs_the_others_nothing(service):
    where = {"query": {"text": {"$regex": "a"}}, "adapter": {"operators": ["$regex"]}}
    broken = {"query": {"text": {"$regex": "("}}, "adapter": {"operators": ["$regex"]}}
    pages = await gathered(service.find(where), service.find(broken))
    assert pages[0]["total"] == 0
    assert isinstance(pages[1], BadRequest)


async def test_creates_share_a_statement(service, database, watched):
    seen = watched(database)
    results = await gathered(*(service.create({"text": f"new {n}"}) for n in range(5)))
    assert [result["text"] for result in results] == [f"new {n}" for n in range(5)]
    assert len({result["id"] for result in results}) == 5
    assert len(seen) == 1


async def test_a_refused_row_costs_the_others_nothing(service, database, watched):
    await service.create({"text": "taken", "slug": "a"})
    seen = watched(database)
    new = [{"text": "1"}, {"text": "2", "slug": "a"}, {"text": "3", "slug": "b"}, {"text": "4"}]
    results = await gathered(*map(service.create, new))
    assert [results[n]["text"] for n in (0, 2, 3)] == ["1", "3", "4"]
    assert isinstance(results[1], Conflict)
    assert results[1].errors == {"slug": "is taken"}
    # One for all, and the refused row again.
    assert len(seen) == 2


async def test_a_row_that_fails_the_statement_fails_alone(service):
    new = [{"text": "1"}, {"text": "2", "room": -1}, {"text": "3", "parent": 999}, {"text": "4"}]
    new += [{"text": "5", "room": 5}, {"text": "6", "parent": 1}]
    results = await gathered(*map(service.create, new))
    assert [results[n]["text"] for n in (0, 3, 4, 5)] == ["1", "4", "5", "6"]
    assert isinstance(results[1], BadRequest)
    assert isinstance(results[2], BadRequest)
    assert (await service.find({"query": {"$limit": 0}}))["total"] == 24


async def test_records_with_an_id_of_their_own_are_another_statement(service, database, watched):
    seen = watched(database)
    new = [{"text": "1"}, {"id": 500, "text": "2"}, {"text": "3"}, {"id": 501, "text": "4"}]
    results = await gathered(*map(service.create, new))
    assert [result["text"] for result in results] == ["1", "2", "3", "4"]
    assert [results[1]["id"], results[3]["id"]] == [500, 501]
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("type_", "first", "second"), [(Text(), "a", "a"), (CHAR(5), "a", "a "), (Integer(), 1, 1)]
)
async def test_one_id_is_given_once(database, type_, first, second):
    model = Table(
        "keyed",
        MetaData(),
        Column("key", type_, primary_key=True),
        Column("n", Integer, unique=True),
    )
    service = SQLService(model, database)
    await database.create(service)
    new = [{"key": key, "n": n} for n, key in enumerate((first, second, first))]
    results = await gathered(*map(service.create, new))
    assert [isinstance(result, Conflict) for result in results].count(True) == 2
    [stored] = await service.find()
    assert stored in results


async def test_an_id_whose_first_record_is_refused_goes_to_the_second(database):
    unique = Column("n", Integer, unique=True)
    service = SQLService(
        Table("keyed", MetaData(), Column("key", Text, primary_key=True), unique), database
    )
    await database.create(service)
    await service.create({"key": "a", "n": 1})
    new = [{"key": "b", "n": 1}, {"key": "b", "n": 2}, {"key": "c", "n": 3}]
    results = await gathered(*map(service.create, new))
    assert isinstance(results[0], Conflict)
    assert results[1:] == new[1:]


async def test_ids_made_by_us(database, watched):
    service = SQLService(tokens, database)
    await database.create(service)
    seen = watched(database)
    results = await gathered(*(service.create({"name": str(n)}) for n in range(3)))
    assert [result["name"] for result in results] == ["0", "1", "2"]
    assert len(seen) == 1
    gets = await gathered(*(service.get(str(result["id"])) for result in results))
    assert gets == results
    assert len(seen) == 2


async def test_a_select_is_each_callers_own(service):
    whole, part = await asyncio.gather(
        service.create({"text": "a"}),
        service.create({"text": "b"}, {"query": {"$select": ["text"]}}),
    )
    assert part.keys() == {"id", "text"}
    assert "room" in whole
    whole, part = await asyncio.gather(
        service.patch(1, {"text": "a"}),
        service.patch(2, {"text": "b"}, {"query": {"$select": ["text"]}}),
    )
    assert part == {"id": 2, "text": "b"}
    assert whole["room"] == 0


async def test_patches_share_a_statement(service, database, watched):
    seen = watched(database)
    results = await gathered(*(service.patch(n, {"text": f"p{n}"}) for n in (1, 2, 3, 99)))
    assert [result["text"] for result in results[:3]] == ["p1", "p2", "p3"]
    assert isinstance(results[3], NotFound)
    assert len(seen) == 1


async def test_a_patch_alone_has_the_select_of_its_own_call(service):
    async def patch(n, *fields):
        return await service.patch(n, {"text": "x"}, {"query": {"$select": [*fields]}})

    await asyncio.gather(patch(1, "text"))
    results = await asyncio.gather(patch(1, "text"), patch(2, "room"), patch(2, "text"))
    assert results == [{"id": 1, "text": "x"}, {"id": 2, "room": 1}, {"id": 2, "text": "x"}]


async def test_two_patches_of_one_record_both_happen(service):
    first, second = await gathered(service.patch(1, {"text": "a"}), service.patch(1, {"text": "b"}))
    assert {first["text"], second["text"]} == {"a", "b"}
    assert (await service.get(1))["text"] in {"a", "b"}


async def test_a_refused_patch_costs_the_others_nothing(service):
    results = await gathered(*(service.patch(n, {"room": n - 3}) for n in range(1, 6)))
    assert [isinstance(result, BadRequest) for result in results] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert [result["room"] for result in results[2:]] == [0, 1, 2]


async def test_counts_share_a_statement(service, database, watched):
    seen = watched(database)
    query = {"query": {"room": 1, "$limit": 0}}
    pages = await gathered(*(service.find(query) for _ in range(4)))
    assert [page["total"] for page in pages] == [10] * 4
    assert len(seen) == 1
    query = {"query": {"room": {"$in": [1]}, "$limit": 0}}
    pages = await gathered(*(service.find(query) for _ in range(2)))
    assert [page["total"] for page in pages] == [10] * 2


async def test_all_can_be_switched_off(service, database, watched):
    seen = watched(database)
    off = {"adapter": {"share": False}}
    await gathered(*(service.get(n, off) for n in (1, 2)))
    await gathered(*(service.create({"text": "a"}, off) for _ in (1, 2)))
    await gathered(*(service.patch(n, {"text": "b"}, off) for n in (1, 2)))
    await gathered(*(service.find({**off, "query": {"$limit": 0}}) for _ in (1, 2)))
    assert len(seen) == 8


async def test_no_call_in_a_transaction_joins(service, database, watched):
    seen = watched(database)
    async with database.transaction() as transaction:
        sql = {"sql": {"connection": transaction}}
        inside = await service.create({"text": "inside"}, sql)
        results = await gathered(service.get(inside["id"]), service.get(inside["id"], sql))
    assert isinstance(results[0], NotFound)
    assert results[1]["text"] == "inside"
    assert len(seen) == 1


async def test_a_cancelled_caller_does_not_disturb_others(service):
    calls = [asyncio.ensure_future(service.get(n)) for n in (1, 2, 3)]
    await asyncio.sleep(0)
    calls[1].cancel()
    results = await gathered(*calls)
    assert [results[0]["id"], results[2]["id"]] == [1, 3]


async def test_a_lost_database_is_told_to_all():
    database = Database("postgresql://127.0.0.1:1/nothing")
    service = SQLService(notes, database)
    for calls in (
        [service.get(n) for n in (1, 2)],
        [service.create({"text": "a"}) for _ in (1, 2)],
        [service.patch(n, {"text": "a"}) for n in (1, 2)],
    ):
        results = await gathered(*calls)
        assert all(isinstance(result, Unavailable) for result in results), results
    await database.close()


async def test_a_trigger_that_gives_other_ids_stores_nothing_twice(postgresql_schema):
    database = Database(postgresql_schema)
    for statement in (
        "create table tickets (id serial primary key, name text)",
        "create function renumbered() returns trigger language plpgsql as"
        " $$ begin new.id = new.id + 1000; return new; end $$",
        "create trigger renumbered before insert on tickets for each row"
        " execute function renumbered()",
    ):
        await database.execute(statement)
    service = SQLService("tickets", database)
    await service.get_model()
    stored = await asyncio.gather(*(service.create({"name": f"n{n}"}) for n in range(5)))
    assert [ticket["name"] for ticket in stored] == ["n0", "n1", "n2", "n3", "n4"]
    assert sorted(ticket["id"] for ticket in stored) == [1001, 1002, 1003, 1004, 1005]
    assert len(await service.find()) == 5
    await database.close()


# -- shared statements that fail -------------------------------------------------------------------


async def test_a_shared_page_that_is_refused_is_asked_for_alone(service, monkeypatch):
    monkeypatch.setattr(_batches, "shared_pages", lambda pages: Statement("select 1 / 0"))
    pages = await gathered(*(service.find({"query": {"room": n, "$limit": 1}}) for n in (0, 1)))
    assert [page["total"] for page in pages] == [10, 10]


async def test_a_shared_page_that_fails_fails_for_all(service, monkeypatch):
    monkeypatch.setattr(_batches, "shared_pages", lambda pages: Statement("selec"))
    pages = await gathered(*(service.find({"query": {"room": n, "$limit": 1}}) for n in (0, 1)))
    assert all(isinstance(page, GeneralError) for page in pages)


async def test_so_do_creates_and_patches(service, monkeypatch):
    monkeypatch.setattr(_batches, "is_refusal", lambda error: False)
    results = await gathered(*(service.create({"text": "a", "room": n}) for n in (-1, 1)))
    assert all(isinstance(result, BadRequest) for result in results)
    results = await gathered(*(service.patch(n, {"room": n - 2}) for n in (1, 2)))
    assert all(isinstance(result, BadRequest) for result in results)
