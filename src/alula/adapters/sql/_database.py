"""`Database`: one PostgreSQL or SQLite database, which services and the application's SQL share."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from alula._app import App
from alula._context import HookContext
from alula._events import HeldEvents
from alula.adapters._lifecycle import open_around
from alula.adapters.sql._drivers._driver import Driver, LocalServer, Transaction, isolation_of
from alula.adapters.sql._drivers._sqlite import SQLite
from alula.adapters.sql._errors import translated
from alula.adapters.sql._names import Dialect
from alula.adapters.sql._own_sql import OwnSQL, own_statement
from alula.adapters.sql._statement import Row, Statement
from alula.adapters.sql._statements._search import search_indexes
from alula.adapters.sql._tables._ddl import create_statements
from alula.adapters.sql._tables._declarations import Declaration, is_declared, one_of_each
from alula.adapters.sql._tables._tables import Table, TableSource
from alula.errors import Unavailable

__all__ = ["Database", "Transaction"]

_POSTGRESQL: Final = frozenset({"postgresql", "postgres"})
_MEMORY: Final = frozenset({"", "/", "/:memory:"})

_EXAMPLES: Final = (
    '"postgresql://user:password@host/database", "sqlite:///chat.sqlite" for a file, or'
    ' "sqlite://" for memory'
)


class TableService(Protocol):
    """A service on a table."""

    @property
    def searched_columns(self) -> Sequence[str]:
        """The columns in which ``$search`` looks."""
        ...

    async def get_model(self) -> Table:
        """Return the table."""
        ...


@dataclass
class Registered:
    """What a database remembers of a service on one of its tables.

    Attributes:
        source: Its table, perhaps not resolved yet.
        path: The path of the service while it is set up, else None.
    """

    source: TableSource
    path: str | None = None

    @property
    def declaration(self) -> Declaration | None:
        """How the service declares its table; None if it does not, or not yet."""
        table = self.source.table
        if table is None or not is_declared(table.source):
            return None
        owner = "a service" if self.path is None else f"the service {self.path!r}"
        return Declaration(table.source, owner)


@dataclass(eq=False)
class _Block:
    """A block of `Database.transaction`, which blocks inside it join.

    Attributes:
        transaction: Its transaction.
        options: The options that it was given.
        task: The task that runs it. Others have transactions of their own: one that is started
            inside may outlast the block.
        error: What a block inside it raised.
    """

    transaction: Transaction
    options: Mapping[str, Any]
    task: asyncio.Task[Any] | None
    error: BaseException | None = None

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse options that this block does not have.

        Raises:
            ValueError: There is one.
        """
        for name, value in options.items():
            if value and value != self.options[name]:
                raise ValueError(
                    f"this block joins the transaction around it, which does not have {name}="
                    f"{value!r}; give that to the outer block"
                )

    def refuse_caught_error(self) -> None:
        """Refuse to commit what a block inside has left half done.

        Raises:
            RuntimeError: A block inside raised, and the error was caught.
        """
        # One whose time is over says so itself.
        if self.error is not None and self.transaction.is_open:
            raise RuntimeError(
                "a block inside this transaction raised, and the error was caught, so the"
                " transaction was rolled back; let the error pass"
            ) from self.error


_blocks: Final[ContextVar[Mapping[Database, _Block]]] = ContextVar(
    "alula_transactions", default=MappingProxyType({})
)


class Database:
    """A PostgreSQL or SQLite database, which services and the application's own SQL share.

    It connects with the first call, or when a service that uses it is set up. `close` closes its
    connections; applications do that when the last service that uses it is torn down. With
    ``app.configure(database)``, an application opens it before all services, does not start if that
    fails, and closes it after all of them, also where no service uses it.

    Args:
        url: ``"postgresql://user:password@host/database"``, ``"sqlite:///chat.sqlite"`` for a file
            in the working folder (four slashes for an absolute path), ``"sqlite://"`` for memory.
            Or `alula.local_postgresql.LocalServer`, which starts with the first connection and
            stops with `close`.
        pool: PostgreSQL: how many connections at a time, for each event loop.
        prepare: PostgreSQL: whether to use prepared statements. None means unless there is a pooler
            such as pgbouncer, behind which they can give wrong results.
        read: PostgreSQL: URLs of read replicas.
        settings: PostgreSQL: settings of each connection, such as ``{"search_path": "shop"}``.
        sync: SQLite: "full" waits for the disk with each commit, so that not even a loss of power
            loses it. With "normal" a killed process loses nothing.
        setting: Where the URL comes from, such as ``"CHAT_DATABASE_URL"``. If the database cannot
            be reached at the start, the error names it.
        create_tables: Whether applications create the tables that are missing when they start (see
            `create`), for development and tests.

    Raises:
        ValueError: The URL is not one of these, or an option is for another database.
        ImportError: The driver is not installed.

    Attributes:
        dialect: "postgresql" or "sqlite".

    Examples:
        >>> import asyncio
        >>> async def main():
        ...     database = Database("sqlite://")
        ...     await database.execute("create table rooms (id integer primary key, name text)")
        ...     await database.execute("insert into rooms (name) values (?)", "Library")
        ...     rooms = await database.fetch("select * from rooms")
        ...     await database.close()
        ...     return rooms
        >>> asyncio.run(main())
        [{'id': 1, 'name': 'Library'}]
    """

    def __init__(
        self,
        url: str | LocalServer,
        *,
        pool: int = 10,
        prepare: bool | None = None,
        read: str | Sequence[str] | None = None,
        settings: Mapping[str, str] | None = None,
        sync: Literal["normal", "full"] = "normal",
        setting: str | None = None,
        create_tables: bool = False,
    ) -> None:
        address = url if isinstance(url, str) else "postgresql:///local"
        scheme = address.partition(":")[0].partition("+")[0]
        self.dialect: Dialect
        self._driver: Driver
        self._setting = setting
        self._creates_tables = create_tables
        self._users = 0
        # In the order of their registration; what is created must not depend on that of a set.
        self._services: WeakKeyDictionary[TableService, Registered] = WeakKeyDictionary()
        if not isinstance(pool, int) or pool < 1:
            raise ValueError(f"pool={pool!r} is not a number of connections")
        if sync not in {"normal", "full"}:
            raise ValueError(f'sync={sync!r}; use "normal" or "full"')
        replicas = [read] if isinstance(read, str) else list(read or ())
        self.has_replicas = bool(replicas)
        if scheme in _POSTGRESQL:
            self.dialect = "postgresql"
            self._name = urlsplit(address).path.lstrip("/") or "the default database"
            urls: list[str] = []
            for each in (address, *replicas):
                scheme, _, rest = each.partition("://")
                if scheme.partition("+")[0] not in _POSTGRESQL:
                    raise ValueError(f"read={each!r} is not a URL of PostgreSQL; use {_EXAMPLES}")
                urls.append(f"postgresql://{rest}")  # without a driver of SQLAlchemy
            try:
                driver = importlib.import_module("alula.adapters.sql._drivers._postgresql")
            except ImportError as error:
                raise ImportError(
                    "PostgreSQL needs asyncpg, which is not installed; install it with:"
                    " pip install 'alula[postgresql]'"
                ) from error
            primary = urls[0] if isinstance(url, str) else url
            self._driver = driver.PostgreSQL(primary, pool, prepare, urls[1:], settings)
        elif scheme == "sqlite":
            self.dialect = "sqlite"
            for name, value in (("read", replicas), ("settings", settings), ("prepare", prepare)):
                if value:
                    raise ValueError(f"{name}= is for PostgreSQL; leave it out for SQLite")
            path = _sqlite_path(address)
            self._name = str(path or "memory")
            self._driver = SQLite(path, sync)
        else:
            raise ValueError(
                f"{address.partition(':')[0]!r} is not a known database; use {_EXAMPLES}"
            )

    def __repr__(self) -> str:
        return f"<Database {self.dialect} {self._name}>"

    @property
    def version(self) -> tuple[int, ...]:
        """The version of the database, such as ``(18, 6)``; empty before `open`."""
        return self._driver.version

    @property
    def code_point_order(self) -> bool:
        """Whether the database itself compares text by code point; known after `open`."""
        return self._driver.code_point_order

    def run(
        self,
        statement: Statement,
        seconds: float | None,
        *,
        writes: bool = False,
        primary: bool = True,
    ) -> Coroutine[Any, Any, Sequence[Row]]:
        """Run one statement and return its rows, by position.

        Args:
            statement: The text and its parameters.
            seconds: How long it may take, with waiting for a connection; None sets no limit.
            writes: Whether it changes records.
            primary: Whether only the primary may answer, even where there are read replicas.

        Raises:
            TimeoutError: It took too long. The outcome of a write is not known then.
            Exception: An error of the driver.
        """
        return self._driver.run(statement, seconds, writes=writes, primary=primary)

    def begin(
        self,
        *,
        isolation: str | None = None,
        settings: Mapping[str, str] | None = None,
        read_only: bool = False,
        seconds: float = 30,
    ) -> Transaction:
        """Return a transaction without events; it begins and ends with ``async with``.

        On SQLite all other writers wait for its end, unless it is read-only. While two read-only
        ones are open there, all other reads wait.

        Args:
            isolation: "read committed", "repeatable read" or "serializable"; None is the
                database's own. On SQLite all transactions are serializable.
            settings: PostgreSQL: settings for this transaction only, as ``set local``.
            read_only: Whether it may not change records.
            seconds: How long it may take. Then it is rolled back.

        Raises:
            ValueError: There is no such isolation level, or SQLite is to have settings.
        """
        return self._driver.transaction(isolation_of(isolation), settings, read_only, seconds)

    @asynccontextmanager
    async def transaction(
        self,
        *,
        isolation: str | None = None,
        settings: Mapping[str, str] | None = None,
        read_only: bool = False,
        seconds: float = 30,
    ) -> AsyncGenerator[Transaction]:
        """Run a block in a transaction: what takes part in it takes effect as a whole, or not.

        Calls of services take part with ``sql={"connection": transaction}``; their events are
        emitted after the commit. An exception in the block rolls the transaction back. On SQLite
        all other writers wait for its end, unless it is read-only. While two read-only ones are
        open there, all other reads wait.

        A block inside another one of the same task and database joins it: there is one transaction,
        which the outer block commits. If the inner block raises, the outer one cannot commit.

        Args:
            isolation: "read committed", "repeatable read" or "serializable"; None is the
                database's own. On SQLite all transactions are serializable.
            settings: PostgreSQL: settings for this transaction only, as ``set local``.
            read_only: Whether it may not change records.
            seconds: How long it may take. Then it is rolled back. An inner block has the time of
                the outer one.

        Raises:
            ValueError: There is no such isolation level, or SQLite is to have settings, or an inner
                block is to have options that the outer one does not have.
            RuntimeError: A block inside raised, and the error was caught.
            Conflict: PostgreSQL ended it because of another one. Unlike the hook `transaction`,
                this does not repeat the block.

        Examples:
            >>> async def pay(orders, invoices):
            ...     async with database.transaction() as transaction:
            ...         order = await orders.create({"total": 5}, sql={"connection": transaction})
            ...         data = {"orderId": order["id"]}
            ...         await invoices.create(data, sql={"connection": transaction})
        """
        options = {
            "isolation": isolation_of(isolation),
            "settings": settings,
            "read_only": read_only,
        }
        outer = _blocks.get().get(self)
        if outer is not None and outer.task is asyncio.current_task():
            outer.check(options)
            try:
                with translated():
                    yield outer.transaction
            except BaseException as error:
                outer.error = error
                raise
            return
        transaction = self.begin(
            isolation=isolation, settings=settings, read_only=read_only, seconds=seconds
        )

        def takes_part(call: HookContext) -> bool:
            return (call.params.sql or {}).get("connection") is transaction

        with HeldEvents(takes_part) as held, translated():
            async with transaction:
                block = _Block(transaction, options, asyncio.current_task())
                token = _blocks.set({**_blocks.get(), self: block})
                try:
                    yield transaction
                finally:
                    _blocks.reset(token)
                block.refuse_caught_error()
        held.release()

    async def fetch(self, sql: OwnSQL, *parameters: object) -> list[dict[str, Any]]:
        """Run a statement of the application and return a dict for each row.

        Args:
            sql: SQL, or a statement of SQLAlchemy, whose values become those of records.
            parameters: What the SQL refers to by ``$1``, ``$2``; on SQLite, ``?`` may be used as
                well. For a statement of SQLAlchemy: a mapping with values for its ``bindparam``.

        Raises:
            TypeError: It is neither, or has other parameters.
            ValueError: The SQL names its parameters, or mixes ``?`` and ``$1``.
            Exception: An error of the driver.
        """
        statement, records = own_statement(sql, parameters, self.dialect)
        answer = await self._driver.query(statement, writes=False)
        return records(answer.columns, answer.rows)

    async def execute(self, sql: OwnSQL, *parameters: object) -> int:
        """Run a statement of the application and return how many rows it changed.

        Args:
            sql: As for `fetch`.
            parameters: As for `fetch`.

        Raises:
            TypeError: As for `fetch`.
            ValueError: As for `fetch`.
            Exception: An error of the driver.
        """
        statement, _ = own_statement(sql, parameters, self.dialect)
        return (await self._driver.query(statement, writes=True)).changed

    async def create(self, *services: TableService) -> None:
        """Create the tables and the indexes of ``$search`` that are missing.

        It is for development and tests.

        Tables that exist stay as they are: their changes are migrations.

        Args:
            services: Services whose tables to create; none means all that use this database.

        Raises:
            ValueError: Two services declare one table in ways that contradict each other.
            Exception: What the model of a service raises, or an error of the driver.
        """
        wanted = services or [*self._services]
        tables = [await service.get_model() for service in wanted]
        sources = [table.source for table in tables if is_declared(table.source)]
        statements = create_statements(sources, self.dialect, self.declarations())
        for service, table in zip(wanted, tables, strict=True):
            if service.searched_columns:
                statements += search_indexes(table, service.searched_columns)
        for statement in statements:
            await self.execute(statement)
        for table in tables:
            await table.constraints.load()  # none were there before

    def register(self, service: TableService, source: TableSource) -> Registered:
        """Remember a service, whose table `create` creates as long as the service exists."""
        registered = self._services[service] = Registered(source)
        return registered

    def check_declarations(self) -> None:
        """Compare how services that are set up declare their tables.

        Raises:
            ValueError: Two contradict each other.
        """
        set_up = [each for each in self._services.values() if each.path is not None]
        one_of_each(filter(None, (each.declaration for each in set_up)), self.dialect)

    def declarations(self) -> list[Declaration]:
        """Return the declarations of all services, in the order of their registration."""
        return [*filter(None, (each.declaration for each in self._services.values()))]

    async def connect_once(self, scratch: str | None = None) -> Any:
        """Return the driver's own connection, outside of the pool, for who changes tables.

        Args:
            scratch: The name of another database on the same server; on SQLite, one in memory.

        Raises:
            Exception: An error of the driver.
        """
        return await self._driver.connect_once(scratch)

    async def open(self) -> None:
        """Connect, so that errors show early; calls connect by themselves.

        Raises:
            Unavailable: The database cannot be reached. A note of the error says why, with the
                host, the port and the setting.
            Exception: Another error of the driver.
        """
        try:
            with translated():
                await self._driver.open()
        except Unavailable as error:
            if self._setting is not None:
                error.add_note(f"the URL comes from {self._setting}")
            raise

    async def close(self) -> None:
        """Close all connections of this event loop and end all threads.

        The next call connects again.
        """
        await self._driver.close()

    def __call__(self, app: App[Any]) -> None:
        """Open it before the services of an application, and close it after them.

        That is what ``app.configure(database)`` does.

        Args:
            app: The application.
        """
        open_around(app, self.acquire, self.release)

    async def acquire(self) -> None:
        """Connect for a service that is set up, or for an application.

        The first one creates missing tables, if `Database` was told to.
        """
        self._users += 1
        try:
            await self.open()
            if self._creates_tables and self._users == 1:
                await self.create()
        except BaseException:
            await self.release()
            raise

    async def release(self) -> None:
        """Close the connections when the last one of those has ended."""
        self._users -= 1
        if self._users == 0:
            await self.close()


def _sqlite_path(url: str) -> Path | None:
    """Return the file of a URL, None for memory."""
    rest = url.partition(":")[2]
    if not rest.startswith("//"):
        raise ValueError(f"{url!r} lacks slashes; use {_EXAMPLES}")
    path = rest[2:]
    if path in _MEMORY:
        return None
    if not path.startswith("/"):
        raise ValueError(f"{url!r} names a host; use {_EXAMPLES}")
    return Path(path[1:])
