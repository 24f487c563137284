"""SQLite: its threads, what goes together, other processes, the event loop."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from contextvars import Context

import pytest
from tests.conformance.serving import environment
from tests.waiting import eventually

from alula.adapters.sql._database import Database
from alula.adapters.sql._drivers import _sqlite as sqlite
from alula.adapters.sql._errors import of_sqlite
from alula.adapters.sql._statement import Statement
from alula.errors import Unavailable

ONE = Statement("select 1")
SLOW = Statement(
    "with recursive c(n) as (select 1 union all select n + 1 from c where n < 1e12)"
    " select count(*) from c"
)
TABLE = "create table t (n integer primary key, name text) strict"


def insert(n, name="x"):
    return Statement("insert into t values (?1, ?2) returning n", (n, name))


@pytest.fixture(params=["file", "memory"])
async def database(request, tmp_path):
    path = f"/{tmp_path / 'test.sqlite'}" if request.param == "file" else ""
    database = Database(f"sqlite://{path}")
    await database.execute(TABLE)
    yield database
    await database.close()


@pytest.fixture
async def of_file(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    await database.execute(TABLE)
    yield database
    await database.close()


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("alula-sqlite")]


async def count(database):
    return (await database.run(Statement("select count(*) from t"), 5))[0][0]


class CountingCommits:
    """Counts the transactions of a file from outside."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, isolation_level=None)

    def __enter__(self):
        self.connection.execute("pragma wal_checkpoint(truncate)")
        return self

    def size(self):
        return self.connection.execute("pragma wal_checkpoint(passive)").fetchone()[1]

    def __exit__(self, *_):
        self.connection.close()


# -- what holds for each connection ---------------------------------------------------------------


async def test_settings_of_the_connections(of_file):
    async with of_file.begin() as writer, of_file.begin(read_only=True) as reader:
        for one in (writer, reader):
            for name, value in {
                "journal_mode": "wal",
                "foreign_keys": 1,
                "synchronous": 1,
                "busy_timeout": 5000,
            }.items():
                assert (await one.run(Statement(f"pragma {name}"), 5))[0][0] == value
            rows = await one.run(Statement("select 'A' like 'a', alula_fold('Ü')"), 5)
            assert rows == [(0, "ü")]
    with pytest.raises(RuntimeError, match=r"belongs to a thread; use `transaction\.fetch`"):
        assert of_file.begin().connection
    assert of_file.code_point_order
    assert of_file.version == sqlite3.sqlite_version_info


async def test_decimals_have_a_collation(database):
    rows = await database.run(
        Statement("select '10.0' = '10' collate alula_decimal, '9' < '10' collate alula_decimal"), 5
    )
    assert rows == [(1, 1)]


async def test_full_sync(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}", sync="full")
    async with database.begin() as transaction:
        assert await transaction.fetch("pragma synchronous") == [{"synchronous": 2}]
    await database.close()


async def test_there_are_no_settings_of_a_transaction(database):
    with pytest.raises(ValueError, match="has no settings of a transaction; leave out `settings`"):
        database.begin(settings={"app.tenant": "5"})


# -- together -------------------------------------------------------------------------------------


async def test_writes_that_wait_are_one_transaction(of_file, tmp_path):
    path = tmp_path / "test.sqlite"
    with CountingCommits(path) as alone:
        for n in range(20):
            await of_file.run(insert(n), 30, writes=True)
        pages_alone = alone.size()
    with CountingCommits(path) as together:
        calls = [of_file.run(insert(n), 30, writes=True) for n in range(100, 120)]
        assert [rows[0][0] for rows in await asyncio.gather(*calls)] == list(range(100, 120))
        assert together.size() * 5 < pages_alone
    assert await count(of_file) == 40


async def test_one_over_its_time_limit_does_no_harm_to_those_beside_it(of_file):
    slow = Statement(f"insert into t select count(*), 'slow' from ({SLOW.text})")
    calls = [of_file.run(insert(n), 30, writes=True) for n in range(10)]
    calls.insert(5, of_file.run(slow, 0.05, writes=True))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results.pop(5), TimeoutError)
    assert [rows[0][0] for rows in results] == list(range(10))
    assert await count(of_file) == 10


async def test_a_write_that_waits_longer_than_its_limit_does_not_run(of_file):
    slow = Statement(f"insert into t select count(*), 'slow' from ({SLOW.text})")
    first = asyncio.ensure_future(of_file.run(slow, 2, writes=True))
    beside = asyncio.ensure_future(of_file.run(insert(1), 0.05, writes=True))
    await asyncio.sleep(0.02)
    waits = asyncio.ensure_future(of_file.run(insert(2), 0.05, writes=True))
    results = await asyncio.gather(beside, waits, return_exceptions=True)
    assert [type(result) for result in results] == [TimeoutError] * 2
    assert not first.done()
    with pytest.raises(TimeoutError):
        await first
    assert await count(of_file) == 0


async def test_one_over_its_limit_before_its_turn_is_left_out(of_file):
    takes_a_moment = SLOW.text.replace("1e12", "1e6")
    slow = Statement(f"insert into t select count(*), 'slow' from ({takes_a_moment})")
    results = await asyncio.gather(
        of_file.run(slow, 9, writes=True),
        of_file.run(insert(1), 0.01, writes=True),
        of_file.run(insert(2), 9, writes=True),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [list, TimeoutError, list]
    assert await count(of_file) == 2


async def test_what_a_commit_refuses_fails_alone(of_file):
    reference = "references t (n) deferrable initially deferred"
    await of_file.execute(f"create table chairs (n integer {reference})")
    calls = [of_file.run(insert(n), 30, writes=True) for n in range(5)]
    chair = Statement("insert into chairs values (?1)", (99,))
    results = await asyncio.gather(
        *calls, of_file.run(chair, 5, writes=True), return_exceptions=True
    )
    assert isinstance(results.pop(), sqlite3.IntegrityError)
    assert results == [[(n,)] for n in range(5)]
    assert await count(of_file) == 5


async def test_what_ends_the_whole_transaction_fails_alone(of_file):
    await of_file.execute(
        "create trigger refuses before insert on t when new.n = 3"
        " begin select raise(rollback, 'no'); end"
    )
    calls = [of_file.run(insert(n), 30, writes=True) for n in range(6)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results.pop(3), sqlite3.IntegrityError)
    assert results == [[(n,)] for n in (0, 1, 2, 4, 5)]


async def test_a_full_disk_fails_those_who_need_more(of_file):
    pages = (await of_file.fetch("pragma page_count"))[0]["page_count"]
    await of_file.execute(f"pragma max_page_count = {pages + 3}")
    calls = [of_file.run(insert(n, "x"), 30, writes=True) for n in range(4)]
    calls.insert(2, of_file.run(insert(99, "x" * 100_000), 30, writes=True))
    results = await asyncio.gather(*calls, return_exceptions=True)
    error = results.pop(2)
    assert error.sqlite_errorname == "SQLITE_FULL"
    assert results == [[(n,)] for n in range(4)]


async def test_cancelled_writes_that_wait_do_not_run(of_file):
    async with of_file.begin():
        calls = [asyncio.ensure_future(of_file.run(insert(n), 30, writes=True)) for n in range(4)]
        await asyncio.sleep(0.01)
        calls[1].cancel()
        calls[2].cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert results[::3] == [[(0,)], [(3,)]]
    assert await count(of_file) == 2


async def test_a_cancelled_write_under_way_does_no_harm_to_those_beside_it(of_file):
    takes_a_moment = SLOW.text.replace("1e12", "1e5")
    slow = Statement(f"insert into t select 77, count(*) from ({takes_a_moment})")
    calls = [asyncio.ensure_future(of_file.run(insert(n), 30, writes=True)) for n in range(3)]
    calls.insert(0, asyncio.ensure_future(of_file.run(slow, 5, writes=True)))
    await asyncio.sleep(0.005)
    calls[0].cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert results[1:] == [[(n,)] for n in range(3)]


async def test_statements_of_the_application_run_alone(database):
    results = await asyncio.gather(
        database.run(insert(1), 30, writes=True),
        database.run(insert(2), 30, writes=True),
        database.execute("begin"),
        database.execute("vacuum"),
        database.run(insert(3), 30, writes=True),
        return_exceptions=True,
    )
    assert results[:2] == [[(1,)], [(2,)]]
    assert "left a transaction open" in str(results[2])
    assert results[3:] == [0, [(3,)]]
    assert await database.fetch("insert into t values (4, 'x') returning n") == [{"n": 4}]
    assert await database.execute("pragma user_version") == 1


async def test_numbers_that_sqlite_does_not_have_are_an_error_of_their_call_alone(database):
    calls = [database.run(insert(n), 30, writes=True) for n in (1, 2**70, 2)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results.pop(1), OverflowError)
    assert results == [[(1,)], [(2,)]]


# -- readers --------------------------------------------------------------------------------------


async def test_a_slow_read_holds_nobody_up(of_file):
    slow = asyncio.ensure_future(of_file.run(SLOW, 60))
    quick = [of_file.run(ONE, 30) for _ in range(5)]
    await asyncio.gather(*quick, of_file.run(insert(1), 30, writes=True))
    assert not slow.done()
    slow.cancel()


async def test_results_before_a_slow_read_come_without_it(database):
    quick = asyncio.ensure_future(database.run(ONE, 30))
    slow = asyncio.ensure_future(database.run(SLOW, 60))
    assert await quick == [(1,)]
    assert not slow.done()
    slow.cancel()


async def test_results_of_many_come_one_part_after_the_other(database):
    work = Statement(SLOW.text.replace("1e12", "3e4"))
    rows = await asyncio.gather(*(database.run(work, 5) for _ in range(6)))
    assert len(rows) == 6


async def test_a_transaction_that_reads_leaves_the_others_alone(of_file):
    async with of_file.begin(read_only=True) as transaction:
        assert await transaction.fetch("select count(*) as n from t") == [{"n": 0}]
        await of_file.run(insert(1), 30, writes=True)
        assert await count(of_file) == 1
        assert await transaction.fetch("select count(*) as n from t") == [{"n": 0}]


async def test_a_reader_that_stays_does_not_hold_up_the_writer(of_file, tmp_path):
    outside = sqlite3.connect(tmp_path / "test.sqlite", isolation_level=None)
    outside.execute("begin")
    outside.execute("select count(*) from t").fetchone()
    for start in range(0, 400, 100):
        calls = [of_file.run(insert(start + n), 30, writes=True) for n in range(100)]
        await asyncio.gather(*calls)
    assert outside.execute("select count(*) from t").fetchone() == (0,)
    outside.close()
    assert await count(of_file) == 400


async def test_the_event_loop_goes_on_while_a_million_rows_are_read(of_file):
    rows = "with recursive c(n) as (select 1 union all select n + 1 from c where n < {})"
    million = Statement(f"{rows.format(1_000_000)} select count(*), max(n || 'x') from c")
    await of_file.run(ONE, 30)
    reading = asyncio.ensure_future(of_file.run(million, 30))
    steps = []
    while not reading.done():
        begun = time.thread_time()
        await asyncio.sleep(0)
        steps.append(time.thread_time() - begun)
    assert (await reading)[0][0] == 1_000_000
    assert sorted(steps)[-5] < 0.005  # but for the garbage collector, and the rest of the tests


# -- transactions ---------------------------------------------------------------------------------


async def test_writers_wait_for_a_transaction_and_no_longer(database):
    async with database.begin() as transaction:
        waits = asyncio.ensure_future(database.run(insert(1), 0.03, writes=True))
        other = database.begin(seconds=0.03)
        with pytest.raises(TimeoutError):
            await asyncio.ensure_future(other.__aenter__())  # in a task of its own
        with pytest.raises(TimeoutError, match=r"waited .* for an open transaction"):
            await waits
        await transaction.run(insert(2), 5)
    assert await count(database) == 1


async def test_transactions_that_wait_follow_each_other(database):
    async def work(n):
        async with database.begin() as transaction:
            rows = await transaction.fetch("select count(*) as n from t")
            await transaction.run(insert(n, str(rows[0]["n"])), 5)

    await asyncio.gather(*(work(n) for n in range(5)))
    names = await database.fetch("select name from t order by name")
    assert [row["name"] for row in names] == list("01234")


async def test_a_transaction_whose_caller_has_gone_does_not_begin(database):
    async with database.begin():
        other = asyncio.ensure_future(database.begin().__aenter__())
        await asyncio.sleep(0.01)
        other.cancel()
    async with asyncio.timeout(30):
        await database.run(insert(1), 30, writes=True)


async def test_a_caller_that_goes_while_its_transaction_begins(of_file, tmp_path):
    outside = sqlite3.connect(tmp_path / "test.sqlite", isolation_level=None)
    outside.execute("begin immediate")
    begins = asyncio.ensure_future(of_file.begin().__aenter__())
    await asyncio.sleep(0.05)  # it waits for the other process
    begins.cancel()
    outside.close()
    async with asyncio.timeout(30):
        await of_file.run(insert(1), 30, writes=True)


async def test_one_that_the_database_has_ended_refuses_what_follows(database):
    await database.execute(
        "create trigger refuses before insert on t when new.n = 3"
        " begin select raise(rollback, 'no'); end"
    )
    with pytest.raises(RuntimeError, match="database has rolled this transaction back"):
        async with database.begin() as transaction:
            await transaction.run(insert(1), 5)
            with pytest.raises(sqlite3.IntegrityError):
                await transaction.run(insert(3), 5)
            with pytest.raises(RuntimeError, match="database has rolled this transaction back"):
                await transaction.run(insert(4), 5)
    assert await count(database) == 0


async def test_a_statement_in_a_transaction_is_stopped_alone(database):
    async with database.begin() as transaction:
        await transaction.run(insert(1), 5)
        with pytest.raises(TimeoutError, match="ran longer than its time limit"):
            await transaction.run(SLOW, 0.05)
        call = asyncio.ensure_future(transaction.run(SLOW, None))
        waits = asyncio.ensure_future(transaction.run(insert(2), 5))
        await asyncio.sleep(0.01)
        waits.cancel()
        call.cancel()
        await transaction.run(insert(3), 5)
    assert await count(database) == 2


@pytest.mark.parametrize("end", ["its time is over", "its task is cancelled"])
async def test_one_that_ends_badly_stops_what_it_runs(database, end):
    others = []
    is_late = end == "its time is over"

    async def hold():
        async with database.begin(seconds=0.3 if is_late else 60) as transaction:
            await transaction.run(insert(1), 5)
            others.extend(
                asyncio.ensure_future(transaction.run(statement, 60))
                for statement in (SLOW, insert(2))
            )
            await asyncio.sleep(0.4 if is_late else 60)

    task = asyncio.ensure_future(hold())
    async with asyncio.timeout(30):
        await eventually(lambda: others)
        await asyncio.sleep(0.05)
        if not is_late:
            task.cancel()
        results = await asyncio.gather(task, *others, return_exceptions=True)
        expected = TimeoutError if is_late else RuntimeError
        assert isinstance(results[0], TimeoutError if is_late else asyncio.CancelledError)
        assert [type(result) for result in results[1:]] == [expected, expected]
        assert await count(database) == 0  # and the thread is free


async def test_closing_rolls_back_what_is_open(database):
    transaction = database.begin()
    await transaction.__aenter__()
    await transaction.run(insert(1), 5)
    waits = asyncio.ensure_future(database.run(insert(2), 30, writes=True))
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await database.close()
    assert await waits == [(2,)]
    with pytest.raises(RuntimeError, match="rolled this transaction back"):
        await transaction.run(insert(3), 5)
    with pytest.raises(RuntimeError, match="rolled this transaction back"):
        await transaction.__aexit__(None, None, None)
    assert threads() == []


async def test_a_transaction_that_begins_while_it_closes_is_rolled_back(database):
    moment = SLOW.text.replace("1e12", "3e5")
    slow = asyncio.ensure_future(
        database.run(Statement(f"insert into t select 1, count(*) from ({moment})"), 5, writes=True)
    )
    transaction = database.begin()
    begins = asyncio.ensure_future(transaction.__aenter__())
    await asyncio.sleep(0.005)
    await database.close()
    assert await slow == []
    assert await begins is transaction
    with pytest.raises(RuntimeError, match="rolled this transaction back"):
        await transaction.__aexit__(None, None, None)


async def test_a_task_that_its_transaction_waits_for_learns_how_to_take_part(database):
    async with database.begin():
        started_inside = asyncio.create_task(database.run(insert(1), 0.03, writes=True))
        with pytest.raises(TimeoutError, match=r"in which its task was started\..*Pass the tr"):
            await started_inside


async def test_a_task_that_was_started_elsewhere_only_waits(database):
    async with database.begin():
        call = database.run(insert(1), 0.03, writes=True)
        with pytest.raises(TimeoutError, match=r"for an open transaction$"):
            await asyncio.create_task(call, context=Context())


# -- statements that nobody waits for -------------------------------------------------------------


@pytest.mark.parametrize("ends_by", ["cancel", "time limit"])
async def test_a_statement_whose_caller_goes_as_it_begins(database, monkeypatch, ends_by):
    # The thread has the statement, but SQLite has not begun with it.
    begins, may_begin = threading.Event(), threading.Event()
    run = sqlite._Job.run

    def run_late(job, connection):
        if job.statement == SLOW:
            begins.set()
            may_begin.wait(30)
        run(job, connection)

    monkeypatch.setattr(sqlite._Job, "run", run_late)
    call = asyncio.create_task(database.run(SLOW, 60 if ends_by == "cancel" else 0.05))
    await eventually(begins.is_set)
    if ends_by == "cancel":
        call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    may_begin.set()
    async with asyncio.timeout(30):
        await database.close()
    assert threads() == []


def test_statements_of_an_event_loop_that_was_closed_are_stopped(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")

    async def leave():
        driver = database._driver
        for job in (
            sqlite._Job(ONE, None),
            sqlite._Job(SLOW, None),
            sqlite._Job(SLOW, None),
            sqlite._Job(SLOW, None),
        ):
            driver.threads(writes=False).waiting.put(job)
        transaction = sqlite._Transaction(driver, read_only=False, seconds=60)
        driver.threads(writes=True).waiting.put(
            sqlite._Job(Statement("begin"), 60, transaction=transaction)
        )
        await asyncio.sleep(0.05)

    async def end():
        assert await database.run(ONE, 30) == [(1,)]
        await database.close()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    loop.close()
    asyncio.run(end())
    assert threads() == []


async def test_threads_of_a_database_that_was_not_closed_end_at_once(database):
    calls = [asyncio.create_task(database.run(SLOW, None)) for _ in range(4)]
    await asyncio.sleep(0.05)
    sqlite._end_threads()  # as at the end of the interpreter
    assert threads() == []
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


FORGETS_TO_CLOSE = """
import asyncio, sys
from alula.adapters.sql import Database
from alula.adapters.sql._statement import Statement

database = Database(f"sqlite:///{sys.argv[1]}")

async def main():
    await database.execute("create table t (n integer)")
    slow = Statement(sys.argv[2])
    calls = [asyncio.create_task(database.run(slow, None)) for _ in range(5)]
    await database.begin().__aenter__()
    await asyncio.sleep(0.1)
    return calls

loop = asyncio.new_event_loop()
calls = loop.run_until_complete(main())
print("ends")
"""


def test_a_program_that_does_not_close_its_database_ends(tmp_path):
    program = subprocess.run(
        [sys.executable, "-c", FORGETS_TO_CLOSE, str(tmp_path / "test.sqlite"), SLOW.text],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    assert (program.returncode, program.stdout) == (0, "ends\n"), program.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["test.sqlite"]


# -- files and processes --------------------------------------------------------------------------


async def test_another_writer_of_the_file_is_waited_for(of_file, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 1)
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    await database.open()
    outside = sqlite3.connect(tmp_path / "test.sqlite", isolation_level=None)
    outside.execute("begin immediate")
    begun = time.monotonic()
    calls = [database.run(insert(n), 30, writes=True) for n in range(2)]
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [error.sqlite_errorname for error in errors] == ["SQLITE_BUSY"] * 2
    assert time.monotonic() - begun >= 1
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        await database.begin().__aenter__()
    waits = asyncio.ensure_future(database.run(insert(5), 30, writes=True))
    await asyncio.sleep(0.02)
    outside.close()
    assert await waits == [(5,)]
    await database.close()


async def test_two_databases_open_one_new_file_at_the_same_time(tmp_path):
    path = tmp_path / "new.sqlite"
    databases = [Database(f"sqlite:///{path}") for _ in range(4)]
    calls = [database.run(ONE, 30) for database in databases]
    assert await asyncio.gather(*calls) == [[(1,)]] * 4
    for database in databases:
        await database.close()


async def test_the_change_to_wal_waits_for_others(tmp_path, monkeypatch):
    path = tmp_path / "old.sqlite"
    outside = sqlite3.connect(path, isolation_level=None)
    outside.execute("create table t (n integer)")
    outside.execute("begin exclusive")
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    database = Database(f"sqlite:///{path}")
    with pytest.raises(Unavailable) as caught:
        await database.open()
    assert str(caught.value.__cause__) == "database is locked"
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 30)
    opening = asyncio.ensure_future(database.open())
    await asyncio.sleep(0.05)
    outside.close()
    await opening
    await database.close()


async def test_a_file_that_cannot_be_opened_is_tried_again(tmp_path):
    folder = tmp_path / "folder"
    database = Database(f"sqlite:///{folder / 'test.sqlite'}")
    calls = [database.run(ONE, 30) for _ in range(3)]
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [error.sqlite_errorname for error in errors] == ["SQLITE_CANTOPEN"] * 3
    last = asyncio.create_task(database.run(ONE, 30))
    await asyncio.sleep(0)
    await database.close()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        await last
    folder.mkdir()
    assert await database.run(ONE, 30) == [(1,)]
    await database.close()


@pytest.fixture
def checked_at_once(monkeypatch):
    monkeypatch.setattr(sqlite, "_CHECK_SECONDS", 0)


@pytest.mark.usefixtures("checked_at_once")
async def test_a_file_that_was_removed_or_replaced_takes_no_writes(of_file, tmp_path):
    path, elsewhere = tmp_path / "test.sqlite", tmp_path / "elsewhere.sqlite"
    await of_file.run(insert(1), 30, writes=True)

    async def refuse_all():
        for statement, writes in ((insert(2), True), (Statement("select * from t"), False)):
            with pytest.raises(sqlite3.OperationalError, match="was removed or replaced") as raised:
                await of_file.run(statement, 5, writes=writes)
            assert isinstance(of_sqlite(raised.value, None, False), Unavailable)
        with pytest.raises(Unavailable):
            async with of_file.transaction():
                pass

    path.rename(elsewhere)
    await refuse_all()
    assert not path.exists()
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as other:
        other.execute(TABLE)
    (tmp_path / "other.sqlite").rename(path)
    await refuse_all()
    elsewhere.rename(path)
    await of_file.run(insert(3), 30, writes=True)
    assert await count(of_file) == 2


@pytest.mark.usefixtures("checked_at_once")
async def test_a_database_in_memory_has_no_file_to_lose():
    database = Database("sqlite://")
    await database.execute(TABLE)
    await asyncio.sleep(0.001)
    assert await count(database) == 0
    await database.close()


async def test_a_program_may_change_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    database = Database("sqlite:///test.sqlite")
    await database.execute(TABLE)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert await count(database) == 0  # by the first connection that reads
    await database.close()


async def test_a_file_that_only_the_caller_had_open_may_be_replaced(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    (await database._driver.connect_once(None)).close()
    (tmp_path / "test.sqlite").rename(tmp_path / "old.sqlite")
    await database.execute(TABLE)
    (await database._driver.connect_once(None)).close()
    (tmp_path / "test.sqlite").unlink()
    with pytest.raises(sqlite3.OperationalError, match="was removed or replaced"):
        await database._driver.connect_once(None)
    await database.close()


async def test_a_scratch_database_is_in_memory(of_file):
    with closing(await of_file.connect_once("scratch")) as scratch:
        assert scratch.execute("select name from sqlite_schema").fetchall() == []


async def test_a_closed_database_may_open_another_file(of_file, tmp_path):
    await of_file.close()
    (tmp_path / "test.sqlite").rename(tmp_path / "old.sqlite")
    await of_file.execute(TABLE)
    assert await count(of_file) == 0


async def test_nothing_is_left_open_and_no_thread_goes_on(tmp_path):
    path = tmp_path / "test.sqlite"
    database = Database(f"sqlite:///{path}")
    await database.execute(TABLE)
    await asyncio.gather(*(database.run(insert(n), 30, writes=True) for n in range(9)))
    assert threads()
    await database.close()
    assert threads() == []
    assert [file.name for file in tmp_path.iterdir()] == ["test.sqlite"]  # neither log nor index
    await database.close()


def test_parameters_have_numbers_however_many_there_are():
    assert sqlite.numbered(["a", "b"]) == {"1": "a", "2": "b"}
    assert list(sqlite.numbered([None] * 150)) == [str(number) for number in range(1, 151)]
