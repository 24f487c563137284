"""`transaction()` and `Database.transaction`: all or nothing, events after the commit."""

from __future__ import annotations

import asyncio
import time

import asyncpg
import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.adapters.sql import Database, SQLService, transaction
from alula.adapters.sql._statement import Statement
from alula.errors import BadRequest, Conflict, Timeout, Unavailable

metadata = MetaData()
people = Table(
    "people", metadata, Column("id", Integer, primary_key=True), Column("name", Text, unique=True)
)
counters = Table(
    "counters", metadata, Column("id", Integer, primary_key=True), Column("n", Integer)
)


class Bank:
    """Creates two people, or one and an error."""

    def __init__(self, app):
        self.app = app

    async def create(self, data, params=None):
        first = await self.app.service("people").create({"name": data["a"]}, sql=params.sql)
        if data.get("fail"):
            raise BadRequest("on purpose")
        await self.app.service("people").create({"name": data["b"]}, sql=params.sql)
        return first


@pytest.fixture
async def app(sql_url):
    app = App()
    database = Database(sql_url)
    app.set("database", database)
    app.use("people", SQLService(people, database, multi=True))
    app.use("counters", SQLService(counters, database))
    app.use("bank", Bank(app))
    app.service("bank").hooks(around={"create": [transaction(database)]})
    await database.create()
    await app.setup()
    yield app
    await app.teardown()


@pytest.fixture
def database(app):
    return app.get("database")


@pytest.fixture
def events(app):
    seen = []
    app.service("people").on("created", lambda person, context: seen.append(person["name"]))
    return seen


async def names(app):
    return sorted(person["name"] for person in await app.service("people").find())


async def test_a_call_takes_effect_as_a_whole(app, events):
    await app.service("bank").create({"a": "Ada", "b": "Bob"})
    assert await names(app) == ["Ada", "Bob"]
    assert events == ["Ada", "Bob"]


async def test_or_not_at_all(app, events):
    with pytest.raises(BadRequest, match="on purpose"):
        await app.service("bank").create({"a": "Ada", "b": "Bob", "fail": True})
    with pytest.raises(Conflict):
        await app.service("bank").create({"a": "Ada", "b": "Ada"})
    assert await names(app) == []
    assert events == []


async def test_the_params_are_as_before_afterwards(app):
    seen = []
    app.service("bank").hooks(around={"create": [transaction(app.get("database"))]})

    async def after(context):
        seen.append(context.params.sql["connection"].is_open)

    app.service("bank").hooks(after={"create": [after]})
    params = {"sql": None}
    await app.service("bank").create({"a": "Ada", "b": "Bob"}, params)
    assert seen == [True]
    assert params == {"sql": None}


async def test_hooks_inside_join(app, events):
    app.service("people").hooks(around={"create": [transaction()]})
    with pytest.raises(BadRequest):
        await app.service("bank").create({"a": "Ada", "b": "Bob", "fail": True})
    assert await names(app) == []
    await app.service("bank").create({"a": "Ada", "b": "Bob"})
    assert await names(app) == ["Ada", "Bob"]
    assert events == ["Ada", "Bob"]


async def test_a_block_of_several_calls(app, database, events):
    async with database.transaction() as connection:
        await app.service("people").create({"name": "Ada"}, sql={"connection": connection})
        await app.service("people").create({"name": "Bob"}, sql={"connection": connection})
        assert events == []
    assert events == ["Ada", "Bob"]
    with pytest.raises(ZeroDivisionError):
        async with database.transaction() as connection:
            await app.service("people").create({"name": "Cleo"}, sql={"connection": connection})
            1 / 0  # noqa: B018  # an error of the user's code
    assert await names(app) == ["Ada", "Bob"]
    assert events == ["Ada", "Bob"]


async def test_a_call_joins_the_block_around_it(app, database, events):
    with pytest.raises(ZeroDivisionError):
        async with database.transaction() as connection:
            sql = {"connection": connection}
            await app.service("bank").create({"a": "Ada", "b": "Bob"}, sql=sql)
            1 / 0  # noqa: B018  # an error of the user's code
    assert await names(app) == []
    assert events == []


async def test_lists_inside_are_part_of_it(app, database):
    service = app.service("people")
    with pytest.raises(ZeroDivisionError):
        async with database.transaction() as connection:
            sql = {"connection": connection}
            await service.create([{"name": "a"}, {"name": "b"}], sql=sql)
            await service.patch(None, {"name": None}, sql=sql)
            assert len(await service.remove(None, query={"id": 1}, sql=sql)) == 1
            1 / 0  # noqa: B018  # an error of the user's code
    assert await names(app) == []


async def test_a_transaction_that_is_over_is_told(app, database):
    async with database.transaction() as connection:
        pass
    with pytest.raises(Exception, match=r"over|ended|closed"):
        await app.service("people").find(sql={"connection": connection})


async def test_counters_stay_exact(app, database):
    counters = app.service("counters")
    await counters.create({"n": 0})

    async def add(context, next):
        sql = context.params.sql
        counter = await counters.get(1, sql=sql)
        await asyncio.sleep(0.001)
        context.data = {"n": counter["n"] + 1}
        await next()

    counters.hooks(around={"patch": [transaction(isolation="serializable", seconds=20), add]})
    await asyncio.gather(*(counters.patch(1, {}) for _ in range(12)))
    assert (await counters.get(1))["n"] == 12


async def test_settings_become_those_of_the_transaction(postgresql_schema):
    database = Database(postgresql_schema)
    app = App()
    app.use("people", SQLService(people, database))
    await database.create()
    seen = []

    async def look(context):
        connection = context.params.sql["connection"]
        seen.append(await connection.fetch("select current_setting('app.tenant') as tenant"))

    app.service("people").hooks(around={"create": [transaction()]}, before={"create": [look]})
    await app.service("people").create({"name": "a"}, sql={"settings": {"app.tenant": "5"}})
    assert seen == [[{"tenant": "5"}]]
    await database.close()


async def test_a_service_without_a_database_needs_one():
    app = App()
    app.use("memory", MemoryService())
    app.service("memory").hooks(around={"create": [transaction()]})
    with pytest.raises(RuntimeError, match="'memory', which is not a SQLService, needs a database"):
        await app.service("memory").create({})


def test_something_else_is_not_a_database():
    with pytest.raises(TypeError, match="takes a Database, not 'sqlite://'"):
        transaction("sqlite://")


async def test_an_error_that_was_caught_ends_no_transaction_without_a_word(app, database, events):
    people = app.service("people")
    await people.create({"name": "Ada"})
    events.clear()

    async def ends():
        async with database.transaction() as transaction:
            sql = {"connection": transaction}
            await people.create({"name": "Bob"}, sql=sql)
            with pytest.raises(Conflict):
                await people.create({"name": "Ada"}, sql=sql)

    if database.dialect == "sqlite":  # undoes the one statement
        await ends()
        assert (await names(app), events) == (["Ada", "Bob"], ["Bob"])
        return
    with pytest.raises(RuntimeError, match="was caught"):
        await ends()
    assert (await names(app), events) == (["Ada"], [])


@pytest.mark.parametrize("way", ["time limit", "cancelled"])
async def test_nor_does_a_statement_that_was_stopped(postgresql_schema, way):
    database = Database(postgresql_schema)
    with pytest.raises(RuntimeError, match="was caught"):
        async with database.transaction() as transaction:
            slow = Statement("select 1 from pg_sleep(5)")
            if way == "time limit":
                with pytest.raises(TimeoutError):
                    await transaction.run(slow, 0.02)
            else:
                task = asyncio.create_task(transaction.run(slow, 5))
                await asyncio.sleep(0.02)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
    await database.close()


async def test_an_error_within_a_savepoint_may_be_caught(postgresql_schema):
    database = Database(postgresql_schema)
    async with database.transaction() as transaction:
        await transaction.execute("create table kept (id int primary key)")
        with pytest.raises(asyncpg.UniqueViolationError):
            async with transaction.connection.transaction():
                await transaction.execute("insert into kept values (1), (1)")
        await transaction.execute("insert into kept values (2)")
    assert await database.fetch("select id from kept") == [{"id": 2}]
    await database.close()


async def test_what_follows_a_caught_error_has_its_cause(postgresql_schema):
    database = Database(postgresql_schema)
    with pytest.raises(asyncpg.InFailedSQLTransactionError) as caught:
        async with database.begin() as transaction:
            with pytest.raises(asyncpg.DivisionByZeroError) as first:
                await transaction.fetch("select 1 / 0")
            await transaction.fetch("select 1")
    assert caught.value.__cause__ is first.value
    await database.close()


# -- a block inside another one --------------------------------------------------------------------


async def add(app, name, connection):
    await app.service("people").create({"name": name}, sql={"connection": connection})


async def test_a_block_inside_another_one_joins_it(app, database, events):
    async with database.transaction() as outer:
        await add(app, "Ada", outer)
        async with database.transaction(seconds=1) as inner:
            assert inner is outer
            await add(app, "Bob", inner)
        assert events == []
        async with database.transaction():
            await add(app, "Cleo", outer)
        assert events == []
        assert outer.is_open
    assert events == ["Ada", "Bob", "Cleo"]
    assert await names(app) == ["Ada", "Bob", "Cleo"]
    async with database.transaction() as later:
        assert later is not outer


async def test_the_outer_one_decides(app, database, events):
    with pytest.raises(BadRequest):
        async with database.transaction() as outer:
            async with database.transaction():
                await add(app, "Ada", outer)
            raise BadRequest("on purpose")
    assert (await names(app), events) == ([], [])


async def test_an_error_of_the_inner_one_ends_both(app, database, events):
    with pytest.raises(BadRequest, match="on purpose"):
        async with database.transaction() as outer:
            await add(app, "Ada", outer)
            async with database.transaction():
                raise BadRequest("on purpose")
    with pytest.raises(RuntimeError, match="let the error pass") as raised:
        async with database.transaction() as outer:
            await add(app, "Ada", outer)
            with pytest.raises(BadRequest):
                async with database.transaction():
                    await add(app, "Bob", outer)
                    raise BadRequest("on purpose")
    assert isinstance(raised.value.__cause__, BadRequest)
    assert (await names(app), events) == ([], [])


async def test_an_inner_block_has_no_options_of_its_own(app, database):
    for options in ({"isolation": "serializable"}, {"read_only": True}, {"settings": {"a.b": "c"}}):
        with pytest.raises(ValueError, match=f"does not have {next(iter(options))}="):
            async with database.transaction(), database.transaction(**options):
                raise AssertionError
    options = {"isolation": "serializable", "read_only": True}
    async with (
        database.transaction(**options) as outer,
        database.transaction(**options) as inner,
        database.transaction() as innermost,
    ):
        assert inner is innermost is outer


async def test_after_its_time_the_outer_one_takes_no_statements_of_the_inner_one(app, database):
    with pytest.raises(Timeout):
        async with database.transaction(seconds=0.05):
            await asyncio.sleep(0.1)
            with pytest.raises(Timeout):
                async with database.transaction() as inner:
                    await inner.execute("insert into people (name) values ('Ada')")
    assert await names(app) == []


async def test_tasks_that_are_started_inside_have_transactions_of_their_own(database):
    async def read():
        async with database.transaction(read_only=True) as own:
            return own

    async with database.transaction() as outer:
        assert await asyncio.create_task(read()) is not outer


# -- calls that do not take part -------------------------------------------------------------------

ALONE = {
    "create": lambda app, database: app.service("people").create({"name": "Ada"}),
    "a list": lambda app, database: app.service("people").create([{"id": 1}, {"name": "Ada"}]),
    "patch": lambda app, database: app.service("people").patch(1, {"name": "Ada"}),
    "update": lambda app, database: app.service("people").update(1, {"name": "Ada"}),
    "remove": lambda app, database: app.service("people").remove(1),
    "patch of many": lambda app, database: app.service("people").patch(None, {"name": "Ada"}),
    "own SQL": lambda app, database: database.execute("delete from people"),
    "own SQL that returns rows": lambda app, database: database.fetch(
        "insert into people (name) values ('Ada') returning id"
    ),
    "a transaction of its own": lambda app, database: app.service("bank").create({"a": "Ada"}),
}


@pytest.mark.parametrize("call", ALONE.values(), ids=ALONE)
@pytest.mark.parametrize("place", ["file", "memory"])
async def test_sqlite_tells_at_once_of_a_call_that_waits_for_its_own_transaction(
    tmp_path, call, place, events_of
):
    database = Database(f"sqlite:///{tmp_path / 't.sqlite'}" if place == "file" else "sqlite://")
    app = App()
    app.use("people", SQLService(people, database, multi=True))
    app.use("bank", Bank(app))
    app.service("bank").hooks(around={"create": [transaction(database)]})

    async def careless(context):
        await call(app, database)

    class Jobs:
        async def create(self, data, params=None):
            return await app.service("people").create({"name": "Bob"}, sql=params.sql)

    app.use("jobs", Jobs())
    app.service("jobs").hooks(around={"create": [transaction(database)]})
    app.service("jobs").hooks(before={"create": [careless]})
    seen = events_of(app)
    await database.create()
    began = time.monotonic()
    message = r"Pass the transaction on: .* The statement is: (insert|update|delete|select|begin)"
    with pytest.raises(RuntimeError, match=message):
        await app.service("jobs").create({})
    with pytest.raises(RuntimeError, match=message):
        async with database.transaction():
            await call(app, database)
    assert time.monotonic() - began < 5  # 10 is the time limit
    assert await app.service("people").find() == []
    assert seen == []
    await app.service("people").create({"name": "Bob"})  # and nothing is left behind
    await database.close()


@pytest.fixture
def events_of():
    def watch(app):
        seen = []
        for event in ("created", "patched", "updated", "removed"):
            app.service("people").on(event, lambda person, context: seen.append(person))
        return seen

    return watch


async def test_reads_of_a_file_wait_for_no_transaction_and_those_in_memory_are_refused(tmp_path):
    for url in (f"sqlite:///{tmp_path / 't.sqlite'}", "sqlite://"):
        database = Database(url)
        service = SQLService(people, database)
        await database.create(service)
        async with database.transaction():
            if url == "sqlite://":
                for read in (service.find(), service.get(1), database.fetch("select 1")):
                    with pytest.raises(RuntimeError, match="Pass the transaction on"):
                        await read
            else:
                assert await service.find() == []
                assert await database.fetch("select 1 as n") == [{"n": 1}]
        async with database.transaction(read_only=True):
            if url != "sqlite://":
                await service.create({"name": "Ada"})
        await service.create({"name": "Bob"})  # the transaction is over
        await database.close()


async def test_a_task_that_is_started_inside_waits_for_the_end(app, database):
    async with database.transaction() as connection:
        task = asyncio.create_task(app.service("people").create({"name": "Ada"}))
        await app.service("people").create({"name": "Bob"}, sql={"connection": connection})
    assert (await task)["name"] == "Ada"
    assert await names(app) == ["Ada", "Bob"]


async def test_another_database_is_another_matter(app, database):
    other = Database("sqlite://")
    service = SQLService(people, other)
    await other.create(service)
    async with database.transaction():
        await service.create({"name": "Ada"})
    assert len(await service.find()) == 1
    await other.close()


async def test_each_database_has_its_own(database):
    other = Database("sqlite://")
    async with database.transaction() as outer, other.transaction() as its:
        assert its is not outer
        async with database.transaction() as inner, other.transaction() as its_inner:
            assert (inner, its_inner) == (outer, its)
    await other.close()


# -- what the database undoes because of others ----------------------------------------------------


FAILING = """
create sequence attempts;
create function fail() returns trigger language plpgsql as $$
begin
  if nextval('attempts') <= {number} then
    raise exception 'could not serialize' using errcode = '40001';
  end if;
  return new;
end $$;
create trigger fail before insert or update on counters execute function fail();
"""


@pytest.fixture
async def failing(postgresql_schema):
    """A service on a table that fails a number of times, as if others were faster."""
    database = Database(postgresql_schema)
    service = SQLService(counters, database, multi=True)
    await database.create()
    connection = await asyncpg.connect(postgresql_schema)

    async def make(number):
        await connection.execute("insert into counters values (1, 0), (2, 0)")
        await connection.execute(FAILING.replace("{number}", str(number)))
        return service, database

    make.attempts = lambda: connection.fetchval("select last_value from attempts")
    yield make
    await connection.close()
    await database.close()


async def test_a_table_that_was_changed_under_prepared_statements(failing, postgresql_schema):
    service, database = await failing(0)
    app = App()
    app.use("counters", service)
    app.service("counters").hooks(around={"get": [transaction()]})
    assert await app.service("counters").get(1) == {"id": 1, "n": 0}
    other = await asyncpg.connect(postgresql_schema)
    await other.execute("alter table counters alter n type bigint")
    assert await app.service("counters").get(1) == {"id": 1, "n": 0}  # once more, by itself
    await other.execute("alter table counters alter n type integer")
    await other.close()
    with pytest.raises(Unavailable, match="have just been changed; try again"):
        async with database.transaction() as current:
            await service.get(1, Params(sql={"connection": current}))
    assert await app.service("counters").get(2) == {"id": 2, "n": 0}


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (lambda service: service.patch(1, {"n": 5}), {"id": 1, "n": 5}),
        (
            lambda service: service.patch(None, {"n": 5}, Params(query={"$sort": {"id": 1}})),
            [{"id": 1, "n": 5}, {"id": 2, "n": 5}],
        ),
        (
            lambda service: service.create([{"id": 3, "n": 5}, {"id": 4}]),
            [{"id": 3, "n": 5}, {"id": 4, "n": None}],
        ),
        (
            lambda service: service.patch(1, {"n": 5}, Params(sql={"settings": {"app.a": "b"}})),
            {"id": 1, "n": 5},
        ),
    ],
    ids=["one", "many", "lists", "settings"],
)
async def test_a_call_that_lost_against_others_runs_again(failing, call, result):
    service, _ = await failing(2)
    assert await call(service) == result
    assert await failing.attempts() >= 3


async def test_but_not_for_ever(failing):
    service, _ = await failing(1000)
    with pytest.raises(Conflict):
        await service.patch(1, {"n": 5})
    assert await failing.attempts() <= 4


async def test_and_not_within_a_transaction_of_the_caller(failing):
    service, database = await failing(1)
    with pytest.raises(Conflict):
        async with database.transaction() as inside:
            await service.patch(1, {"n": 5}, Params(sql={"connection": inside}))
    assert await failing.attempts() == 1


async def test_the_loser_of_a_deadlock_runs_again(failing, postgresql_schema):
    service, _ = await failing(0)
    other = await asyncpg.connect(postgresql_schema)
    waiting = "select count(*) from pg_locks where not granted and pid <> pg_backend_pid()"
    try:
        async with other.transaction():
            await other.execute("set local deadlock_timeout = '30s'")  # so the service loses
            await other.execute("update counters set n = 1 where id = 2")
            patching = asyncio.create_task(service.patch(None, {"n": 5}))
            while not await other.fetchval(waiting):  # noqa: ASYNC110  # a database has no event
                await asyncio.sleep(0.01)
            await other.execute("update counters set n = 1 where id = 1")
        changed = await patching
    finally:
        await other.close()
    assert sorted(changed, key=lambda counter: counter["id"]) == [
        {"id": 1, "n": 5},
        {"id": 2, "n": 5},
    ]
