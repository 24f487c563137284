"""Concurrent calls on PostgreSQL share statements, and each gets what it would get alone."""

from __future__ import annotations

import asyncio
import math
import re
import time
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
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
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    TypeDecorator,
    Uuid,
)

from alula import App, Page
from alula.adapters.sql import Database, SQLService, _batches, _operation, transaction
from alula.adapters.sql._statement import Statement
from alula.errors import BadRequest, Conflict, NotFound, Timeout, Unavailable

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


async def test_patches_of_one_record_are_executed_in_turn_in_one_round_trip(
    service, database, watched
):
    seen = watched(database)
    rooms = [n % 3 for n in range(20)]
    calls = [service.patch(1, {"room": room, "text": f"{n}"}) for n, room in enumerate(rooms)]
    results = await gathered(*calls, service.patch(2, {"room": 7, "text": "other"}))
    assert [(r["text"], r["room"]) for r in results[:-1]] == [
        (f"{n}", room) for n, room in enumerate(rooms)
    ]
    assert results[-1]["text"] == "other"
    assert len(seen) == 2  # the first patch of each record, and the others of the first record
    assert await service.get(1) == results[-2]


async def test_each_patch_of_one_record_meets_the_query_after_the_one_before(service, watched):
    rooms = [1, 0, 5, 3]
    calls = [service.patch(1, {"room": room}, {"query": {"room": 0}}) for room in rooms]
    results = await gathered(*calls)
    assert results[0]["room"] == 1
    assert [type(result) for result in results[1:]] == [NotFound] * 3
    calls = [service.patch(2, {"room": room}, {"query": {"room": {"$lte": 3}}}) for room in rooms]
    results = await gathered(*calls, service.patch(99, {"room": 1}, {"query": {"room": 0}}))
    assert [result["room"] for result in results[:3]] == [1, 0, 5]
    assert [type(result) for result in results[3:]] == [NotFound] * 2


async def test_patches_with_a_list_in_their_query_go_alone(service, database, watched):
    seen = watched(database)
    query = {"query": {"room": {"$in": [0, 5]}}}
    results = await gathered(*(service.patch(1, {"text": f"{n}"}, query) for n in range(3)))
    assert [result["text"] for result in results] == ["0", "1", "2"]
    assert len(seen) == 3


async def test_patches_of_one_record_have_the_same_text_each_time(service, database, watched):
    seen = watched(database)
    for room in (1, 2):
        await gathered(*(service.patch(1, {"room": room + n}) for n in range(3)))
    assert seen[:2] == seen[2:]
    assert (await service.get(1))["room"] == 4


async def test_each_patch_of_one_record_has_its_own_select(service):
    selects = [["text"], ["room"], ["text", "room"], None]
    calls = [
        service.patch(1, {"text": f"{n}"}, {"query": {"$select": select} if select else {}})
        for n, select in enumerate(selects)
    ]
    results = await gathered(*calls, service.patch(1, {"text": "x"}, {"query": {"$select": []}}))
    assert results[:3] == [{"id": 1, "text": "0"}, {"id": 1, "room": 0},
                           {"id": 1, "text": "2", "room": 0}]  # fmt: skip
    assert results[3]["text"] == "3"
    assert "slug" in results[3]
    assert results[4] == {"id": 1}


HISTORY = """
    create table history (at serial, note int, text text, slug text, room int);
    create function remembered() returns trigger language plpgsql as $$ begin
        insert into history (note, text, slug, room)
            values (new.id, new.text, new.slug, new.room);
        return null;
    end $$;
    create trigger remembered after update on notes for each row execute function remembered();
"""


async def test_a_refused_patch_of_one_record_costs_the_others_nothing(service, database):
    async with database.transaction() as transaction:
        await transaction.connection.execute(HISTORY)
    rooms = [1, 2, -1, 3, 4]
    results = await gathered(*(service.patch(1, {"room": room}) for room in rooms))
    assert [getattr(result, "code", None) or result["room"] for result in results] == [
        1, 2, 400, 3, 4
    ]  # fmt: skip
    rows = await database.fetch("select room from history")
    assert sorted(row["room"] for row in rows) == [1, 2, 3, 4]  # each once


async def test_triggers_and_constraints_see_each_patch_of_one_record(service, database):
    async with database.transaction() as transaction:
        await transaction.connection.execute(HISTORY)
    await service.patch(2, {"slug": "taken"})
    slugs = ["a", "taken", "b"]
    results = await gathered(*(service.patch(1, {"slug": slug, "text": slug}) for slug in slugs))
    assert [type(result) for result in results] == [dict, Conflict, dict]
    calls = [service.patch(3, {"text": f"{n}"}) for n in range(9)]
    await gathered(*calls)
    rows = await database.fetch("select text from history where note = 3 order by at")
    assert [row["text"] for row in rows] == [f"{n}" for n in range(9)]


async def test_a_cancelled_patch_of_one_record_disturbs_no_other(service):
    calls = [asyncio.ensure_future(service.patch(1, {"text": f"{n}"})) for n in range(6)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    calls[0].cancel()
    calls[3].cancel()
    results = await gathered(*calls)
    assert [results[n]["text"] for n in (1, 2, 4, 5)] == ["1", "2", "4", "5"]
    assert (await service.get(1))["text"] == "5"


async def test_patches_of_a_locked_record_wait_on_one_connection(service, database):
    async with database.begin() as other:
        await other.execute("update notes set room = 5 where id = 1")
        calls = [asyncio.ensure_future(service.patch(1, {"slug": f"{n}"})) for n in range(40)]
        async with asyncio.timeout(5):  # 10 is the time limit
            found = await gathered(*(service.patch(n, {"text": "x"}) for n in range(2, 12)))
            assert [record["id"] for record in found] == [*range(2, 12)]
            assert (await service.create({"text": "there are connections left"}))["id"] == 21
        assert not any(call.done() for call in calls)
    results = await gathered(*calls)
    assert sorted((record["room"], record["slug"]) for record in results) == sorted(
        (5, f"{n}") for n in range(40)
    )


async def test_patches_of_one_record_are_tried_again_where_transactions_must_be_in_order(
    postgresql_schema, service, database
):
    settings = {"default_transaction_isolation": "serializable"}
    strict = Database(postgresql_schema, settings=settings)
    others = [SQLService(notes, strict), SQLService(notes, strict)]
    calls = [
        other.patch(1, {name: f"{n}"})
        for n in range(6)
        for other, name in zip(others, ("text", "slug"), strict=True)
    ]
    results = await gathered(*calls)
    assert [record["text"] for record in results[::2]] == [f"{n}" for n in range(6)]
    assert [record["slug"] for record in results[1::2]] == [f"{n}" for n in range(6)]
    await strict.close()


CHANGES = st.fixed_dictionaries(
    {}, optional={"room": st.integers(-1, 3), "slug": st.sampled_from(["s1", "s2", None])}
)
QUERIES = {
    "any": ({}, lambda _: True),
    "room 0": ({"room": 0}, lambda record: record["room"] == 0),
    "a high room": ({"room": {"$gt": 1}}, lambda record: record["room"] > 1),
    "no slug": ({"slug": None}, lambda record: record["slug"] is None),
}


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    calls=st.lists(
        st.tuples(st.integers(1, 3), CHANGES, st.sampled_from([*QUERIES])), min_size=2, max_size=12
    )
)
async def test_in_company_patches_do_what_they_do_one_by_one(service, database, calls):
    """A trigger notes each patch, so the history tells which order of the patches it was."""
    await database.execute("drop table if exists history")
    await database.execute("drop function if exists remembered cascade")
    async with database.transaction() as transaction:
        await transaction.connection.execute(HISTORY)
    await database.execute("update notes set room = 0, slug = null, text = ''")
    await database.execute("delete from history")
    results = await gathered(
        *(
            service.patch(key, {**changes, "text": f"{n}"}, {"query": QUERIES[query][0]})
            for n, (key, changes, query) in enumerate(calls)
        )
    )
    records = {key: {"text": "", "slug": None, "room": 0} for key in (1, 2, 3)}
    done = set()
    for row in await database.fetch("select note, text, slug, room from history order by at"):
        number = int(row.pop("text"))
        key, changes, query = calls[number]
        assert QUERIES[query][1](records[key])
        records[key] |= {**changes, "text": f"{number}"}
        assert {**row, "text": f"{number}"} == {**records[key], "note": key}
        assert {name: results[number][name] for name in records[key]} == records[key]
        done.add(number)
    for number, ((_, changes, query), result) in enumerate(zip(calls, results, strict=True)):
        reasons = {
            BadRequest: changes.get("room") == -1,
            Conflict: changes.get("slug") is not None,
            NotFound: query != "any",
            dict: number in done,
        }
        assert reasons[type(result)], result


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


@pytest.mark.parametrize("text", ["select 1 / 0", "selec", "select 'x' from nothing"])
async def test_a_shared_page_that_fails_is_asked_for_alone(service, monkeypatch, text):
    monkeypatch.setattr(_batches, "shared_pages", lambda pages: Statement(text))
    pages = await gathered(*(service.find({"query": {"room": n, "$limit": 1}}) for n in (0, 1)))
    assert [page["total"] for page in pages] == [10, 10]


@pytest.mark.parametrize("call", ["get", "page"])
async def test_a_read_that_takes_too_long_in_company_is_read_alone(service, monkeypatch, call):
    run = _operation.Operation.run
    seen = []

    async def late_in_company(operation, statement, **options):
        seen.append(statement.text)
        if len(seen) == 1:
            raise TimeoutError
        return await run(operation, statement, **options)

    monkeypatch.setattr(_operation.Operation, "run", late_in_company)
    if call == "get":
        results = await gathered(*(service.get(n) for n in (1, 2)))
        assert [record["id"] for record in results] == [1, 2]
    else:
        queries = [{"room": n, "$limit": 1} for n in (0, 1)]
        results = await gathered(*(service.find({"query": query}) for query in queries))
        assert [page["total"] for page in results] == [10, 10]
    assert len(seen) == 3


async def test_a_write_of_unknown_outcome_is_not_repeated(service, monkeypatch):
    run = _operation.Operation.run

    async def loses_the_answer(operation, statement, **options):
        await run(operation, statement, **options)
        raise TimeoutError

    monkeypatch.setattr(_operation.Operation, "run", loses_the_answer)
    for calls in (
        [service.create({"text": f"lost {n}", "room": 9}) for n in range(3)],
        [service.patch(n, {"text": "lost"}) for n in (1, 2, 3)],
    ):
        assert {type(result) for result in await gathered(*calls)} == {Timeout}
    monkeypatch.undo()
    assert (await service.find({"query": {"room": 9}}))["total"] == 3


async def test_of_two_statements_of_creates_one_may_fail_alone(service, monkeypatch):
    run = _operation.Operation.run

    async def failing(operation, statement, **options):
        if statement.parameters and ["Brook"] in statement.parameters:
            raise ConnectionResetError
        return await run(operation, statement, **options)

    monkeypatch.setattr(_operation.Operation, "run", failing)
    results = await gathered(
        service.create({"text": "Ada"}),
        service.create({"text": "Brook", "id": 77}),
        service.create({"text": "Cleo"}),
    )
    assert [results[0]["text"], results[2]["text"]] == ["Ada", "Cleo"]
    assert isinstance(results[1], Unavailable)


class Careful(TypeDecorator):
    """Refuses to read one value."""

    impl = Text
    cache_ok = True

    def process_result_value(self, value, dialect):
        if value == "unreadable":
            raise LookupError(value)
        return value


async def test_a_record_that_cannot_be_read_fails_alone(database):
    words = Table(
        "words",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("word", Careful),
        Column("n", Integer),
    )
    service = SQLService(words, database, paginate={"default": 2})
    await database.create(service)
    texts = ["a", "b", "unreadable", "d"]
    for call in (
        [service.create({"word": text, "n": n}) for n, text in enumerate(texts)],
        [service.patch(n, {"n": n}) for n in range(1, 5)],
        [service.get(n) for n in range(1, 5)],
        [service.find({"query": {"id": {"$gt": n - 1}, "$limit": 1}}) for n in range(1, 5)],
    ):
        results = await gathered(*call)
        good = type(results[0])
        assert good in {dict, Page}
        assert [type(result) for result in results] == [good, good, LookupError, good]
    assert await database.fetch("select count(*) as n from words where n = id") == [{"n": 4}]


async def test_intervals_that_cannot_be_read_fail_alone(database):
    waits = Table(
        "waits",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("how_long", Interval),
        Column("n", Integer),
    )
    service = SQLService(waits, database)
    await database.create(service)
    await gathered(*(service.create({"n": 0}) for _ in range(4)))
    await database.execute("update waits set how_long = '100000000 years' where id = 3")
    for results in (
        await gathered(*(service.patch(n, {"n": 5}) for n in range(1, 5))),
        await gathered(*(service.get(n) for n in range(1, 5))),
    ):
        assert [type(result) for result in results] == [dict, dict, BadRequest, dict]


# -- what other transactions have locked -----------------------------------------------------------


def new_note(n):
    return {"text": f"new {n}", "slug": f"slug {n}"}


HELD_UP = {
    "a locked row": (
        "update notes set room = 5 where id = 1",
        lambda service, n: service.patch(n + 1, {"text": f"new {n}"}),
    ),
    "a unique value that is being stored": (
        "insert into notes (text, slug) values ('x', 'slug 0')",
        lambda service, n: service.create(new_note(n)),
    ),
    "a unique value that is being set": (
        "insert into notes (text, slug) values ('x', 'slug 0')",
        lambda service, n: service.patch(n + 1, {"slug": f"slug {n}"}),
    ),
    "a row that is referred to": (
        "delete from notes where id = 20",
        lambda service, n: service.create({**new_note(n), "parent": 20 - n}),
    ),
}


@pytest.mark.parametrize(("statement", "call"), HELD_UP.values(), ids=HELD_UP)
async def test_what_others_have_locked_holds_up_its_own_caller_only(
    service, database, statement, call
):
    async with asyncio.timeout(60):
        async with database.begin() as other:
            await other.execute(statement)
            began = time.monotonic()
            calls = [asyncio.ensure_future(call(service, n)) for n in range(20)]
            results = await asyncio.gather(*calls[1:])
            assert time.monotonic() - began < 5  # 10 is the time limit
            assert all(result["text"] for result in results)
            assert not calls[0].done()
            await other.execute("select 1 / 1")
        assert len(await gathered(calls[0])) == 1


async def test_a_locked_record_is_patched_when_it_is_free(service, database):
    async with database.begin() as other:
        await other.execute("update notes set room = 5 where id = 1")
        calls = [asyncio.ensure_future(service.patch(n, {"slug": f"{n}"})) for n in (1, 2, 99)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    results = await gathered(*calls)
    assert (results[0]["room"], results[0]["slug"]) == (5, "1")
    assert results[1]["slug"] == "2"
    assert isinstance(results[2], NotFound)


async def test_one_that_no_longer_meets_the_query_is_not_found(service, database):
    async with database.begin() as other:
        await other.execute("update notes set room = 5 where id = 1")
        calls = [
            asyncio.ensure_future(service.patch(n, {"slug": f"{n}"}, {"query": {"room": 0}}))
            for n in (1, 3, 2)
        ]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    results = await gathered(*calls)
    assert isinstance(results[0], NotFound)
    assert results[1]["slug"] == "3"
    assert isinstance(results[2], NotFound)


@pytest.mark.parametrize("way", ["a hook", "a block"])
async def test_a_call_within_a_transaction_waits_for_no_other(database, way):
    app = App()
    app.use("notes", SQLService(notes, database))
    await database.create()
    service = app.service("notes")
    for n in range(4):
        await service.create({"text": f"{n}"})
    begun = asyncio.Event()
    others = []

    async def work(connection):
        await service.patch(1, {"text": "locked"}, sql={"connection": connection})
        begun.set()
        await asyncio.sleep(0.01)
        # Without the transaction, beside others of which one waits for it.
        calls = [service.patch(3, {"text": "own"}), service.get(3), service.find()]
        await asyncio.gather(*calls, service.create({"text": "own"}))

    async def outside():
        await begun.wait()
        others.append(asyncio.ensure_future(service.patch(1, {"text": "outside"})))
        others.append(asyncio.ensure_future(service.patch(2, {"text": "outside"})))

    class Jobs:
        async def create(self, data, params=None):
            await work(params.sql["connection"])
            return {}

    app.use("jobs", Jobs())
    app.service("jobs").hooks(around={"create": [transaction(database)]})
    async with asyncio.timeout(8):  # 10 is the time limit
        if way == "a hook":
            await asyncio.gather(outside(), app.service("jobs").create({}))
        else:
            async with database.transaction() as connection:
                await asyncio.gather(outside(), work(connection))
        assert [record["text"] for record in await asyncio.gather(*others)] == ["outside"] * 2
