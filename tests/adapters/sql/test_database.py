"""What `Database` promises of both dialects: statements, time limits, transactions."""

from __future__ import annotations

import asyncio
import sqlite3
import sys

import asyncpg
import pytest

from alula.adapters.sql._database import Database
from alula.adapters.sql._drivers._driver import isolation_of
from alula.adapters.sql._statement import Statement
from alula.errors import Unavailable

SLEEP = {
    "postgresql": "select pg_sleep(5)",
    "sqlite": "with recursive c(n) as (select 1 union all select n + 1 from c where n < 1e12)"
    " select count(*) from c",
}
TABLE = {
    "postgresql": "create table rooms (id int generated always as identity, name text unique)",
    "sqlite": "create table rooms (id integer primary key, name text unique) strict",
}
REFUSED = {"postgresql": asyncpg.UniqueViolationError, "sqlite": sqlite3.IntegrityError}


@pytest.fixture
async def database(sql_url):
    database = Database(sql_url)
    await database.execute(TABLE[database.dialect])
    # Short limits below are for statements, and not for connecting on a busy machine.
    await asyncio.gather(*(database.run(Statement("select 1"), None) for _ in range(3)))
    yield database
    await database.close()


@pytest.fixture
def insert(database):
    mark = "$1" if database.dialect == "postgresql" else "?1"

    def insert(name):
        return Statement(f"insert into rooms (name) values ({mark}) returning name", (name,))

    return insert


async def names(executor):
    return [row["name"] for row in await executor.fetch("select name from rooms order by name")]


# -- what it is given -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite://", "<Database sqlite memory>"),
        ("sqlite:///:memory:", "<Database sqlite memory>"),
        ("sqlite:///chat.sqlite", "<Database sqlite chat.sqlite>"),
        ("sqlite+aiosqlite:////var/chat.sqlite", "<Database sqlite /var/chat.sqlite>"),
        ("postgresql://ada:secret@db.example/chat?x=1", "<Database postgresql chat>"),
        ("postgres://db.example", "<Database postgresql the default database>"),
        ("postgresql+asyncpg://db.example/chat", "<Database postgresql chat>"),
    ],
)
def test_the_url_says_which_database_it_is_and_no_password_is_shown(url, shown):
    assert repr(Database(url)) == shown


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("mysql://db", {}, "'mysql' is not a known database; use \"postgresql://user"),
        ("chat.sqlite", {}, "'chat.sqlite' is not a known database"),
        ("sqlite:chat.sqlite", {}, "lacks slashes"),
        ("sqlite://chat.sqlite", {}, "names a host; use .* for a file"),
        ("sqlite://", {"read": "sqlite://"}, "read= is for PostgreSQL"),
        ("sqlite://", {"settings": {"a": "b"}}, "settings= is for PostgreSQL"),
        ("sqlite://", {"prepare": True}, "prepare= is for PostgreSQL"),
        ("sqlite://", {"sync": "off"}, 'sync=\'off\'; use "normal" or "full"'),
        ("sqlite://", {"pool": 0}, "pool=0 is not a number of connections"),
        ("sqlite://", {"pool": "10"}, "pool='10' is not a number of connections"),
        ("postgresql://db", {"read": ["sqlite://"]}, "read='sqlite://' is not a URL of Postgre"),
    ],
)
def test_what_it_cannot_use_is_an_error_that_says_what_to_do(url, options, message):
    with pytest.raises(ValueError, match=message):
        Database(url, **options)


def test_a_missing_driver_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for name in ("_postgresql", "_pool"):
        monkeypatch.delitem(sys.modules, f"alula.adapters.sql._drivers.{name}", raising=False)
    with pytest.raises(ImportError, match=r"asyncpg, .*pip install 'alula\[postgresql\]'"):
        Database("postgresql://db")


def test_levels_of_isolation_are_written_with_spaces_or_underscores():
    assert isolation_of(None) is None
    assert isolation_of("Read Committed") == isolation_of("read_committed") == "read_committed"
    with pytest.raises(ValueError, match="unknown isolation level 'snapshot'; use one of 'read_un"):
        Database("sqlite://").begin(isolation="snapshot")


# -- statements -----------------------------------------------------------------------------------


async def test_rows_come_by_position_and_those_of_ones_own_statements_by_name(database, insert):
    rows = await database.run(insert("Library"), 30, writes=True)
    assert [tuple(row) for row in rows] == [("Library",)]
    assert await database.run(Statement("delete from rooms where 1 = 0"), None, writes=True) == []
    mark = "$1" if database.dialect == "postgresql" else "?"
    assert await database.fetch(f"select name from rooms where name = {mark}", "Library") == [
        {"name": "Library"}
    ]
    assert await database.execute("update rooms set name = 'Hall'") == 1
    assert await database.execute("create index more on rooms (name)") == 0
    assert await database.execute("select 1 union select 2") == 2
    assert await database.fetch("insert into rooms (name) values ('Attic') returning name") == [
        {"name": "Attic"}
    ]
    assert database.version >= (3, 35)
    assert isinstance(database.code_point_order, bool)


async def test_errors_are_those_of_the_driver(database, insert):
    with pytest.raises(REFUSED[database.dialect]):
        await asyncio.gather(
            database.run(insert("Library"), 30, writes=True),
            database.run(insert("Library"), 30, writes=True),
        )
    for method in (database.fetch, database.execute):
        with pytest.raises((asyncpg.PostgresSyntaxError, sqlite3.OperationalError)):
            await method("selec 1")


async def test_a_refused_write_leaves_those_beside_it(database, insert):
    calls = [database.run(insert(f"room {n % 30:02}"), 30, writes=True) for n in range(60)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    refused = [result for result in results if isinstance(result, Exception)]
    assert {type(error) for error in refused} == {REFUSED[database.dialect]}
    assert len(refused) == 30
    assert await names(database) == [f"room {n:02}" for n in range(30)]


async def test_a_statement_over_its_time_limit_is_stopped(database):
    slow = Statement(SLEEP[database.dialect])
    quick = Statement("select 1")
    async with asyncio.timeout(60):
        results = await asyncio.gather(
            database.run(slow, 0.05), database.run(quick, 30), return_exceptions=True
        )
    assert isinstance(results[0], TimeoutError)
    assert tuple(results[1][0]) == (1,)


async def test_a_cancelled_call_is_stopped_and_leaves_nothing_behind(sql_url):
    database = Database(sql_url, pool=2)
    slow = Statement(SLEEP[database.dialect])
    try:
        await database.open()
        async with asyncio.timeout(60):
            for _ in range(3):
                calls = [asyncio.ensure_future(database.run(slow, None)) for _ in range(4)]
                await asyncio.sleep(0.05)
                for call in calls:
                    call.cancel()
                assert await asyncio.gather(*calls, return_exceptions=True)
            assert tuple((await database.run(Statement("select 1"), 30))[0]) == (1,)
    finally:
        await database.close()


async def test_it_is_open_as_long_as_a_service_uses_it(sql_url):
    database = Database(sql_url)
    await database.acquire()
    await database.acquire()
    await database.release()
    assert await database.fetch("select 1 as one") == [{"one": 1}]
    await database.release()
    await database.close()
    assert await database.fetch("select 1 as one") == [{"one": 1}]  # it connects again
    await database.close()


@pytest.mark.parametrize("url", ["sqlite:////nowhere/chat.sqlite", "postgresql://127.0.0.1:1/x"])
async def test_a_database_that_is_not_there(url):
    database = Database(url)
    for call in (database.acquire, database.open):
        with pytest.raises(Unavailable, match="cannot be reached"):
            await call()
    await database.close()


def test_one_database_serves_one_event_loop_after_the_other(sql_url):
    database = Database(sql_url)

    async def use(*, close):
        rows = await asyncio.gather(*(database.run(Statement("select 1"), 5) for _ in range(3)))
        if close:
            await database.close()
        return rows

    assert len(asyncio.run(use(close=True))) == 3
    assert len(asyncio.run(use(close=True))) == 3


# -- transactions ---------------------------------------------------------------------------------


async def test_a_transaction_is_kept_as_a_whole_or_not_at_all(database, insert):
    async with database.begin() as transaction:
        assert transaction.is_open
        await transaction.run(insert("Hall"), 30, writes=True)
        await transaction.run(insert("Attic"), None, writes=True)
        assert await transaction.execute("delete from rooms where name = 'Attic'") == 1
        assert await names(transaction) == ["Hall"]
    assert not transaction.is_open
    with pytest.raises(ZeroDivisionError):
        async with database.begin() as transaction:
            await transaction.run(insert("Library"), 30, writes=True)
            raise ZeroDivisionError
    assert await names(database) == ["Hall"]


async def test_statements_of_several_tasks_run_one_after_the_other(database, insert):
    async with database.begin() as transaction:
        await asyncio.gather(*(transaction.run(insert(f"room {n}"), 5) for n in range(9)))
    assert len(await names(database)) == 9


async def test_after_its_end_it_refuses_further_statements(database):
    transaction = database.begin()
    with pytest.raises(RuntimeError, match="has not begun; use it in `async with`"):
        await transaction.fetch("select 1")
    with pytest.raises(RuntimeError, match="has not begun"):
        await transaction.__aexit__(None, None, None)
    async with transaction:
        with pytest.raises(RuntimeError, match="begins only once"):
            await transaction.__aenter__()
    with pytest.raises(RuntimeError, match="has ended; begin another one"):
        await transaction.run(Statement("select 1"), 5)


async def test_an_error_after_it_has_expired_is_that_of_the_caller(database):
    with pytest.raises(ZeroDivisionError):
        async with database.begin(seconds=1):
            await asyncio.sleep(1.1)
            raise ZeroDivisionError


async def test_a_cancelled_task_rolls_it_back(database, insert):
    inside = asyncio.Event()

    async def hold():
        async with database.begin() as transaction:
            await transaction.run(insert("Hall"), 30, writes=True)
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.ensure_future(hold())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(60):
        await database.run(insert("Hall"), 30, writes=True)
    assert await names(database) == ["Hall"]


async def test_a_task_that_is_cancelled_within_a_statement_rolls_it_back(database, insert):
    slow = Statement(SLEEP[database.dialect])

    async def hold():
        async with database.begin() as transaction:
            await transaction.run(insert("Hall"), 30, writes=True)
            await transaction.run(slow, None)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hold(), 0.1)
    async with asyncio.timeout(60):
        await database.run(insert("Hall"), 30, writes=True)
    assert await names(database) == ["Hall"]


async def test_one_that_takes_too_long_is_rolled_back(database, insert):
    with pytest.raises(TimeoutError, match=r"longer than 1\.5 seconds and was rolled back"):
        async with database.begin(seconds=1.5) as transaction:
            await transaction.run(insert("Hall"), 30, writes=True)
            await asyncio.sleep(1.6)
            assert not transaction.is_open
            async with asyncio.timeout(60):
                await database.run(insert("Hall"), 30, writes=True)
    with pytest.raises(TimeoutError, match="was rolled back"):
        await transaction.fetch("select 1")
    assert await names(database) == ["Hall"]


async def test_a_statement_may_not_take_longer_than_its_transaction(database):
    slow = Statement(SLEEP[database.dialect])
    async with asyncio.timeout(60):
        with pytest.raises(TimeoutError):
            async with database.begin(seconds=0.1) as transaction:
                await transaction.run(slow, 20)
        assert await database.fetch("select 1 as one") == [{"one": 1}]


async def test_one_that_only_reads_cannot_write(database, insert):
    with pytest.raises((asyncpg.ReadOnlySQLTransactionError, sqlite3.OperationalError)):
        async with database.begin(read_only=True) as transaction:
            assert await names(transaction) == []
            await transaction.run(insert("Hall"), 30, writes=True)
    assert await names(database) == []


async def test_what_the_commit_refuses_is_an_error_and_nothing_of_it_is_kept(database):
    reference = "references rooms (name) deferrable initially deferred"
    await database.execute(f"create table chairs (room text {reference})")
    with pytest.raises((asyncpg.ForeignKeyViolationError, sqlite3.IntegrityError)):
        async with database.begin() as transaction:
            await transaction.execute("insert into rooms (name) values ('Hall')")
            await transaction.execute("insert into chairs values ('Attic')")
    assert await names(database) == []
    await database.execute("drop table chairs")
