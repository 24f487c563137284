"""`SQLService`: its options, what ``params.sql`` sets, and where its table comes from."""

from __future__ import annotations

import asyncio
import logging

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, select, text
from tests.adapters.caller import names_of_caller

from alula import App
from alula.adapters.sql import Database, SQLService
from alula.errors import BadRequest, Conflict, GeneralError, NotFound, Timeout

metadata = MetaData()
notes = Table(
    "notes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("room", Integer),
    Column("slug", Text, unique=True),
)
keyed = Table("keyed", metadata, Column("key", Text, primary_key=True), Column("value", Text))


@pytest.fixture
async def service(database):
    service = SQLService(
        notes, database, multi=True, paginate={"default": 3, "max": 5}, update_operators=["$inc"]
    )
    await database.create(service)
    await service.create([{"text": f"note {n}", "room": n % 2, "slug": f"s{n}"} for n in range(7)])
    return service


def texts(records):
    return [record["text"] for record in records]


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nulls": "middle"}, r"^nulls is 'middle'; give 'first', 'last', 'native'"),
        ({"paths": ["data.a"]}, r"^paths is \['data.a'\]; give a mapping"),
        ({"paths": {"data..a": str}}, r"^paths has 'data..a'"),
        ({"paths": {"data.a": list}}, r"^paths: 'data.a' is .*; give str, int, float or bool"),
        ({"search": "text"}, r"^search is one string"),
        ({"share": {"everything": True}}, r"^share has 'everything'"),
        ({"paginate": {"max": 5, "count": "some"}}, r"^paginate: 'count' is 'some'"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        SQLService(notes, Database("sqlite://"), **options)


def test_a_url_is_not_a_database():
    with pytest.raises(TypeError, match="takes a table and a database, not 'sqlite://'"):
        SQLService(notes, "sqlite://")


async def test_the_primary_key_is_the_id(database):
    service = SQLService(keyed, database)
    await database.create(service)
    assert service.id == "key"
    assert await service.create({"key": "a", "value": "1"}) == {"key": "a", "value": "1"}
    assert (await service.get("a"))["value"] == "1"


@pytest.mark.parametrize("count", ["exact", "estimated", "most", "none"])
async def test_ways_to_count(database, service, count):
    await database.execute("analyze")
    counting = SQLService(notes, database, paginate={"default": 2, "count": count})
    page = await counting.find()
    assert len(page["data"]) == 2
    assert page["total"] == (None if count == "none" else 7)
    page = await counting.find({"query": {"room": 1, "$limit": 0}})
    assert page == {
        "total": None if count == "none" else 3, "limit": 0, "skip": 0, "data": [],
    }  # fmt: skip


async def test_an_estimate_without_statistics_is_counted(database):
    service = SQLService(notes, database, paginate={"default": 1, "count": "estimated"})
    await database.create(service)
    await service.create({"text": "a"})
    assert (await service.find({"query": {"$limit": 0}}))["total"] == 1


async def test_statistics_that_do_not_know_the_table_are_not_asked(database, service):
    await database.execute("analyze")
    other = SQLService(keyed, database, paginate={"default": 1, "count": "estimated"})
    await database.create(other)
    await other.create({"key": "a"})
    assert (await other.find({"query": {"$limit": 0}}))["total"] == 1


async def test_an_estimate_is_what_the_database_plans_with(database, service, watched):
    await service.create([{"text": "x", "room": n % 2} for n in range(6_000)])
    await database.execute("analyze")
    counting = SQLService(notes, database, paginate={"default": 1, "count": "estimated"})
    await database.execute("delete from notes where text <> 'x'")
    texts = watched(database)
    assert (await counting.find({"query": {"$limit": 0}}))["total"] == 6_007
    assert not any("count(*) from" in text for text in texts)
    del texts[:]
    page = await counting.find({"query": {"text": "x", "room": {"$lt": 1}, "$limit": 0}})
    where = {"sql": {"where": notes.c.room == 0}, "query": {"$limit": 0}}
    by_condition = await counting.find(where)
    if database.dialect == "postgresql":
        assert [text[:7] for text in texts] == ["select ", "explain", "select ", "explain"]
        assert page["total"] == pytest.approx(3_000, rel=0.1)
        assert by_condition["total"] == pytest.approx(3_000, rel=0.1)
    else:
        assert page["total"] == by_condition["total"] == 3_000
    assert (await counting.find({"query": {"text": "none", "$limit": 0}}))["total"] == 0


async def test_an_estimate_is_never_below_what_was_counted(postgresql_schema):
    database = Database(postgresql_schema)
    counting = SQLService(
        notes, database, paginate={"default": 1, "count": "estimated"}, multi=True
    )
    await database.create(counting)
    await counting.create([{"text": "x"}] * 1_100)  # without statistics
    assert (await counting.find({"query": {"text": "x"}}))["total"] == 1_001
    await database.close()


async def test_most_counts_to_a_thousand(database, service):
    await service.create([{"text": "x"}] * 1_100)
    counting = SQLService(notes, database, paginate={"default": 2, "count": "most"})
    assert (await counting.find())["total"] == 1_001


async def test_a_table_for_one_call(database, service):
    other = SQLService(keyed, database)
    await database.create(other)
    params = {"adapter": {"model": keyed, "id": "key"}}
    assert await service.create({"key": "a"}, params) == {"key": "a", "value": None}
    assert await other.get("a") == {"key": "a", "value": None}
    assert (await service.get_model()).name == "notes"


async def test_statements_are_kept_for_few_kinds_of_calls(service, monkeypatch):
    monkeypatch.setattr("alula.adapters.sql._service._MAX_SHAPES", 2)
    for most in range(1, 6):
        await service.find({"adapter": {"max_conditions": most}})
    assert len(service._shapes) <= 2


# -- where the table comes from --------------------------------------------------------------------


async def test_a_name_is_read_at_the_start(database, service):
    app = App()
    app.use("notes", SQLService("notes", database))
    app.use("keyed", SQLService("keyed", database))
    await database.create(SQLService(keyed, database))
    await app.setup()
    assert (await app.service("notes").get(1))["text"] == "note 0"
    assert app.service("keyed").service.id == "key"
    await app.service("keyed").create({"key": "k"})
    assert (await app.service("keyed").get("k"))["key"] == "k"
    await app.teardown()


async def test_a_first_call_that_did_not_know_the_key(database):
    await database.create(SQLService(keyed, database))
    service = SQLService("keyed", database)
    with pytest.raises(RuntimeError, match=r"primary key of 'keyed' is 'key'.*say id='key'"):
        await service.create({"key": "a"})
    assert (await service.create({"key": "a"}))["key"] == "a"


async def test_a_missing_table_is_told_at_the_start(database, caplog):
    app = App()
    app.use("missing", SQLService("missing", database))
    with caplog.at_level(logging.ERROR):
        await app.setup()
    assert "the table of the service 'missing' could not be read" in caplog.text
    await database.execute("create table missing (id integer primary key)")
    assert await app.service("missing").find() == []
    await app.teardown()


async def test_the_setting_limits_the_time(database, service):
    app = App()
    app.set("sql_max_time_ms", 50)
    app.use("notes", service)
    await app.setup()
    assert service.options.seconds == 0.05
    await app.teardown()
    with pytest.raises(ValueError, match="the setting 'sql_max_time_ms' is 'x'"):
        await App().set("sql_max_time_ms", "x").use("notes", service).setup()


async def test_a_database_that_is_away_at_the_start(caplog):
    database = Database("postgresql://127.0.0.1:1/nothing")
    app = App()
    app.use("notes", SQLService(notes, database))
    with caplog.at_level(logging.ERROR):
        await app.setup()
    assert "could not be read" in caplog.text
    await app.teardown()


# -- params.sql ------------------------------------------------------------------------------------


async def test_a_condition_of_sqlalchemy(service):
    where = notes.c.room == bindparam("room", 1)
    page = await service.find({"sql": {"where": where}, "query": {"$sort": {"id": 1}}})
    assert page["total"] == 3
    assert texts(page["data"]) == ["note 1", "note 3", "note 5"]
    with pytest.raises(NotFound):
        await service.get(1, {"sql": {"where": where}})
    among = notes.c.id.in_(select(notes.c.id).where(notes.c.text.in_(["note 1", "note 2"])))
    changed = await service.patch(None, {"room": 9}, {"sql": {"where": among}})
    assert texts(changed) == ["note 1", "note 2"]
    removed = await service.remove(None, {"sql": {"where": among & (notes.c.slug == "s2")}})
    assert texts(removed) == ["note 2"]
    with pytest.raises(NotFound):
        await service.update(2, {"text": "x"}, {"sql": {"where": notes.c.room != 9}})


async def test_an_upsert(service):
    params = {"sql": {"upsert": ["slug"]}}
    changed = await service.create({"text": "new", "slug": "s1"}, params)
    assert (changed["id"], changed["text"]) == (2, "new")
    both = await service.create([{"text": "a", "slug": "s3"}, {"text": "b", "slug": "s99"}], params)
    assert texts(both) == ["a", "b"]
    assert both[0]["id"] == 4
    assert (await service.find())["total"] == 8


async def test_a_lock_needs_a_transaction(database, service):
    with pytest.raises(ValueError, match="'lock' needs 'connection'"):
        await service.get(1, {"sql": {"lock": "update"}})
    async with database.transaction() as transaction:
        sql = {"connection": transaction, "lock": "update"}
        assert (await service.get(1, {"sql": sql}))["text"] == "note 0"
        assert (await service.find({"sql": sql}))["total"] == 7


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ({"wehre": 1}, "params.sql has 'wehre'; SQLService reads connection, lock"),
        ({"connection": "x"}, "'connection' is 'x'; give what"),
        ({"where": "id = 1"}, "'where' is 'id = 1'; give a condition of SQLAlchemy"),
        ({"lock": "all"}, "'lock' is 'all'; give 'update' or 'share'"),
        ({"settings": {"a": 1}}, "'settings' is {'a': 1}; give names and text"),
        ({"upsert": "slug"}, "'upsert' is 'slug'; give a list of columns"),
        ({"upsert": []}, r"'upsert' is \[\]; give a list"),
        ({"max_time_ms": 0}, "'max_time_ms' is 0; give whole milliseconds"),
    ],
)
async def test_what_is_not_valid_in_it(service, sql, message):
    with pytest.raises(ValueError, match=message):
        await service.find({"sql": sql})


async def test_settings_do_not_change_a_transaction(database, service):
    async with database.transaction() as transaction:
        sql = {"connection": transaction, "settings": {"a.b": "c"}}
        with pytest.raises(ValueError, match="for the whole transaction; give them to it"):
            await service.find({"sql": sql})


async def test_a_time_limit_of_a_call(database, service):
    slow = (
        "select pg_sleep(2)"
        if database.dialect == "postgresql"
        else "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
    )
    with pytest.raises(Timeout):
        await service.find({"sql": {"where": text(f"({slow}) is null"), "max_time_ms": 60}})


# -- row-level security ----------------------------------------------------------------------------


async def test_settings_hold_for_one_call(postgresql_schema):
    admin = Database(postgresql_schema)
    await admin.execute("create table secrets (id int primary key, tenant text, text text)")
    await admin.execute("alter table secrets enable row level security")
    await admin.execute(
        "create policy own on secrets using (tenant = current_setting('app.tenant', true))"
    )
    role = f"r{id(admin)}"
    await admin.execute(f"create role {role} login")
    schema = postgresql_schema.rpartition("=")[2]
    await admin.execute(f"grant usage on schema {schema} to {role}")
    await admin.execute(f"grant all on secrets to {role}")
    await admin.execute("insert into secrets select n, n % 10, 'x' from generate_series(1, 100) n")
    database = Database(postgresql_schema.replace("://postgres@", f"://{role}@"), pool=4)
    service = SQLService("secrets", database, multi=True)
    assert await service.find() == []

    async def own(tenant):
        for _ in range(5):
            sql = {"settings": {"app.tenant": str(tenant)}}
            found = await service.find({"sql": sql})
            assert {record["tenant"] for record in found} == {str(tenant)}
            assert len(found) == 10
            assert (await service.get(10 + tenant, {"sql": sql}))["tenant"] == str(tenant)
            with pytest.raises(NotFound):
                await service.get(10 + (tenant + 1) % 10, {"sql": sql})
            with pytest.raises(NotFound):
                await service.get(10 + tenant)

    await asyncio.gather(*map(own, range(10)))
    changed = await service.patch(None, {"text": "y"}, {"sql": {"settings": {"app.tenant": "3"}}})
    assert len(changed) == 10
    await database.close()
    await admin.execute(f"drop owned by {role}")
    await admin.execute(f"drop role {role}")
    await admin.close()


# -- calls -----------------------------------------------------------------------------------------


async def test_lists_are_stored_whole_or_not_at_all(service):
    with pytest.raises(Conflict) as caught:
        await service.create([{"text": "a"}, {"text": "b", "slug": "s1"}, {"text": "c"}])
    assert caught.value.errors == {"slug": "is taken"}
    assert (await service.find())["total"] == 7
    # With different fields: several statements in one transaction.
    with pytest.raises(Conflict):
        await service.create([{"text": "a"}, {"text": "b", "room": 5, "slug": "s1"}])
    assert (await service.find())["total"] == 7
    new = [{"text": "a"}, {"text": "b", "room": 5}, {"text": "c"}]
    assert texts(await service.create(new)) == ["a", "b", "c"]


async def test_changes_of_nothing(service):
    assert (await service.patch(1, {}))["text"] == "note 0"
    assert texts(await service.patch(None, {}, {"query": {"room": 1}})) == [
        "note 1", "note 3", "note 5",
    ]  # fmt: skip
    assert await service.patch(None, {"room": 1}, {"query": {"room": 77}}) == []
    with pytest.raises(NotFound):
        await service.patch(1, {}, {"query": {"room": 1}})


@pytest.mark.parametrize("id", ["x", 2**70, 1.5, "1e3", "\0"])
async def test_ids_that_no_record_can_have(service, id):
    for method, data in (("get", ()), ("patch", ({"room": 1},)), ("remove", ())):
        with pytest.raises(NotFound):
            await getattr(service, method)(id, *data)
    with pytest.raises(NotFound):
        await service.update(id, {"text": "x"})


async def test_a_conditional_patch_is_won_once(service):
    async def win():
        try:
            await service.patch(1, {"room": 100}, {"query": {"room": 0}})
        except NotFound:
            return 0
        return 1

    assert sum(await asyncio.gather(*(win() for _ in range(20)))) == 1


async def test_increments_are_not_lost(service):
    await asyncio.gather(*(service.patch(1, {"$inc": {"room": 1}}) for _ in range(30)))
    assert (await service.get(1))["room"] == 30


async def test_an_unknown_column_names_itself(service):
    with pytest.raises(BadRequest, match="colour"):
        await service.create({"text": "a", "colour": "red"})
    with pytest.raises(BadRequest, match="colour"):
        await service.find({"query": {"colour": "red"}})


_TRIGGER = {
    "sqlite": ["""create trigger hushed before insert on notes when new.text = 'hush'
        begin select raise(ignore); end""",
        """create trigger kept before update on notes when old.room = 1
        begin select raise(ignore); end"""],
    "postgresql": ["""create function hushed() returns trigger language plpgsql as $$ begin
        if tg_op = 'INSERT' and new.text = 'hush' then return null; end if;
        if tg_op = 'UPDATE' and old.room = 1 then return null; end if;
        return new; end $$""",
        "create trigger hushed before insert or update on notes for each row"
        " execute function hushed()"],
}  # fmt: skip


@pytest.mark.parametrize("params", [{}, {"sql": {"upsert": ["id"]}}, {"adapter": {"share": False}}])
async def test_a_trigger_that_stores_nothing_is_told(service, database, params):
    for statement in _TRIGGER[database.dialect]:
        await database.execute(statement)
    new = {"text": "hush", "id": 50}
    for data in (new, [{"text": "loud", "id": 49}, new]):
        with pytest.raises(BadRequest, match="has not stored"):
            await service.create(data, params)
    names = ("loud", "hush", "loud")
    results = await asyncio.gather(
        *(service.create({"text": name}) for name in names), return_exceptions=True
    )
    assert [type(result) for result in results] == [dict, BadRequest, dict]


async def test_a_trigger_may_leave_out_some_of_many(service, database):
    for statement in _TRIGGER[database.dialect]:
        await database.execute(statement)
    changed = await service.patch(None, {"slug": None}, {"query": {"id": {"$lte": 4}}})
    assert {note["room"] for note in changed} == {0}


async def test_a_column_that_a_migration_has_not_made_yet(database):
    await database.execute("create table notes (id integer primary key, text text, slug text)")
    await database.execute("insert into notes (id, text) values (1, 'a')")
    behind = SQLService(notes, database)
    # SQLite would have returned {"room": "room"}.
    with pytest.raises(GeneralError):
        await behind.get(1)
    with pytest.raises(GeneralError):
        await behind.find({"query": {"room": 5}})


async def test_who_is_calling_makes_no_difference_for_a_get(service):
    assert await names_of_caller(service, 1) == set()


def test_services_on_one_table_have_one_store(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/a.sqlite")
    other_database = Database(f"sqlite:///{tmp_path}/b.sqlite")
    store = SQLService(notes, database).store()
    assert SQLService(notes, database, multi=True).store() == store
    others = [
        SQLService(keyed, database),
        SQLService(notes, other_database),
        SQLService("notes", database),  # nobody has read its columns yet
        SQLService("notes", database),
    ]
    assert len({store, *(other.store() for other in others)}) == 5
