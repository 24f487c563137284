"""PostgreSQL through asyncpg: pools for each event loop, poolers, replicas and transactions."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

import asyncpg
from asyncpg.transaction import Transaction as AsyncpgTransaction

from alula.adapters.sql._drivers._driver import (
    Answer,
    Isolation,
    LocalServer,
    NoFreeConnection,
    Transaction,
)
from alula.adapters.sql._drivers._pool import Connection, Pool
from alula.adapters.sql._statement import RepeatedStatement, Row, Statement

__all__ = ["PostgreSQL"]

_Rows: TypeAlias = Sequence[Row]
_Result = TypeVar("_Result")
_Level: TypeAlias = Literal["read_uncommitted", "read_committed", "repeatable_read", "serializable"]

SECONDS_TO_CONNECT: Final = 5.0

SECONDS_WITHOUT_REPLICA: Final = 5.0
"""How long the primary takes the reads of a replica that cannot be reached."""

_UNREACHABLE: Final = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
)

_CACHED_STATEMENTS: Final = 500
"""Names of prepared statements on each connection. Every shape of a query is one."""

_CACHED_LENGTH: Final = 4_096
"""How long a statement may be to stay prepared, in characters. The server keeps a plan for each,
0.3 MB for one of 5,500 characters: clients could fill its memory by queries of many shapes."""

_WHO: Final = """
select pg_backend_pid(),
  coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') = 'b'
  or (coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') = 'c' and d.datcollate in ('C', 'POSIX'))
from pg_database d where datname = current_database()
"""
"""The process that serves this connection, and whether text is compared by code point.

`to_jsonb`, since the column is new in PostgreSQL 15."""

_POOLER: Final = (
    "there is a connection pooler (such as pgbouncer) in front of PostgreSQL, behind which prepared"
    " statements go to the wrong server; leave out Database(prepare=True), or connect to PostgreSQL"
    " itself"
)

_CAUGHT: Final = (
    "an error in this transaction was caught, but with it PostgreSQL has undone the whole"
    " transaction; let such errors pass, or catch them around a savepoint:"
    " `async with transaction.connection.transaction():`"
)


class _Server:
    """The pools of one server, one for each event loop.

    Args:
        url: Of the server, or a server that is started with the first connection.
        size: Connections in each pool.
        prepare: Whether to use prepared statements; None means unless there is a pooler.
        settings: Settings of each connection, such as ``search_path``.
        learn: Called with each new connection and whether it compares text by code point.
    """

    def __init__(
        self,
        url: str | LocalServer,
        size: int,
        prepare: bool | None,
        settings: Mapping[str, str] | None,
        learn: Callable[[Connection, bool], None],
    ) -> None:
        self._url = url
        self._size = size
        self._prepare = prepare
        self._settings = dict(settings or {})
        # `now()` in a column without a time zone is UTC then, as all of Alula reads it.
        if "timezone" not in map(str.lower, self._settings):
            self._settings["TimeZone"] = "UTC"
        self._learn = learn
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool = Pool(self._connect, size)
        self._starting = asyncio.Lock()
        self.unreachable_until = 0.0

    def pool(self) -> Pool:
        """Return the pool of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            for ended in [other for other in self._pools if other.is_closed()]:
                del self._pools[ended]
            self._loop = loop
            self._starting = asyncio.Lock()
            self._pool = self._pools.setdefault(loop, Pool(self._connect, self._size))
        return self._pool

    async def close(self) -> None:
        """Close the pool of the running event loop."""
        pool = self.pool()
        del self._pools[asyncio.get_running_loop()]
        self._loop = None
        await pool.close()
        if not isinstance(self._url, str):
            await self._url.stop()

    async def connect_once(self, database: str | None) -> Connection:
        """Return a connection outside of the pool, to this or to another database."""
        return await self._connected(False, database)

    async def _connect(self) -> Connection:
        prepares = self._prepare is not False  # others that connect meanwhile may change it
        connection = await self._connected(prepares)
        try:
            # In a transaction, for which a pooler keeps one server; and without a name, since
            # another program may have prepared a statement of that name on that server.
            async with connection.transaction():
                prepared = await connection.prepare(_WHO, name="")
                ((pid, by_code_point),) = await prepared.fetch()
            if prepares and pid != connection.get_server_pid():
                if self._prepare:
                    raise RuntimeError(_POOLER)
                # Once is enough: names that are off do no harm in front of a server without pooler.
                self._prepare = False
                connection.terminate()
                connection = await self._connected(False)
        except BaseException:
            connection.terminate()
            raise
        self._learn(connection, by_code_point)
        return connection

    async def _connected(self, prepare: bool, database: str | None = None) -> Connection:
        url = self._url
        if not isinstance(url, str):
            async with self._starting:  # the others that connect meanwhile wait for it
                url = (await url.start()).url
        # The driver's errors name no address, or only a part of it.
        where = f"PostgreSQL at {_address(url)}"
        try:
            return await asyncpg.connect(
                url,
                database=database,
                timeout=SECONDS_TO_CONNECT,
                statement_cache_size=_CACHED_STATEMENTS if prepare else 0,
                max_cacheable_statement_size=_CACHED_LENGTH,
                server_settings=self._settings,
            )
        except TimeoutError as error:
            raise NoFreeConnection(
                f"{where}: no connection within {SECONDS_TO_CONNECT:g} seconds"
            ) from error
        except (OSError, asyncpg.PostgresError) as error:
            error.add_note(where)
            raise


def _address(url: str) -> str:
    """Return the hosts and ports of a URL, without the user and the password."""
    address = urlsplit(url).netloc.rpartition("@")[2] or "the default address"
    return address if re.search(r":\d+$|,|^the ", address) else f"{address}:5432"


class PostgreSQL:
    """A primary and its read replicas.

    Args:
        url: Of the primary, or a server that is started with the first connection.
        size: Connections to each server and event loop.
        prepare: Whether to use prepared statements; None means unless there is a pooler.
        read: URLs of replicas.
        settings: Settings of each connection.
    """

    version: tuple[int, ...]
    code_point_order: bool

    def __init__(
        self,
        url: str | LocalServer,
        size: int,
        prepare: bool | None,
        read: Sequence[str],
        settings: Mapping[str, str] | None,
    ) -> None:
        self.version = ()
        self.code_point_order = False
        self._primary = _Server(url, size, prepare, settings, self._learn)
        self._replicas = [
            _Server(replica, size, prepare, settings, lambda _connection, _by_code_point: None)
            for replica in read
        ]
        self._turn = 0

    def _learn(self, connection: Connection, by_code_point: bool) -> None:
        version = connection.get_server_version()
        self.version = (version.major, version.micro)  # 18.6: there is no minor since 10
        self.code_point_order = by_code_point

    async def open(self) -> None:
        """Connect to the primary."""
        pool = self._primary.pool()
        pool.release(await pool.acquire(None))

    async def connect_once(self, scratch: str | None) -> Connection:
        """Return a connection to the primary that the caller closes."""
        return await self._primary.connect_once(scratch)

    async def close(self) -> None:
        """Close the connections of this event loop."""
        for server in [*self._replicas, self._primary]:
            await server.close()

    def run(
        self,
        statement: Statement,
        seconds: float | None,
        *,
        writes: bool = False,
        primary: bool = True,
    ) -> Coroutine[Any, Any, _Rows]:
        """Run one statement on a connection of its own."""
        if self._replicas and not (writes or primary):
            return self._read(statement, seconds)
        return _run(self._primary, statement, seconds)

    async def _read(self, statement: Statement, seconds: float | None) -> _Rows:
        """Run a statement on the next replica that can be reached, else on the primary."""
        for _ in self._replicas:
            self._turn = (self._turn + 1) % len(self._replicas)
            server = self._replicas[self._turn]
            now = time.monotonic()
            if server.unreachable_until < now:
                try:
                    return await _run(server, statement, seconds)
                except TimeoutError:  # which is an OSError
                    raise
                except _UNREACHABLE:
                    server.unreachable_until = now + SECONDS_WITHOUT_REPLICA
        return await _run(self._primary, statement, seconds)

    async def query(self, statement: Statement, *, writes: bool) -> Answer:
        """Run a statement of the application."""
        del writes
        pool = self._primary.pool()
        connection = await pool.acquire(None)
        try:
            return await _answer(connection, statement, None)
        finally:
            pool.reset(connection)  # it may have been `set search_path = ...`

    def transaction(
        self,
        isolation: Isolation,
        settings: Mapping[str, str] | None,
        read_only: bool,
        seconds: float,
    ) -> Transaction:
        """Return a transaction that has not begun."""
        return _Transaction(self._primary, isolation, settings, read_only, seconds)


class _Transaction(Transaction):
    _dialect = "postgresql"

    def __init__(
        self,
        server: _Server,
        isolation: Isolation,
        settings: Mapping[str, str] | None,
        read_only: bool,
        seconds: float,
    ) -> None:
        super().__init__(seconds)
        self._server = server
        self._isolation: _Level | None = cast("Any", isolation)  # one of them, by `isolation_of`
        self._settings = settings
        self._read_only = read_only
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._asyncpg: AsyncpgTransaction | None = None
        self._needs_reset = False
        self._error: BaseException | None = None

    @property
    def connection(self) -> Connection:
        """The connection of this transaction; it is reset when the transaction has ended."""
        if self._connection is None:
            raise self._over()
        self._needs_reset = True
        return self._connection

    async def _begin(self) -> None:
        self._pool = self._server.pool()
        connection = await self._pool.acquire(self._seconds)
        try:
            begins = self._asyncpg = connection.transaction(
                isolation=self._isolation, readonly=self._read_only
            )
            async with asyncio.timeout_at(
                asyncio.get_running_loop().time() + self._deadline - time.monotonic()
            ):
                await begins.start()
                if self._settings:
                    calls = ", ".join(
                        f"set_config(${2 * n + 1}, ${2 * n + 2}, true)"
                        for n in range(len(self._settings))
                    )
                    parameters = itertools.chain.from_iterable(self._settings.items())
                    await connection.fetch(f"select {calls}", *parameters)
        except BaseException:
            self._pool.reset(connection)
            raise
        self._connection = connection

    async def _run(self, statement: Statement, seconds: float) -> _Rows:
        return await self._one_at_a_time(
            lambda connection: _fetched(connection, statement, seconds)
        )

    async def _query(self, statement: Statement, seconds: float) -> Answer:
        self._needs_reset = True
        return await self._one_at_a_time(lambda connection: _answer(connection, statement, seconds))

    async def _one_at_a_time(self, work: Callable[[Connection], Awaitable[_Result]]) -> _Result:
        async with self._lock:
            if not self.is_open or self._connection is None:  # it ended while this one waited
                raise self._over()
            connection = self._connection
            try:
                return await work(connection)
            except asyncpg.InFailedSQLTransactionError as error:
                # With its cause, which may be one that asks to begin anew.
                raise error from self._error
            except BaseException as error:  # a time limit or a cancelled call, too
                if self._connection is not connection and isinstance(error, Exception):
                    raise self._over() from error  # it was abandoned, which ended the statement
                self._error = error
                if isinstance(error, AttributeError) and connection.is_closed():
                    # asyncpg looks for that before it prepares a statement, and not behind it.
                    raise asyncpg.InterfaceError("connection is closed") from error
                raise

    async def _commit(self) -> None:
        async def commit(transaction: AsyncpgTransaction, connection: Connection) -> None:
            if self._error is not None or self._needs_reset:
                # After an error that was caught, PostgreSQL takes `commit` for `rollback`, and says
                # nothing. The application may have gone back to a savepoint, so ask.
                try:
                    await connection.execute("select 1")
                except asyncpg.InFailedSQLTransactionError as error:
                    raise RuntimeError(_CAUGHT) from self._error or error
            await transaction.commit()

        await self._end(commit)

    async def _rollback(self) -> None:
        # The error for which it rolls back is the one to raise.
        with suppress(Exception):
            await self._end(lambda transaction, _: transaction.rollback())

    async def _end(self, work: Callable[[AsyncpgTransaction, Connection], Awaitable[None]]) -> None:
        try:
            await self._lock.acquire()  # for a statement of another task that is under way
        except BaseException:  # cancelled meanwhile: nothing else would give the connection back
            self._abandon()
            raise
        try:
            connection, self._connection = self._connection, None
            assert connection is not None  # noqa: S101  # it was open
            assert self._asyncpg is not None  # noqa: S101  # as above
            try:
                async with asyncio.timeout(max(self._deadline - time.monotonic(), 1.0)):
                    await work(self._asyncpg, connection)
            except BaseException as error:
                if connection.is_closed():
                    self._pool.release_after(connection, error)
                else:
                    self._pool.reset(connection)
                raise
            if self._needs_reset:
                self._pool.reset(connection)
            else:
                self._pool.release(connection)
        finally:
            self._lock.release()

    def _abandon(self) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None  # noqa: S101  # it was open
        if self._lock.locked() or self._has_expired:
            # A statement may be under way, which the pool cancels.
            self._pool.discard(connection)
        else:
            self._pool.reset(connection)


async def _run(server: _Server, statement: Statement, seconds: float | None) -> _Rows:
    """Run one statement on a connection of a server."""
    pool = server.pool()
    connection = pool.take()
    if connection is None:
        begun = time.monotonic()
        connection = await pool.acquire(seconds)
        if seconds is not None:
            seconds = max(seconds - (time.monotonic() - begun), 0.001)
    has_forgotten = False
    while True:
        try:
            rows = await _fetched(connection, statement, seconds)
        except BaseException as error:
            if has_forgotten or not isinstance(error, asyncpg.InvalidSQLStatementNameError):
                was_closed = connection.is_closed()
                pool.release_after(connection, error)
                if was_closed and isinstance(error, asyncpg.QueryCanceledError):
                    raise NoFreeConnection(
                        "the connections were closed while the statement was under way"
                    ) from error
                raise
            # The server forgot its prepared statements (`deallocate all`); nothing has run.
            has_forgotten = True
            await connection.reload_schema_state()
        else:
            pool.release(connection)
            return rows


def _fetched(
    connection: Connection, statement: Statement, seconds: float | None
) -> Awaitable[_Rows]:
    text, parameters = statement
    if isinstance(statement, RepeatedStatement):
        return connection.fetchmany(text, parameters, timeout=seconds)
    return connection.fetch(text, *parameters, timeout=seconds)


async def _answer(connection: Connection, statement: Statement, seconds: float | None) -> Answer:
    # Without a name: the cache is for the statements of services.
    prepared = await connection.prepare(statement.text, name="", timeout=seconds)
    rows = await prepared.fetch(*statement.parameters, timeout=seconds)
    status = (prepared.get_statusmsg() or "").rpartition(" ")[2]
    columns = [attribute.name for attribute in prepared.get_attributes()]
    return Answer(columns, rows, int(status) if status.isdigit() else 0)
