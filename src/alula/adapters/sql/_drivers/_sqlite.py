"""SQLite through the standard library: one thread that writes, two that read."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from alula.adapters.sql._columns._number_types import DECIMAL_COLLATION, compare_decimals
from alula.adapters.sql._drivers._driver import Answer, Isolation, Transaction
from alula.adapters.sql._drivers._sqlite_functions import FUNCTIONS
from alula.adapters.sql._drivers._sqlite_jobs import Inbox, Job, Session
from alula.adapters.sql._drivers._sqlite_threads import Lane
from alula.adapters.sql._statement import Row, Statement

__all__ = ["SQLite"]

READERS: Final = 2

BUSY_SECONDS: Final = 5.0
"""How long a statement waits for another process that writes."""

_CACHED_STATEMENTS: Final = 500

_LARGEST_LOG_BYTES: Final = 64_000_000
"""To what size the write-ahead log is cut back after it has grown, as while a reader stays."""

_SQLITE_READONLY: Final = 8

_own: Final[ContextVar[tuple[_Transaction, ...]]] = ContextVar("alula_sqlite_own", default=())
"""The open transactions that this code is in."""


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
        self._writer: Lane | None = None
        self._reader: Lane | None = None
        self._inboxes: dict[asyncio.AbstractEventLoop, Inbox] = {}
        self._inbox: Inbox | None = None

    async def open(self) -> None:
        """Open the file, which is created if it is missing.

        Raises:
            sqlite3.OperationalError: It cannot be opened.
        """
        await self.run(Statement("pragma user_version"), None, writes=True)

    async def connect_once(self, scratch: str | None) -> sqlite3.Connection:
        """Return a connection that the caller closes; a scratch database is in memory."""
        if scratch is not None:
            return SQLite(None, self._sync).connection()
        connection = self.connection()
        if self._writer is None:  # nothing stays open here
            self._file = None
        return connection

    async def close(self) -> None:
        """Close the file, when all that waits has run; open transactions are rolled back."""
        lanes = {lane for lane in (self._writer, self._reader) if lane is not None}
        self._writer = self._reader = self._inbox = None
        self._inboxes.clear()
        for lane in lanes:
            lane.close()
        for lane in lanes:  # a last checkpoint of the log may take a moment
            await asyncio.to_thread(lane.join)
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
        if _own.get():
            self.refuse_own_wait(statement.text, writes=writes)
        inbox = self._inbox
        if inbox is None or inbox.loop is not asyncio.get_running_loop():
            inbox = self._inbox_of_loop()
        lane = self._writer if writes else self._reader
        assert lane is not None  # noqa: S101  # there are inboxes only while there are lanes
        text, parameters = statement
        rows: Sequence[Row] = await inbox.run(lane, Job(inbox, text, parameters, seconds))
        return rows

    async def query(self, statement: Statement, *, writes: bool) -> Answer:
        """Run a statement of the application.

        Raises:
            RuntimeError: It would wait for the transaction that it is called in.
        """
        text, parameters = statement
        answer: Answer
        self.refuse_own_wait(text, writes=writes)
        if not writes:
            try:
                inbox = self._inbox_of_loop()
                answer = await inbox.run(
                    self.lane(writes=False), Job(inbox, text, parameters, None, answers=True)
                )
            except sqlite3.OperationalError as error:
                # `insert ... returning`: a thread that reads refuses it.
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != _SQLITE_READONLY:
                    raise
            else:
                return answer
        self.refuse_own_wait(text, writes=True)
        inbox = self._inbox_of_loop()
        answer = await inbox.run(
            self.lane(writes=True), Job(inbox, text, parameters, None, answers=True)
        )
        return answer

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
            # A task that was started inside may go on when the transaction has ended.
            if is_held and transaction.is_of_current_task(self):
                raise RuntimeError(
                    "this statement does not take part in the transaction that it is called in, so"
                    " it would wait for it for ever: SQLite has one writer, and in memory one"
                    " connection. Pass the transaction on: sql=context.params.sql in a hook,"
                    " sql=params.sql in a service, sql={'connection': transaction} in a block,"
                    f" transaction.execute() for SQL of your own. The statement is: {text:.300}"
                )

    def lane(self, *, writes: bool) -> Lane:
        """Return the threads that write or read; they are started if they are not running."""
        if self._writer is None or self._reader is None:
            if self._path is None:
                self._writer = self._reader = Lane(
                    "alula-sqlite", self.connection, self.check_file, 1, together=False
                )
            else:
                self._writer = Lane(
                    "alula-sqlite-writer", self.connection, self.check_file, 1, together=True
                )
                self._reader = Lane(
                    "alula-sqlite-reader",
                    partial(self.connection, reads=True),
                    self.check_file,
                    READERS,
                    together=False,
                )
        return self._writer if writes else self._reader

    def inbox(self) -> Inbox:
        """Return the inbox of the running event loop."""
        return self._inbox_of_loop()

    def _inbox_of_loop(self) -> Inbox:
        lanes = {self.lane(writes=True), self.lane(writes=False)}
        loop = asyncio.get_running_loop()
        inbox = self._inboxes.get(loop)
        if inbox is None:
            for ended in [other for other in self._inboxes if other.is_closed()]:
                del self._inboxes[ended]
            inbox = self._inboxes[loop] = Inbox(lanes)
        self._inbox = inbox
        return inbox

    # -- in the threads ----------------------------------------------------------------------------

    def connection(self, *, reads: bool = False) -> sqlite3.Connection:
        """Open the file."""
        with self._opening:  # two at a time would compete for the change to WAL
            if self._file is not None:  # else a new file would take the log of the one before
                self.check_file()
            try:
                connection = sqlite3.connect(
                    self._path or ":memory:",
                    timeout=0,  # until it is set below
                    isolation_level=None,
                    check_same_thread=False,  # for `interrupt`
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
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError:
            # SQLite itself would not wait for a process that changes the mode at the same time.
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


class _Transaction(Transaction):
    """A transaction on SQLite. Unless it is read-only, all other writers wait for its end."""

    _dialect = "sqlite"

    def __init__(self, database: SQLite, read_only: bool, seconds: float) -> None:
        super().__init__(seconds)
        self._database = database
        self._task: asyncio.Task[Any] | None = None
        self.writes = not read_only

    def is_of_current_task(self, database: SQLite) -> bool:
        """Tell whether it is open, on this database, and begun by this task."""
        return self.is_open and self._database is database and self._task is asyncio.current_task()

    @property
    def connection(self) -> Any:
        """Not to be had: the connection belongs to a thread."""
        raise RuntimeError(
            "SQLite's connection belongs to a thread; use `transaction.fetch` and"
            " `transaction.execute`"
        )

    async def _begin(self) -> None:
        begin = "begin immediate" if self.writes else "begin"
        self._database.refuse_own_wait(begin, writes=self.writes)
        inbox = self._inbox = self._database.inbox()
        lane = self._database.lane(writes=self.writes)
        session = self._session = Session(inbox, begin, self._seconds, lane.stop)
        try:
            await inbox.run(lane, session)
        except BaseException:
            session.jobs.put(None)  # it may have begun meanwhile
            raise
        self._task = asyncio.current_task()
        _own.set((*[other for other in _own.get() if other.is_open], self))

    async def _run(self, statement: Statement, seconds: float) -> Sequence[Row]:
        text, parameters = statement
        rows: Sequence[Row] = await self._send(Job(self._inbox, text, parameters, seconds))
        return rows

    async def _query(self, statement: Statement, seconds: float) -> Answer:
        text, parameters = statement
        job = Job(self._inbox, text, parameters, seconds, answers=True)
        answer: Answer = await self._send(job)
        return answer

    async def _send(self, job: Job) -> Any:
        try:
            return await self._inbox.run(self._session, job)
        except (sqlite3.OperationalError, RuntimeError) as error:
            if self._session.is_abandoned:
                raise self._over() from error
            raise

    async def _commit(self) -> None:
        seconds = max(self._deadline - time.monotonic(), 1.0)
        try:
            await self._send(Job(self._inbox, "commit", (), seconds))
        except BaseException:
            self._abandon()  # a foreign key that the commit checks
            raise

    async def _rollback(self) -> None:
        self._abandon()

    def _abandon(self) -> None:
        self._session.abandon()
