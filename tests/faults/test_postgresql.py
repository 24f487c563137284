"""PostgreSQL is killed again and again while clients write through REST."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import signal
import time
from pathlib import Path

import asyncpg
import pytest
from tests.faults.sql_serving import writers_on
from tests.requirements import require_postgresql
from tests.waiting import eventually

from alula.adapters.sql import Database
from alula.adapters.sql._drivers import _pool, _postgresql
from alula.adapters.sql._statement import Statement
from alula.local_postgresql import LocalServer

pytestmark = pytest.mark.slow

SECONDS_TO_ANSWER = 20
SECONDS_TO_RECOVER = 4.5
"""Far more than it takes, and less than a pool waits for a connection that it opens or resets."""


@pytest.fixture(scope="module")
async def own_server():
    require_postgresql()
    async with LocalServer() as server:
        yield server


@pytest.fixture
async def server(own_server):
    await own_server.start()
    connection = await asyncpg.connect(own_server.url)
    await connection.execute("drop schema public cascade; create schema public")
    await connection.close()
    return own_server


@pytest.fixture
async def database(server):
    database = Database(server.url)
    yield database
    async with asyncio.timeout(30):
        while database._driver._primary.pool().in_use:  # noqa: ASYNC110  # a pool has no event
            await asyncio.sleep(0.01)
    await database.close()


async def test_what_was_acknowledged_is_there_and_nothing_is_there_twice(
    server, database, thorough, caplog
):
    slowest = 0.0
    async with writers_on(database, SECONDS_TO_ANSWER) as writers:
        for _ in range(20 if thorough else 3):
            await asyncio.sleep(random.uniform(0.5, 1.5) if thorough else 0.3)
            server._process.kill()
            await asyncio.sleep(random.uniform(0, 0.3))
            await server.start()
            begun = time.monotonic()
            while writers.last < begun:
                assert time.monotonic() - begun < SECONDS_TO_RECOVER, "the pool is not whole again"
                await asyncio.sleep(0.005)
            slowest = max(slowest, writers.last - begun)
        # Enough for a comparison, however slow the machine is.
        await eventually(lambda: min(map(len, writers.acknowledged.values())) > 20)
    assert set(writers.statuses) == {200, 201, 503}
    assert writers.slowest < SECONDS_TO_ANSWER
    noise = [record for record in caplog.records if record.name.startswith("asyncpg")]
    assert noise == []
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    print(f"{writers.statuses}, whole again within {slowest:.2f} s")


async def test_backends_that_are_killed_one_by_one(server, database, thorough):
    async with writers_on(database, SECONDS_TO_ANSWER) as writers:
        killer = await asyncpg.connect(server.url)
        for _ in range(200 if thorough else 10):
            await killer.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where pid <> pg_backend_pid() and backend_type = 'client backend'"
                " order by random() limit 1"
            )
            await asyncio.sleep(0.02)
        await killer.close()
    assert set(writers.statuses) <= {200, 201, 503}
    assert writers.statuses[201] > 5  # few, where the machine is busy


def children_of(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_a_server_that_hangs_holds_up_no_one(server, database, thorough, caplog, monkeypatch):
    monkeypatch.setattr(_pool, "SECONDS_TO_RESET", 0.2)
    monkeypatch.setattr(_postgresql, "SECONDS_TO_CONNECT", 1.5)
    one = Statement("select 1")

    async def in_transaction():
        async with database.begin(seconds=0.3) as transaction:
            await transaction.run(one, 5)

    for _ in range(20 if thorough else 2):
        await asyncio.gather(*(database.run(one, 30) for _ in range(5)))
        hung = [server._process._process.pid]
        os.kill(hung[0], signal.SIGSTOP)  # first: it starts one for each connection that is opened
        for process in children_of(hung[0]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
                hung.append(process)
        try:
            begun = time.monotonic()
            calls = [database.run(one, 0.3) for _ in range(20)]
            errors = await asyncio.gather(*calls, in_transaction(), return_exceptions=True)
            assert time.monotonic() - begun < 6
        finally:
            for process in reversed(hung):
                os.kill(process, signal.SIGCONT)
        assert all(isinstance(error, OSError) for error in errors), errors
        async with asyncio.timeout(SECONDS_TO_RECOVER):
            await asyncio.gather(*(database.run(one, 30) for _ in range(20)))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_cancelled_calls_leave_no_connection_checked_out(database, thorough):
    await database.execute("create table t (n int)")
    work = [
        Statement("insert into t select 1 from pg_sleep(0.002)"),
        Statement("select pg_sleep(0.005)"),
    ]
    kept = 0
    for _ in range(2_000 if thorough else 50):
        calls = [asyncio.ensure_future(database.run(work[n % 2], 30)) for n in range(12)]
        await asyncio.sleep(random.random() * 0.006)
        for call in random.sample(calls, 9):
            call.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        kept += sum(isinstance(result, list) for result in results)
        assert all(isinstance(each, list | asyncio.CancelledError) for each in results), results
    assert kept > 0
    assert len(database._driver._primary.pool()._open) <= 10
    assert len(await asyncio.gather(*(database.run(work[1], 30) for _ in range(10)))) == 10
