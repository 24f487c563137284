"""PostgreSQL: its pool, servers that die, settings, replicas, poolers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import time
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.requirements import require_pgbouncer, require_postgresql
from tests.waiting import eventually, settle

from alula.adapters.sql._database import Database
from alula.adapters.sql._drivers import _pool as pools
from alula.adapters.sql._drivers import _postgresql as postgresql
from alula.adapters.sql._drivers._driver import NoFreeConnection
from alula.adapters.sql._statement import Statement
from alula.local_postgresql import LocalServer, LocalServerError

ONE = Statement("select 1")


def pool_of(database: Database) -> pools.Pool:
    return database._driver._primary.pool()


async def all_free(database: Database) -> None:
    """Wait until no connection is in use; those of cancelled calls are reset first."""
    async with asyncio.timeout(30):
        while pool_of(database).in_use:  # noqa: ASYNC110  # nothing else tells of it
            await asyncio.sleep(0.005)


@pytest.fixture
async def database(postgresql_schema):
    database = Database(postgresql_schema, pool=2)
    await database.open()
    yield database
    await all_free(database)
    await database.close()


@pytest.fixture(scope="module")
async def own_server():
    """A server that these tests may kill."""
    async with LocalServer() as server:
        yield server


@pytest.fixture
async def server(own_server):
    return await own_server.start()


# -- the pool -------------------------------------------------------------------------------------


async def test_services_share_connections_that_nobody_resets(database):
    for n in range(5):
        rows = await database.run(Statement("select pg_backend_pid(), $1::int", (n,)), 5)
        assert tuple(rows[0])[1] == n
    assert len(pool_of(database)._open) == 1
    states = await database.run(
        Statement("select query from pg_stat_activity where pid = pg_backend_pid()"), 5
    )
    assert "pg_stat_activity" in states[0][0]


async def test_waiting_for_a_free_connection_has_an_end(database, monkeypatch):
    async with database.begin() as one, database.begin() as two:
        assert one.connection is not two.connection
        with pytest.raises(NoFreeConnection, match=r"was free within 0\.02 seconds"):
            await database.run(ONE, 0.02)
        monkeypatch.setattr(pools, "MAX_WAIT_SECONDS", 0.03)
        with pytest.raises(NoFreeConnection, match=r"within 0\.03 seconds"):
            await database.run(ONE, None)
    assert await database.fetch("select 1 as one") == [{"one": 1}]


async def test_a_caller_that_waits_gets_the_next_one(database):
    async with database.begin(), database.begin():
        calls = [asyncio.ensure_future(database.run(ONE, 5)) for _ in range(4)]
        await asyncio.sleep(0.01)
        calls[0].cancel()
    rows = await asyncio.gather(*calls[1:])
    assert [tuple(each[0]) for each in rows] == [(1,)] * 3


async def test_a_connection_that_comes_too_late_goes_to_the_next_one(database):
    pool = pool_of(database)
    first, second = [await pool.acquire(30) for _ in range(2)]
    calls = [asyncio.ensure_future(pool.acquire(30)) for _ in range(2)]
    await asyncio.sleep(0)
    pool.release(first)
    calls[0].cancel()  # in the turn of the loop in which it got its connection
    assert await calls[1] is first
    assert calls[0].cancelled()
    pool.release(first)
    pool.release(second)


async def test_a_free_connection_that_has_ended_is_replaced(database):
    await database.run(ONE, 30)
    for connection in pool_of(database)._free:
        connection.terminate()
    assert tuple((await database.run(ONE, 30))[0]) == (1,)


async def test_a_connection_that_comes_at_the_last_moment_is_taken(database, monkeypatch):
    pool = pool_of(database)
    first, second = [await pool.acquire(30) for _ in range(2)]
    call = asyncio.ensure_future(pool.acquire(0.5))
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()

    def hold_up() -> None:
        time.sleep(0.6)
        loop.call_soon(pool.release, first)  # in one turn with the end of the limit

    loop.call_soon(hold_up)
    assert await call is first
    pool.release(first)
    pool.release(second)


async def test_those_who_wait_take_the_place_of_a_connection_that_was_closed(database):
    pool = pool_of(database)
    first, second = [await pool.acquire(30) for _ in range(2)]
    gone = asyncio.ensure_future(pool.acquire(30))
    await asyncio.sleep(0)
    gone.cancel()
    call = asyncio.ensure_future(pool.acquire(30))
    await asyncio.sleep(0)
    pool.discard(first)
    pool.release(await call)
    pool.release(second)
    pool.discard(second)  # a free one
    await eventually(lambda: len(pool._open) == 1)


async def test_a_server_that_takes_no_more_connections_serves_those_that_are_there(database):
    pool = pool_of(database)

    async def refuse():
        raise asyncpg.TooManyConnectionsError("sorry, too many clients already")

    connection = await pool.acquire(30)
    pool._connect = refuse
    calls = [asyncio.ensure_future(pool.acquire(30)) for _ in range(2)]
    await settle()
    pool.release(connection)
    assert await calls[0] is connection
    pool.discard(connection)
    with pytest.raises(asyncpg.TooManyConnectionsError):
        await calls[1]


async def test_closing_waits_for_what_is_under_way_and_no_longer(database, monkeypatch):
    monkeypatch.setattr(pools, "SECONDS_TO_CLOSE", 1.5)
    pool = pool_of(database)
    for connection in [await pool.acquire(30) for _ in range(2)]:  # so that none is opened later
        pool.release(connection)
    quick = asyncio.ensure_future(database.run(Statement("select pg_sleep(0.05)"), 60))
    slow = asyncio.ensure_future(database.run(Statement("select pg_sleep(30)"), 60))
    await settle()
    begun = time.monotonic()
    closing = asyncio.ensure_future(database.close())
    await asyncio.sleep(0)
    with pytest.raises(NoFreeConnection, match="is closing"):
        await pool.acquire(30)
    await closing
    assert 1.5 <= time.monotonic() - begun < 20
    assert len(await quick) == 1
    with pytest.raises(NoFreeConnection, match="were closed while"):
        await slow


async def test_closing_does_not_wait_for_a_server_that_hangs(server):
    database = Database(server.url)
    await database.open()
    (connection,) = pool_of(database)._open
    backend = connection.get_server_pid()
    os.kill(backend, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        await database.close()
        assert time.monotonic() - begun < 4  # it waits 5 for statements
        assert connection.is_closed()
    finally:
        os.kill(backend, signal.SIGCONT)


async def test_what_the_applications_code_sets_stays_with_it(database):
    assert await database.execute("set app.tenant = '5'") == 0
    await database.fetch("select set_config('role', 'pg_monitor', false)")
    async with database.begin() as transaction:
        await transaction.connection.execute("set work_mem = '5MB'; set role pg_monitor")
        await transaction.execute("set app.tenant = '6'")
    await all_free(database)
    for _ in range(2):
        rows = await asyncio.gather(
            *(
                database.run(
                    Statement(
                        "select current_setting('app.tenant', true), current_setting('work_mem'),"
                        " current_user, pg_sleep(0.01)"
                    ),
                    5,
                )
                for _ in range(2)
            )
        )
        assert {tuple(each[0])[:3] for each in rows} <= {
            ("", "4MB", "postgres"),
            (None, "4MB", "postgres"),
        }


async def test_a_connection_that_cannot_be_reset_is_closed(database, monkeypatch):
    await database.open()
    pool = pool_of(database)
    (connection,) = pool._open
    monkeypatch.setattr(pools, "_RESET_ROLE", "select 1/0")
    await database.fetch("select 1")
    await all_free(database)
    assert connection.is_closed()
    taken = await pool.acquire(30)
    monkeypatch.setattr(pools, "_RESET_ROLE", "select pg_sleep(5)")
    pool.reset(taken)
    await asyncio.sleep(0.02)
    (task,) = pool._tasks
    task.cancel()  # as the end of the event loop does
    with pytest.raises(asyncio.CancelledError):
        await task
    assert taken.is_closed()
    assert not pool._open


async def test_a_driver_that_lost_its_way_loses_its_connection(database):
    pool = pool_of(database)
    connection = await pool.acquire(30)
    pool.release_after(connection, asyncpg.InternalClientError("cannot switch to state 12"))
    await eventually(connection.is_closed)


@pytest.mark.parametrize("failure", [OSError, RuntimeError, asyncpg.InternalClientError])
async def test_a_connection_that_cannot_be_closed_well_is_closed(postgresql_schema, failure):
    database = Database(postgresql_schema, pool=1)
    await database.run(ONE, 5)
    (connection,) = pool_of(database)._open

    class Failing:
        async def close(self, **_):
            raise failure("no")

        terminate = connection.terminate
        is_closed = connection.is_closed

    pool = pool_of(database)
    pool._free = [Failing()]
    pool._open = {*pool._free}
    await database.close()
    assert connection.is_closed()


@pytest.mark.parametrize("failure", [OSError, RuntimeError, asyncpg.InternalClientError])
async def test_an_error_counts_more_than_that_of_its_rollback(database, monkeypatch, failure):
    async def fail(transaction):
        raise failure("no")

    monkeypatch.setattr("asyncpg.transaction.Transaction.rollback", fail)
    with pytest.raises(LookupError, match="mine"):
        async with database.transaction() as transaction:
            await transaction.execute("create table t (n int)")
            raise LookupError("mine")
    assert await database.fetch("select to_regclass('t') as name") == [{"name": None}]


async def test_a_server_that_forgot_its_prepared_statements(database):
    await database.run(ONE, 5)
    pool = pool_of(database)
    (connection,) = pool._open
    await connection.execute("deallocate all")
    assert tuple((await database.run(ONE, 5))[0]) == (1,)
    await connection.execute("deallocate all")
    failing = Statement("select 1 / $1::int", (1,))
    await database.run(failing, 5)
    await connection.execute("deallocate all")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await database.run(Statement(failing.text, (0,)), 5)
    assert pool.in_use == 0


async def test_a_changed_table_is_prepared_anew(database):
    await database.execute("create table t (n int)")
    await database.execute("insert into t values (1)")
    read = Statement("select * from t")
    assert tuple((await database.run(read, 5))[0]) == (1,)
    await database.execute("alter table t alter n type text")
    assert tuple((await database.run(read, 5))[0]) == ("1",)


def test_pools_of_event_loops_that_were_closed_are_forgotten(postgresql_schema):
    database = Database(postgresql_schema)

    async def use():
        await database.run(ONE, 5)
        await pool_of(database).close()  # and not the database

    for _ in range(2):
        asyncio.run(use())
    assert len(database._driver._primary._pools) == 1


# -- transactions ---------------------------------------------------------------------------------


async def test_settings_of_a_transaction_end_with_it(database):
    current = Statement("select current_setting('app.tenant', true), current_setting('jit')")
    async with database.begin(
        isolation="serializable", settings={"app.tenant": "o'5", "jit": "off"}
    ) as transaction:
        assert tuple((await transaction.run(current, 5))[0]) == ("o'5", "off")
        level = await transaction.fetch("show transaction_isolation")
        assert level == [{"transaction_isolation": "serializable"}]
    assert (await database.run(current, 5))[0][0] in {None, ""}


async def test_settings_that_do_not_exist_leave_no_connection_in_use(database):
    with pytest.raises(asyncpg.UndefinedObjectError):
        async with database.begin(settings={"no_such_setting": "1"}):
            """Not reached."""
    await all_free(database)


async def test_the_connection_is_there_as_long_as_the_transaction(database):
    transaction = database.begin()
    with pytest.raises(RuntimeError, match="has not begun"):
        assert transaction.connection
    async with transaction, transaction.connection.transaction():  # a savepoint
        assert await transaction.connection.fetchval("select 1") == 1
    with pytest.raises(RuntimeError, match="has ended"):
        assert transaction.connection


async def test_a_statement_that_waits_while_the_transaction_ends_is_refused(database):
    async with database.begin() as transaction:
        slow = asyncio.ensure_future(transaction.run(Statement("select pg_sleep(1)"), 30))
        waits = asyncio.ensure_future(transaction.run(ONE, 30))
        await settle()
    assert len(await slow) == 1
    with pytest.raises(RuntimeError, match="has ended"):
        await waits


async def test_one_that_expires_within_a_statement_says_so(database, monkeypatch):
    # The limit of the statement would come first, by a hair.
    monkeypatch.setattr("alula.adapters.sql._drivers._driver.Transaction._limit", lambda *_: 5)
    with pytest.raises(TimeoutError, match=r"longer than 1\.5 seconds"):
        async with database.begin(seconds=1.5) as transaction:
            await transaction.run(Statement("select pg_sleep(5)"), 5)


async def test_a_cancelled_owner_ends_the_statements_of_others(database):
    begun = asyncio.Event()
    others = []

    async def hold():
        async with database.begin() as transaction:
            others.append(
                asyncio.ensure_future(transaction.run(Statement("select pg_sleep(60)"), 90))
            )
            begun.set()
            await asyncio.sleep(60)

    task = asyncio.ensure_future(hold())
    await begun.wait()
    await settle()
    task.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RuntimeError, match="transaction has ended"):
            await others[0]


@pytest.mark.parametrize("fails", [True, False])
async def test_an_owner_who_is_cancelled_as_it_ends_gives_its_connection_back(database, fails):
    await database.execute("create table t (n int)")
    others = []

    async def hold():
        async with database.begin() as transaction:
            await transaction.execute("insert into t values (1)")
            others.append(
                asyncio.ensure_future(transaction.run(Statement("select pg_sleep(60)"), 90))
            )
            await settle()
            if fails:
                raise LookupError

    task = asyncio.ensure_future(hold())
    await eventually(lambda: others)
    await settle(200)  # the end waits for the statement of the other task
    task.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RuntimeError, match="transaction has ended"):
            await others[0]
    await all_free(database)
    assert await database.fetch("select * from t") == []


BY_WAY = {
    "by the transaction": lambda transaction: transaction.run(Statement("select pg_sleep(60)"), 90),
    "by asyncpg": lambda transaction: transaction.connection.execute("select pg_sleep(60)"),
}


@pytest.mark.parametrize("sleep", BY_WAY.values(), ids=BY_WAY)
@pytest.mark.parametrize("end", ["its time is over", "its task is cancelled"])
async def test_what_ends_badly_leaves_nothing_on_the_server(database, postgresql_url, sleep, end):
    await database.execute("create table t (n int)")
    await database.execute("insert into t values (1)")
    async with contextlib.AsyncExitStack() as stack:
        watching = await asyncpg.connect(postgresql_url)
        stack.push_async_callback(watching.close)
        backends = set()

        async def hold():
            async with database.begin(seconds=0.4 if end == "its time is over" else 60) as held:
                await held.execute("update t set n = 2")
                backends.add(held.connection.get_server_pid())
                others.append(asyncio.ensure_future(sleep(held)))
                await asyncio.sleep(60 if end == "its task is cancelled" else 0.5)

        for _ in range(4):  # more than the pool has
            others = []
            task = asyncio.ensure_future(hold())
            async with asyncio.timeout(30):
                await eventually(lambda: others)  # noqa: B023  # it is awaited here
                if end == "its task is cancelled":
                    await settle(50)
                    task.cancel()
                results = await asyncio.gather(task, *others, return_exceptions=True)
                assert all(isinstance(result, BaseException) for result in results)
                # Neither the lock nor the session stays.
                await database.execute("update t set n = n + 1")
            sessions = "select count(*) from pg_stat_activity where query like '%pg_sleep(60)%'"
            async with asyncio.timeout(5):
                while await watching.fetchval(f"{sessions} and pid = any($1)", backends):  # noqa: ASYNC110  # nothing tells of it
                    await asyncio.sleep(0.01)
    assert await database.fetch("select n from t") == [{"n": 5}]
    assert len(pool_of(database)._open) <= 2


async def test_a_connection_that_is_given_up_counts_until_the_server_has_ended_it(server):
    database = Database(server.url, pool=1)
    pool = pool_of(database)
    connection = await pool.acquire(30)
    backend = connection.get_server_pid()
    os.kill(backend, signal.SIGSTOP)
    try:
        pool.discard(connection)
        with pytest.raises(NoFreeConnection):
            await pool.acquire(0.1)
    finally:
        os.kill(backend, signal.SIGCONT)
    pool.release(await pool.acquire(30))
    assert connection.is_closed()
    await database.close()


async def test_a_server_that_cancels_nothing_is_not_waited_for_for_ever(server, monkeypatch):
    monkeypatch.setattr(pools, "SECONDS_TO_CANCEL", 0.2)
    database = Database(server.url, pool=1)
    pool = pool_of(database)
    connection = await pool.acquire(30)
    sleeping = asyncio.ensure_future(connection.execute("select pg_sleep(60)"))
    await settle()
    backend = connection.get_server_pid()
    os.kill(backend, signal.SIGSTOP)
    try:
        pool.discard(connection)
        with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError)):
            await sleeping
        assert connection.is_closed()
        pool.release(await pool.acquire(30))
    finally:
        os.kill(backend, signal.SIGCONT)
    await database.close()


@pytest.mark.parametrize("closes", [True, False])
async def test_a_connection_that_is_closed_as_a_statement_begins(database, monkeypatch, closes):
    prepare = asyncpg.Connection._get_statement

    async def prepare_and_close(connection, *arguments, **options):
        statement = await prepare(connection, *arguments, **options)
        if closes:
            connection.terminate()
            return statement
        raise AttributeError("a defect")

    error = asyncpg.InterfaceError if closes else AttributeError
    with pytest.raises(error, match="connection is closed" if closes else "a defect"):
        async with database.begin() as transaction:
            monkeypatch.setattr(asyncpg.Connection, "_get_statement", prepare_and_close)
            try:
                await transaction.run(ONE, 30)
            finally:
                monkeypatch.undo()
    await all_free(database)


async def test_a_backend_that_dies_within_a_transaction(database):
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        async with database.begin() as transaction:
            await kill_backend(database, transaction)
            await transaction.fetch("select 1")
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        async with database.begin() as transaction:
            await kill_backend(database, transaction)
    await all_free(database)


async def kill_backend(database, transaction):
    pid = transaction.connection.get_server_pid()
    await database.fetch("select pg_terminate_backend($1)", pid)
    await eventually(transaction.connection.is_closed)


async def test_a_commit_that_takes_too_long_is_cancelled(database):
    await database.execute("create table t (n int)")
    await database.execute(
        "create function wait() returns trigger language plpgsql"
        " as $$ begin perform pg_sleep(5); return new; end $$"
    )
    await database.execute(
        "create constraint trigger waits after insert on t deferrable initially deferred"
        " for each row execute function wait()"
    )
    transaction = database.begin()
    await transaction.__aenter__()
    await transaction.execute("insert into t values (1)")
    ending = asyncio.ensure_future(transaction.__aexit__(None, None, None))
    await asyncio.sleep(0.05)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await all_free(database)
    assert await database.fetch("select * from t") == []


# -- servers that die -----------------------------------------------------------------------------


async def test_a_server_that_is_killed_and_comes_back(server, caplog):
    database = Database(server.url, pool=4)
    await database.execute("create table t (n int primary key)")
    errors, counts = [], []

    async def write(numbers):
        for n in numbers:
            try:
                await database.run(Statement("insert into t values ($1)", (n,)), 30, writes=True)
                counts.append(n)
            except Exception as error:
                errors.append(error)
            await asyncio.sleep(0.001)
            if stop:
                return

    stop = False
    numbers = iter(range(10**9))
    writers = [asyncio.ensure_future(write(numbers)) for _ in range(8)]
    await asyncio.sleep(0.05)
    server._process.kill()
    await asyncio.sleep(0.05)
    await server.start()
    begun, before = time.monotonic(), len(counts)
    while len(counts) < before + 20:
        assert time.monotonic() < begun + 4.5, "the pool is not whole again"
        await asyncio.sleep(0.005)
    stop = True
    await asyncio.gather(*writers)
    unavailable = (
        OSError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
        asyncpg.PostgresConnectionError,
        asyncpg.OperatorInterventionError,
    )
    assert errors
    assert all(isinstance(error, unavailable) for error in errors), errors
    assert not any(isinstance(error, TimeoutError) for error in errors)
    rows = await database.run(Statement("select n from t"), 5)
    assert set(counts) <= {row[0] for row in rows}
    await all_free(database)
    await database.execute("drop table t")
    await database.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_server_that_does_not_accept_is_not_there(monkeypatch):
    monkeypatch.setattr(postgresql, "SECONDS_TO_CONNECT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        database = Database(f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/x")
        with pytest.raises(NoFreeConnection, match=r"no connection within 0\.05 seconds"):
            await database.run(ONE, 5)
        with pytest.raises(NoFreeConnection, match=r"within 0\.02 seconds"):
            await database.run(ONE, 0.02)
        await database.close()


# -- replicas -------------------------------------------------------------------------------------


async def test_reads_that_need_not_be_fresh_go_to_the_replicas(postgresql_url, server):
    dead = "postgresql://postgres@127.0.0.1:1/postgres"
    database = Database(postgresql_url, read=[server.url, dead])
    port = Statement("select current_setting('port')")
    primary = str(urlsplit(postgresql_url).port)
    replica = str(urlsplit(server.url).port)

    async def asked(**options):
        return (await database.run(port, 5, **options))[0][0]

    assert [await asked(primary=False) for _ in range(4)] == [
        replica
    ] * 4  # the dead one: tried once
    assert await asked() == primary
    assert await asked(primary=False, writes=True) == primary
    assert [row["current_setting"] for row in await database.fetch(port.text)] == [primary]
    server._process.kill()
    assert await asked(primary=False) == primary  # also where the connection broke within it
    assert await asked(primary=False) == primary
    await database.close()


async def test_a_replica_that_takes_too_long_is_not_asked_again_elsewhere(postgresql_url, server):
    database = Database(postgresql_url, read=server.url)
    await database.run(ONE, 5, primary=False)
    with pytest.raises(TimeoutError):
        await database.run(Statement("select pg_sleep(5)"), 0.05, primary=False)
    await database.close()


async def test_a_single_replica_may_be_named_alone(postgresql_url, server):
    database = Database(postgresql_url, read=server.url)
    rows = await database.run(Statement("select current_setting('port')"), 5, primary=False)
    assert rows[0][0] == str(urlsplit(server.url).port)
    await database.close()


# -- the server -----------------------------------------------------------------------------------


async def test_what_is_known_of_the_server(server):
    database = Database(server.url)
    assert database.version == ()
    await database.open()
    assert database.version >= (15,)
    assert database.code_point_order
    await database.close()


async def test_settings_of_all_connections(postgresql_url):
    database = Database(postgresql_url, settings={"work_mem": "7MB"})
    assert await database.fetch("show work_mem") == [{"work_mem": "7MB"}]
    await database.close()


@contextlib.contextmanager
def pgbouncer(url, folder, **options):
    """Run a pooler in front of a server."""
    program = require_pgbouncer()
    parts = urlsplit(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "auth_type": "any",
        "unix_socket_dir": "",
        "pool_mode": "transaction",
        "default_pool_size": 2,
        **options,
    }
    lines = [
        "[databases]",
        f"* = host={parts.hostname} port={parts.port} user=postgres",
        "[pgbouncer]",
        *(f"{name} = {value}" for name, value in settings.items()),
    ]
    file = folder / "pgbouncer.ini"
    file.write_text("\n".join(lines))
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    with subprocess.Popen(
        [program, *user, file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            end = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    assert time.monotonic() < end
                    time.sleep(0.01)
            yield f"postgresql://postgres@127.0.0.1:{port}{parts.path}"
        finally:
            process.kill()


async def test_a_pooler_is_noticed_and_gets_no_prepared_statements(postgresql_url, tmp_path):
    with pgbouncer(postgresql_url, tmp_path) as url:
        database = Database(url)
        other = Database(url, prepare=False)
        statements = [Statement(f"select {n}::int, $1::int + {n}", (5,)) for n in range(7)]

        async def ask(n):
            each = [database, other][n % 2]
            rows = await each.run(statements[n % 7], 10)
            return tuple(rows[0]) == (n % 7, 5 + n % 7)

        assert all(await asyncio.gather(*(ask(n) for n in range(300))))
        async with database.begin(settings={"app.tenant": "5"}) as transaction:
            assert await transaction.fetch("select current_setting('app.tenant') as tenant") == [
                {"tenant": "5"}
            ]
        assert await database.fetch("select 1 as one") == [{"one": 1}]
        await all_free(database)
        await database.close()
        await other.close()


async def test_prepared_statements_behind_a_pooler_are_refused(postgresql_url, tmp_path):
    with pgbouncer(postgresql_url, tmp_path) as url:
        database = Database(url, prepare=True)
        with pytest.raises(RuntimeError, match=r"a connection pooler .*leave out Database\(prep"):
            await database.open()
        await database.close()
    database = Database(postgresql_url, prepare=True)
    await database.open()
    await database.close()


async def test_long_statements_do_not_stay_prepared(database):
    for length in (3_000, 5_000):
        await database.run(Statement(f"select 1 as {'x' * 60}{' ' * length}"), 5)
    kept = await database.fetch("select length(statement) as n from pg_prepared_statements")
    assert [statement["n"] for statement in kept if statement["n"] > 2_000] == [3_072]


async def test_a_server_of_its_own_starts_with_the_first_call_and_ends_with_the_database():
    require_postgresql()
    server = LocalServer()
    database = Database(server)
    assert repr(database) == "<Database postgresql local>"
    rows = await asyncio.gather(*(database.fetch("select 1 as n") for _ in range(3)))
    assert rows == [[{"n": 1}]] * 3
    assert server.url.startswith("postgresql://")
    await database.close()
    with pytest.raises(LocalServerError):
        _ = server.url
