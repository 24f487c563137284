"""What a `Database` expects of a driver, and what all transactions have in common."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Final, Protocol, Self, TypeAlias

from alula.adapters.sql._names import Dialect
from alula.adapters.sql._own_sql import OwnSQL, own_statement
from alula.adapters.sql._statement import Row, Statement

__all__ = [
    "Answer",
    "Driver",
    "Isolation",
    "LocalServer",
    "NoFreeConnection",
    "Transaction",
    "isolation_of",
]

Isolation: TypeAlias = str | None

_ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed", "repeatable_read", "serializable")


class NoFreeConnection(ConnectionError):
    """All connections of the pool stayed in use, or no new one could be opened in time."""


class LocalServer(Protocol):
    """A server that starts when it is needed, such as `alula.local_postgresql.LocalServer`."""

    @property
    def url(self) -> str:
        """Its URL, once it runs."""
        ...

    async def start(self) -> Self:
        """Start it, if it does not run."""
        ...

    async def stop(self) -> None:
        """Stop it."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement of the application itself came back with.

    Attributes:
        columns: The names of the columns.
        rows: The rows by position.
        changed: How many rows were read or changed.
    """

    columns: Sequence[str]
    rows: Sequence[Row]
    changed: int


class Driver(Protocol):
    """One database of one dialect: connections, threads, time limits."""

    version: tuple[int, ...]
    code_point_order: bool

    def run(
        self,
        statement: Statement,
        seconds: float | None,
        *,
        writes: bool = False,
        primary: bool = True,
    ) -> Coroutine[Any, Any, Sequence[Row]]:
        """Run one statement of a service."""
        ...

    async def query(self, statement: Statement, *, writes: bool) -> Answer:
        """Run one statement of the application, which may leave settings on its connection."""
        ...

    def transaction(
        self,
        isolation: Isolation,
        settings: Mapping[str, str] | None,
        read_only: bool,
        seconds: float,
    ) -> Transaction:
        """Return a transaction that has not begun."""
        ...

    async def connect_once(self, scratch: str | None) -> Any:
        """Return the driver's own connection, to the database or to a scratch database."""
        ...

    async def open(self) -> None:
        """Connect, so that `version` and `code_point_order` are known."""
        ...

    async def close(self) -> None:
        """Close all connections, and end all threads."""
        ...


def isolation_of(name: Isolation) -> Isolation:
    """Return the name of an isolation level with underscores, None for the database's own.

    Raises:
        ValueError: There is no such level.
    """
    if name is None:
        return None
    level = name.lower().replace(" ", "_")
    if level not in _ISOLATION_LEVELS:
        known = ", ".join(map(repr, _ISOLATION_LEVELS))
        raise ValueError(f"unknown isolation level {name!r}; use one of {known}")
    return level


class Transaction(ABC):
    """A transaction: what runs in it takes effect as a whole, or not at all.

    It commits where the ``async with`` block ends, and rolls back where the block raises or its
    task is cancelled. Statements of several tasks run one after the other. After its end, or when
    it has taken longer than its seconds, it refuses further statements::

        async with database.transaction() as transaction:
            await transaction.execute("update accounts set amount = amount - 1 where id = $1", 5)
            await transaction.execute("update accounts set amount = amount + 1 where id = $1", 6)

    Attributes:
        is_open: Whether it has begun and not ended.
    """

    _dialect: ClassVar[Dialect]

    def __init__(self, seconds: float) -> None:
        self.is_open = False
        self._seconds = seconds
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._has_expired = False

    @property
    @abstractmethod
    def connection(self) -> Any:
        """The driver's own connection, on PostgreSQL an ``asyncpg.Connection``.

        Raises:
            RuntimeError: The driver has none for the event loop, as with SQLite.
        """

    async def run(
        self,
        statement: Statement,
        seconds: float | None,
        *,
        writes: bool = False,
        primary: bool = True,
    ) -> Sequence[Row]:
        """Run one statement and return its rows; ``writes`` and ``primary`` change nothing here.

        Raises:
            RuntimeError: The transaction has ended or not begun.
            TimeoutError: The statement or the transaction took too long.
        """
        del writes, primary
        return await self._run(statement, self._limit(seconds))

    async def fetch(self, sql: OwnSQL, *parameters: object) -> list[dict[str, Any]]:
        """Run a statement of the application and return a dict for each row; see `Database`."""
        statement, records = own_statement(sql, parameters, self._dialect)
        answer = await self._query(statement, self._limit(None))
        return records(answer.columns, answer.rows)

    async def execute(self, sql: OwnSQL, *parameters: object) -> int:
        """Run a statement of the application and return how many rows it changed."""
        statement, _ = own_statement(sql, parameters, self._dialect)
        return (await self._query(statement, self._limit(None))).changed

    async def __aenter__(self) -> Self:
        if self._deadline:
            raise RuntimeError("a transaction begins only once; call `transaction()` again")
        self._deadline = time.monotonic() + self._seconds
        await self._begin()
        self.is_open = True
        self._timer = asyncio.get_running_loop().call_later(
            self._deadline - time.monotonic(), self._expire
        )
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        was_open, self.is_open = self.is_open, False
        if not was_open:
            if error is None:
                raise self._over()
        elif error is None:
            await self._commit()
        elif isinstance(error, Exception):
            await self._rollback()
        else:
            # Of a task that is cancelled: whatever is awaited now may be cancelled again.
            self._abandon()

    def _limit(self, seconds: float | None) -> float:
        """Return how long a statement may run.

        Raises:
            RuntimeError: The transaction is not open.
            TimeoutError: It took longer than its seconds.
        """
        if not self.is_open:
            raise self._over()
        remaining = max(self._deadline - time.monotonic(), 0.001)
        return remaining if seconds is None else min(seconds, remaining)

    def _over(self) -> Exception:
        if self._has_expired:
            return TimeoutError(
                f"the transaction took longer than {self._seconds:g} seconds and was rolled back"
            )
        if not self._deadline:
            return RuntimeError("the transaction has not begun; use it in `async with`")
        return RuntimeError("the transaction has ended; begin another one for further statements")

    def _expire(self) -> None:
        self.is_open, self._has_expired = False, True
        self._abandon()

    @abstractmethod
    async def _begin(self) -> None: ...

    @abstractmethod
    async def _run(self, statement: Statement, seconds: float) -> Sequence[Row]: ...

    @abstractmethod
    async def _query(self, statement: Statement, seconds: float) -> Answer: ...

    @abstractmethod
    async def _commit(self) -> None: ...

    @abstractmethod
    async def _rollback(self) -> None: ...

    @abstractmethod
    def _abandon(self) -> None:
        """Roll back without waiting for it."""
