"""SQLite through the standard library: one thread that writes, two that read.

- Each connection belongs to one thread, which opens it, uses it and closes it. No other thread
  touches it: SQLite itself asks, in the middle of a long statement, whether somebody still waits.
- A thread takes all jobs that wait, and sends the results back together: changing threads costs
  more than a small statement.
- Writes that wait share one transaction. Each is one statement, and SQLite undoes a statement that
  fails, so no savepoints are needed. If the transaction as a whole is lost, each statement runs
  again, alone.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import queue
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, Literal

from alula.adapters.sql._columns._number_types import DECIMAL_COLLATION, compare_decimals
from alula.adapters.sql._drivers._driver import Answer, Isolation, Transaction
from alula.adapters.sql._drivers._sqlite_functions import FUNCTIONS
from alula.adapters.sql._statement import Row, Statement

__all__ = ["SQLite"]

READERS: Final = 2

BUSY_SECONDS: Final = 5.0
"""How long a statement waits for another process that writes."""

_MAX_BATCH: Final = 500
"""How many writes share one transaction at most."""

_PROGRESS_STEPS: Final = 200_000
"""After how many steps SQLite calls the progress handler: about 5 ms."""

_DELIVER_SECONDS: Final = 0.002
"""How long results wait for those of the statements after them."""

_TICK_SECONDS: Final = 0.01
"""How often the event loop looks for calls over their time limit."""

_CHECK_SECONDS: Final = 1.0
"""How often a thread that has work checks that its file still exists."""

_CACHED_STATEMENTS: Final = 500

_LARGEST_LOG_BYTES: Final = 64_000_000
"""SQLite cuts the write-ahead log back to this size. A long read lets it grow."""

_ROLLED_BACK: Final = "the database has rolled this transaction back"

_ADVICE: Final = (
    "Pass the transaction on: sql=context.params.sql in a hook, sql=params.sql in a service,"
    " sql={'connection': transaction} in a block, transaction.execute() for SQL of your own."
)

_NUMBERS: Final = tuple(map(str, range(1, 101)))
"""Most statements have no more parameters; making these names takes longer than the rest."""

_own: Final[ContextVar[tuple[_Transaction, ...]]] = ContextVar("alula_sqlite_own", default=())
"""The open transactions in which this code runs, or in which its task was started."""


class SQLite:
    """A database in a file, or in memory.

    In memory there is one connection for everything: SQLite's shared cache would refuse reads
    while another connection writes.

    Args:
        path: The file; None means in memory.
        sync: "full" waits for the disk with each commit, which survives the loss of power too.
    """

    code_point_order = True

    def __init__(self, path: Path | None, sync: Literal["normal", "full"]) -> None:
        self.version: tuple[int, ...] = sqlite3.sqlite_version_info
        self._path = None if path is None else path.absolute()  # the program may change its folder
        self._sync: Literal["normal", "full"] = sync
        self._opening = threading.Lock()
        self._file: tuple[int, int] | None = None  # the device and the number of what is open
        self._running: tuple[_Threads, _Threads] | None = None
        self._clock: _Clock | None = None  # of the event loop that ran a statement last

    async def open(self) -> None:
        """Open the file, which is created if it is missing.

        Raises:
            sqlite3.OperationalError: It cannot be opened.
        """
        await self.run(Statement("pragma user_version"), None, writes=True)

    async def connect_once(self, scratch: str | None) -> sqlite3.Connection:
        """Return a connection that the caller closes; a scratch database is in memory."""
        if scratch is not None:
            return SQLite(None, self._sync).connect()
        connection = self.connect()
        if self._running is None:  # nothing stays open here
            self._file = None
        return connection

    async def close(self) -> None:
        """Close the file after all waiting statements have run; roll back open transactions."""
        running, self._running = self._running, None
        for threads in running or ():
            threads.close()
        for threads in running or ():  # a last checkpoint of the log may take a moment
            await asyncio.to_thread(threads.join)
        self._file = None

    async def run(
        self,
        statement: Statement,
        seconds: float | None,
        *,
        writes: bool = False,
        primary: bool = True,
    ) -> Sequence[Row]:
        """Run one statement; there are no replicas.

        Raises:
            RuntimeError: It would wait for the transaction that it is called in.
        """
        del primary
        rows: Sequence[Row] = await self._run(_Job(statement, seconds), writes)
        return rows

    async def query(self, statement: Statement, *, writes: bool) -> Answer:
        """Run a statement of the application.

        Raises:
            RuntimeError: It would wait for the transaction that it is called in.
        """
        answer: Answer
        if not writes:
            try:
                answer = await self._run(_Job(statement, None, answers=True), writes=False)
            except sqlite3.OperationalError as error:
                # `insert ... returning`: a thread that reads refuses it.
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_READONLY:
                    raise
            else:
                return answer
        answer = await self._run(_Job(statement, None, answers=True), writes=True)
        return answer

    def _run(self, job: _Job, writes: bool) -> asyncio.Future[Any]:
        if job.started_in:
            self.refuse_own_wait(job.statement.text, writes=writes)
        self.watch(job)
        self.threads(writes=writes).add(job)
        return job.future

    def watch(self, job: _Job) -> None:
        """End a job that is over its time limit."""
        clock = self._clock
        if clock is None or clock.loop is not job.loop:
            clock = self._clock = _Clock(job.loop)
        clock.watch(job)

    def transaction(
        self,
        isolation: Isolation,
        settings: Mapping[str, str] | None,
        read_only: bool,
        seconds: float,
    ) -> Transaction:
        """Return a transaction that has not begun; its isolation is always serializable.

        Raises:
            ValueError: There are settings, which SQLite does not have.
        """
        del isolation
        if settings:
            raise ValueError("SQLite has no settings of a transaction; leave out `settings`")
        return _Transaction(self, read_only, seconds)

    def refuse_own_wait(self, text: str, *, writes: bool) -> None:
        """Refuse a statement that would wait for a transaction that waits for this statement.

        Args:
            text: The statement.
            writes: Whether it goes to the thread that writes.

        Raises:
            RuntimeError: This task is in such a transaction.
        """
        for transaction in _own.get():
            # In memory there is one thread for everything.
            is_held = self._path is None or (writes and transaction.writes)
            # A task that was started inside may outlast the transaction, so it may wait.
            if is_held and transaction.is_of_current_task(self):
                raise RuntimeError(
                    "this statement does not take part in the transaction that it is called in, so"
                    " it would wait for it for ever: SQLite has one writer, and in memory one"
                    f" connection. {_ADVICE} The statement is: {text:.300}"
                )

    def threads(self, *, writes: bool) -> _Threads:
        """Return the threads that write or read, and start them if they are not running."""
        if self._running is None and self._path is None:
            both = _Threads(self, "alula-sqlite", 1)
            self._running = (both, both)
        elif self._running is None:
            self._running = (
                _Threads(self, "alula-sqlite-writer", 1, together=True),
                _Threads(self, "alula-sqlite-reader", READERS, reads=True),
            )
        return self._running[not writes]

    # -- in the threads ----------------------------------------------------------------------------

    def connect(self, *, reads: bool = False) -> sqlite3.Connection:
        """Open the file."""
        with self._opening:  # two at a time would compete for the change to WAL
            if self._file is not None:  # else a new file would take the log of the one before
                self.check_file()
            try:
                connection = sqlite3.connect(
                    self._path or ":memory:",
                    timeout=0,  # until it is set below
                    isolation_level=None,
                    cached_statements=_CACHED_STATEMENTS,
                )
            except sqlite3.Error as error:  # its text does not name the file
                error.add_note(f"The file is {self._path}; its folder must exist.")
                raise
            try:
                _change_to_wal(connection)
                self.check_file()
                connection.execute(f"pragma busy_timeout = {round(BUSY_SECONDS * 1000)}")
                connection.execute(f"pragma synchronous = {self._sync}")
                connection.execute(f"pragma journal_size_limit = {_LARGEST_LOG_BYTES}")
                connection.execute("pragma foreign_keys = on")
                connection.execute("pragma case_sensitive_like = on")
                connection.execute(f"pragma query_only = {reads}")
                connection.create_collation(DECIMAL_COLLATION, compare_decimals)
                for name, (arguments, function) in FUNCTIONS.items():
                    connection.create_function(name, arguments, function, deterministic=True)
            except BaseException:
                connection.close()
                raise
        return connection

    def check_file(self) -> None:
        """Check that the path names the file that is open.

        SQLite itself would go on with the file that was there, which nobody can open any more.

        Raises:
            sqlite3.OperationalError: The file was removed or replaced.
        """
        if self._path is None:
            return
        file = None
        with suppress(OSError):
            status = self._path.stat()
            file = status.st_dev, status.st_ino
        self._file = self._file or file
        if file is None or file != self._file:
            error = sqlite3.OperationalError(
                f"{self._path} was removed or replaced while it was open; put it back, or stop the"
                " application and start it again"
            )
            error.sqlite_errorname = "SQLITE_CANTOPEN"
            raise error


def _change_to_wal(connection: sqlite3.Connection) -> None:
    """Have readers and the writer leave each other alone."""
    end = monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError:
            # SQLite itself would not wait for a process that changes the mode at the same time.
            if monotonic() > end:
                raise
            sleep(0.01)
        else:
            return


@dataclass(eq=False, slots=True)
class _Job:
    """One statement, and the call that waits for it.

    Attributes:
        statement: The statement.
        seconds: How long it may take, with waiting.
        answers: Whether the result is an `Answer`, as for statements of the application. Such a
            statement may be anything, so it runs alone.
        transaction: The transaction that it begins, or is part of.
        started_in: The open transactions that its code runs in, or that its task was started in.
        threads: Where it runs, unless it is part of a transaction.
        runs_alone: Whether it cannot share the transaction of other writes.
    """

    statement: Statement
    seconds: float | None
    answers: bool = False
    transaction: _Transaction | None = None
    started_in: tuple[_Transaction, ...] = field(default_factory=_own.get)
    threads: _Threads | None = None
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    future: asyncio.Future[Any] = field(init=False)
    deadline: float = field(init=False)
    runs_alone: bool = field(init=False)
    is_running: bool = False
    result: Any = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.future = self.loop.create_future()
        self.deadline = math.inf if self.seconds is None else monotonic() + self.seconds
        self.runs_alone = self.answers or self.transaction is not None

    def expire(self) -> None:
        """Fail, because the time limit is over; a thread stops the statement if it runs."""
        message = "the statement ran longer than its time limit"
        if not self.is_running:
            message = "the statement waited longer than its time limit"
            if self.threads is not None and self.threads.transactions:
                message += " for an open transaction"
                if not self.threads.transactions.isdisjoint(self.started_in):
                    message += (
                        ", in which its task was started. If the transaction waits for this task,"
                        f" they wait for each other. {_ADVICE}"
                    )
        self.future.set_exception(TimeoutError(message))

    def run(self, connection: sqlite3.Connection) -> None:
        """Run the statement and keep its rows or its error."""
        self.is_running = True
        self.error = None
        text, parameters = self.statement
        try:
            if self.answers:
                cursor = connection.execute(text, parameters)
                rows: list[Row] = cursor.fetchall()
                columns = [column[0] for column in cursor.description or ()]
                count = len(rows) if cursor.rowcount < 0 else cursor.rowcount
                self.result = Answer(columns, rows, count)
            else:
                # Python 3.12 and later take `?1` for a name, for which a tuple has no value.
                self.result = connection.execute(text, numbered(parameters)).fetchall()
        except Exception as error:  # noqa: BLE001  # all of them are for the caller
            self.error = error


def numbered(parameters: Sequence[object]) -> dict[str, object]:
    """Return parameters by their numbers, as sqlite3 takes those of ``?1``.

    Examples:
        >>> numbered(["a", "b"])
        {'1': 'a', '2': 'b'}
    """
    if len(parameters) > len(_NUMBERS):
        return {str(number): value for number, value in enumerate(parameters, 1)}
    return dict(zip(_NUMBERS, parameters, strict=False))


class _Clock:
    """Ends jobs of one event loop that are over their time limit.

    One timer for all of them: a timer for each would cost a tenth of a short statement.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._jobs: list[_Job] = []

    def watch(self, job: _Job) -> None:
        """Watch a job until it is done."""
        if not self._jobs:
            self.loop.call_later(_TICK_SECONDS, self._tick)
        self._jobs.append(job)

    def _tick(self) -> None:
        now = monotonic()
        for job in self._jobs:
            if now > job.deadline and not job.future.done():
                job.expire()
        self._jobs = [job for job in self._jobs if not job.future.done()]
        if self._jobs:
            self.loop.call_later(_TICK_SECONDS, self._tick)


class _Transaction(Transaction):
    """A transaction, which has a thread for itself. If it writes, all other writers wait for it.

    Attributes:
        writes: Whether it may change records.
        jobs: Statements to run; None rolls it back.
        is_abandoned: Whether it is to be rolled back without the statements that still wait.
    """

    _dialect = "sqlite"

    def __init__(self, database: SQLite, read_only: bool, seconds: float) -> None:
        super().__init__(seconds)
        self.writes = not read_only
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.is_abandoned = False
        self._is_over = False
        self._database = database
        self._task: asyncio.Task[Any] | None = None

    def is_of_current_task(self, database: SQLite) -> bool:
        """Tell whether it is open, on this database, and begun by this task."""
        return self.is_open and self._database is database and self._task is asyncio.current_task()

    @property
    def connection(self) -> Any:
        """Not available: the connection belongs to a thread."""
        raise RuntimeError(
            "SQLite's connection belongs to a thread; use `transaction.fetch` and"
            " `transaction.execute`"
        )

    def end(self) -> None:
        """Refuse the statements that come too late; the event loop calls it."""
        self._is_over = True
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        while not self.jobs.empty():
            job = self.jobs.get()
            if job is not None and not job.future.done():
                job.future.set_exception(RuntimeError(_ROLLED_BACK))

    def next_job(self) -> _Job | None:
        """Wait for the next statement; None means that the transaction ends.

        The thread waits no longer than the transaction may take: its event loop may be closed.
        """
        try:
            return self.jobs.get(timeout=max(self._deadline - monotonic(), 0))
        except queue.Empty:
            return None

    async def _begin(self) -> None:
        begin = Statement("begin immediate" if self.writes else "begin")
        self._database.refuse_own_wait(begin.text, writes=self.writes)
        threads = self._database.threads(writes=self.writes)
        job = _Job(begin, self._seconds, transaction=self)
        self._database.watch(job)
        threads.add(job)
        try:
            await job.future
        except BaseException:
            self._abandon()  # it may have begun meanwhile
            raise
        self._task = asyncio.current_task()
        _own.set((*[other for other in _own.get() if other.is_open], self))

    async def _run(self, statement: Statement, seconds: float) -> Sequence[Row]:
        rows: Sequence[Row] = await self._send(_Job(statement, seconds, transaction=self))
        return rows

    async def _query(self, statement: Statement, seconds: float) -> Answer:
        job = _Job(statement, seconds, answers=True, transaction=self)
        answer: Answer = await self._send(job)
        return answer

    async def _send(self, job: _Job) -> Any:
        if self._is_over:
            raise RuntimeError(_ROLLED_BACK)
        self._database.watch(job)
        self.jobs.put(job)
        try:
            return await job.future
        except (sqlite3.OperationalError, RuntimeError) as error:
            if self.is_abandoned:
                raise self._over() from error
            raise

    async def _commit(self) -> None:
        seconds = max(self._deadline - monotonic(), 1.0)
        try:
            await self._send(_Job(Statement("commit"), seconds, transaction=self))
        except BaseException:
            self._abandon()  # a foreign key that the commit checks
            raise

    async def _rollback(self) -> None:
        self._abandon()

    def _abandon(self) -> None:
        self.is_abandoned = True
        self._refuse_waiting()
        self.jobs.put(None)


class _Threads:
    """Jobs that wait, and the threads that take them.

    One thread at a time holds the turn: it takes all jobs that wait. It passes the turn on when a
    transaction or a long statement keeps it busy. So short statements do not wake several threads.

    Args:
        database: Whose connections the threads open.
        name: Of the threads.
        count: How many.
        reads: Whether they only read.
        together: Whether jobs that wait share a transaction; then there is one thread.

    Attributes:
        waiting: The jobs; None ends the threads.
        turn: The lock of the thread that takes jobs.
        transactions: The open transactions.
        is_closing: Whether the threads end once nothing waits.
        is_stopped: Whether they end at once.
    """

    def __init__(
        self,
        database: SQLite,
        name: str,
        count: int,
        *,
        reads: bool = False,
        together: bool = False,
    ) -> None:
        self.database = database
        self.reads = reads
        self.together = together
        self.waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.turn = threading.Lock()
        self.transactions: set[_Transaction] = set()
        self.is_closing = False
        self.is_stopped = False
        self._workers = [_Worker(self, f"{name}-{n}") for n in range(count)]
        for worker in self._workers:
            worker.start()
        _running.add(self)

    def add(self, job: _Job) -> None:
        """Have a thread run a job."""
        job.threads = self
        self.waiting.put(job)

    def close(self) -> None:
        """Have the threads end once nothing waits."""
        self.is_closing = True
        for transaction in [*self.transactions]:
            transaction.jobs.put(None)
        self.waiting.put(None)

    def join(self) -> None:
        """Wait until the threads have ended."""
        for worker in self._workers:
            worker.join()
        _running.discard(self)


_running: Final[set[_Threads]] = set()


@atexit.register
def _end_threads() -> None:
    """End the threads of databases that were not closed.

    The interpreter would end them in the middle of SQLite's code.
    """
    for threads in [*_running]:
        threads.is_stopped = True
        threads.close()
        threads.join()


class _Worker(threading.Thread):
    """One thread with its connection."""

    def __init__(self, threads: _Threads, name: str) -> None:
        # A program that forgets to close its database must still end: see `_end_threads`.
        super().__init__(name=name, daemon=True)
        self._threads = threads
        self._has_turn = False
        self._job: _Job | None = None
        self._done: list[_Job] = []
        self._next_delivery = self._next_check = 0.0

    def run(self) -> None:
        connection: sqlite3.Connection | None = None
        while jobs := self._take():
            try:
                connection = self._checked(connection)
            except Exception as error:  # noqa: BLE001  # for the callers
                self._refuse(jobs, error)
            else:
                self._run_all(connection, jobs)
        self._pass_turn()
        if connection is not None:
            connection.close()

    def _checked(self, connection: sqlite3.Connection | None) -> sqlite3.Connection:
        """Open the connection, or check once in a while that its file still exists."""
        database = self._threads.database
        if connection is None:
            connection = database.connect(reads=self._threads.reads)
            connection.set_progress_handler(self._should_stop, _PROGRESS_STEPS)
        elif monotonic() > self._next_check:
            database.check_file()
            self._next_check = monotonic() + _CHECK_SECONDS
        return connection

    def _refuse(self, jobs: list[_Job], error: Exception) -> None:
        """Fail jobs, and all that wait: they would wait for the same error. The next one tries."""
        waiting = self._threads.waiting
        for _ in range(waiting.qsize()):
            job = waiting.get()
            if job is None:
                waiting.put(None)
            else:
                jobs.append(job)
        for job in jobs:
            job.error = error
        self._done += jobs

    def _take(self) -> list[_Job]:
        """Wait for a job, and take the writes after it that can share a transaction with it.

        The list is empty if the thread is to end.
        """
        waiting = self._threads.waiting
        if not self._has_turn:
            self._deliver()
            self._has_turn = self._threads.turn.acquire()
        jobs: list[_Job] = []
        most = _MAX_BATCH if self._threads.together else 1
        while not jobs or (len(jobs) < most and not jobs[-1].runs_alone and not waiting.empty()):
            if waiting.empty():
                self._deliver()
            job = waiting.get()
            if job is None:
                waiting.put(None)  # for the other threads, and for the next call
                break
            if self._is_wanted(job):
                jobs.append(job)
        return jobs

    def _deliver(self) -> None:
        """Send the results to the event loops of their callers."""
        done, self._done = self._done, []
        by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        for job in done:
            by_loop.setdefault(job.loop, []).append(job)
        for loop, jobs in by_loop.items():
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, jobs)
        self._next_delivery = monotonic() + _DELIVER_SECONDS

    def _pass_turn(self) -> None:
        """Deliver the results so far, and let another thread take the jobs that wait."""
        self._deliver()
        if self._has_turn:
            self._has_turn = False
            self._threads.turn.release()

    def _is_wanted(self, job: _Job) -> bool:
        """Tell whether somebody still waits for a job."""
        return not (
            job.future.done()
            or job.loop.is_closed()
            or (job.transaction is not None and job.transaction.is_abandoned)
            or self._threads.is_stopped
        )

    def _should_stop(self) -> bool:
        """Answer SQLite, which asks in the middle of a long statement."""
        self._pass_turn()
        job = self._job  # None during the commit of several writes
        return job is not None and not self._is_wanted(job)

    def _run(self, connection: sqlite3.Connection, job: _Job) -> None:
        self._job = job
        job.run(connection)
        self._job = None

    def _run_all(self, connection: sqlite3.Connection, jobs: list[_Job]) -> None:
        """Run the jobs that were taken; only the last one may be one that runs alone."""
        last = jobs.pop() if len(jobs) == 1 or jobs[-1].runs_alone else None
        if jobs:
            self._run_together(connection, jobs)
            self._done += jobs
            self._deliver()
        if last is None:
            return
        if last.transaction is not None:
            self._serve(connection, last, last.transaction)
            return
        self._run_alone(connection, last)
        self._done.append(last)
        if monotonic() > self._next_delivery:
            self._deliver()

    def _run_alone(self, connection: sqlite3.Connection, job: _Job) -> None:
        self._run(connection, job)
        if connection.in_transaction:  # of the application: `begin`
            connection.rollback()
            job.error = RuntimeError(
                "this statement left a transaction open, which was rolled back; use"
                " `async with database.transaction()`"
            )

    def _run_together(self, connection: sqlite3.Connection, jobs: list[_Job]) -> None:
        """Run writes in one transaction."""
        try:
            connection.execute("begin immediate")
        except sqlite3.Error as error:  # another process writes all the time
            for job in jobs:
                job.error = error
            return
        for job in jobs:
            if self._is_wanted(job):
                self._run(connection, job)
                if not connection.in_transaction:
                    break
        else:
            try:
                connection.execute("commit")
            except sqlite3.Error:
                connection.rollback()  # if SQLite has not done that
            else:
                return
        # Nothing of it has taken effect, because of one of them: a full disk, a foreign key that
        # the commit checks, a statement that nobody waits for any more.
        for job in jobs:
            if self._is_wanted(job):
                self._run_alone(connection, job)

    def _serve(
        self, connection: sqlite3.Connection, begin: _Job, transaction: _Transaction
    ) -> None:
        """Run the statements of a transaction until it ends."""
        threads = self._threads
        threads.transactions.add(transaction)
        self._pass_turn()
        job: _Job | None = begin
        while job is not None:
            if not job.future.done():
                self._run(connection, job)
                self._done.append(job)
                self._deliver()
            if not connection.in_transaction or threads.is_closing:
                break
            job = transaction.next_job()
        connection.rollback()  # if it is still open
        threads.transactions.discard(transaction)
        with suppress(RuntimeError):  # the loop was closed
            begin.loop.call_soon_threadsafe(transaction.end)


def _settle(jobs: Iterable[_Job]) -> None:
    """Give results to the calls that wait; the event loop calls it."""
    for job in jobs:
        future, error = job.future, job.error
        if future.done():  # cancelled, or over its time limit
            continue
        if error is None:
            future.set_result(job.result)
        else:
            job.error = None  # else the traceback and the job would refer to each other
            future.set_exception(error)
