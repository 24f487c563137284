"""One call's statements: run on the database, in the caller's transaction, or with its settings."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias, TypeVar

from alula._events import note_outcome
from alula.adapters.sql._database import Database
from alula.adapters.sql._errors import is_serialization_failure
from alula.adapters.sql._options import NO_CALL_OPTIONS, CallOptions
from alula.adapters.sql._own_sql import Condition
from alula.adapters.sql._statement import Executor, Row, Statement
from alula.adapters.sql._statements._data import NewRow
from alula.adapters.sql._statements._reads import (
    page_records,
    select_by_id,
    select_count,
    select_page,
    select_page_and_total,
    select_plan,
    select_size,
)
from alula.adapters.sql._statements._shapes import Select, Shapes
from alula.adapters.sql._statements._writes import (
    TwoSteps,
    insert_many,
    select_upserted,
    upsert_one,
)
from alula.errors import BadRequest
from alula.query import Query
from alula.types import Record

__all__ = ["EXACT_UP_TO", "Operation"]

Run: TypeAlias = Callable[[Statement], Awaitable[Sequence[Row]]]

_Result = TypeVar("_Result")

_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 0.05

_RETURNS_OLD: Final = (18,)

EXACT_UP_TO: Final = 1000
"""How far a total is counted that need not be exact."""

_SIZE: Final = (
    "select reltuples::bigint from pg_class where oid = to_regclass($1) and reltuples >= 0"
)
_HAS_STATISTICS: Final = "select exists (select 1 from sqlite_master where name = 'sqlite_stat1')"
_SQLITE_SIZE: Final = (
    # An index of a part of the table counts only that part, but the first number is always rows.
    "select max(cast(stat as integer)) from sqlite_stat1"
    " where tbl = ?1 collate nocase having count(*) > 0"
)
_NOT_STORED: Final = (
    "The database has not stored this: a trigger or a rule of the table prevents it"
)


class Operation:
    """Runs the statements of one call.

    Args:
        database: The database.
        shapes: The shapes of the statements.
        seconds: How long each may run, None for no limit.
        call: What ``params.sql`` sets.
        where: The condition in it, compiled.

    Attributes:
        is_plain: Whether ``params.sql`` sets nothing, so that other calls may share a statement.
        key: What must be the same for calls that share one, beside what they ask for.
    """

    __slots__ = ("call", "database", "is_plain", "key", "seconds", "shapes", "where")

    def __init__(
        self,
        database: Database,
        shapes: Shapes,
        seconds: float | None,
        call: CallOptions = NO_CALL_OPTIONS,
        where: Condition | None = None,
    ) -> None:
        self.database = database
        self.shapes = shapes
        self.seconds = seconds
        self.call = call
        self.where = where
        self.is_plain = call is NO_CALL_OPTIONS
        self.key = shapes, seconds

    # -- running -------------------------------------------------------------------------------

    async def run(self, statement: Statement, *, writes: bool = False) -> Sequence[Row]:
        """Run one statement and return its rows."""
        call = self.call
        if call.settings is None:
            executor: Executor = self.database if call.connection is None else call.connection
            try:
                return await executor.run(
                    statement, self.seconds, writes=writes, primary=call.primary or writes
                )
            except Exception as error:
                if call.connection is not None or not is_serialization_failure(error):
                    raise
        return (await self._in_a_transaction([statement], writes=writes))[0]

    async def run_all(self, statements: Sequence[Statement]) -> list[Sequence[Row]]:
        """Run statements that write, all or none, and return the rows of each."""
        if len(statements) == 1:
            return [await self.run(statements[0], writes=True)]
        return await self._in_a_transaction(statements, writes=True)

    async def _in_a_transaction(
        self, statements: Sequence[Statement], *, writes: bool
    ) -> list[Sequence[Row]]:
        async def run() -> list[Sequence[Row]]:
            async with self._transaction() as executor:
                return [
                    await executor.run(statement, self.seconds, writes=writes)
                    for statement in statements
                ]

        return await self._repeated(run)

    async def _repeated(self, run: Callable[[], Awaitable[_Result]]) -> _Result:
        """Run statements, and again while the database undoes them because of those of others.

        In a transaction of the caller, only the caller can begin again.
        """
        for attempt in range(1, _ATTEMPTS):
            try:
                return await run()
            except Exception as error:
                if self.call.connection is not None or not is_serialization_failure(error):
                    raise
            # At random: the others may begin again at the same time.
            await asyncio.sleep(random.uniform(0, attempt * _PAUSE_SECONDS))  # noqa: S311  # spreads load
        return await run()

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[Executor]:
        if self.call.connection is not None:
            yield self.call.connection
            return
        async with self.database.begin(settings=self.call.settings) as transaction:
            yield transaction

    # -- reading -------------------------------------------------------------------------------

    async def get(self, key: object, query: Query) -> Record | None:
        """Return the record with an id that meets a query."""
        statement = select_by_id(self.shapes, key, query, where=self.where, lock=self.call.lock)
        records = self.shapes.selection(query.select).read(await self.run(statement))
        return records[0] if records else None

    async def page(self, query: Query, run: Run | None = None) -> list[Record]:
        """Return the records of a query; ``run`` runs its statement in place of `run`."""
        statement = select_page(self.shapes, query, where=self.where, lock=self.call.lock)
        return self.shapes.selection(query.select).read(await (run or self.run)(statement))

    async def page_and_total(
        self, query: Query, run: Run | None = None
    ) -> tuple[list[Record], int]:
        """Return the records of a page, and how many there are without ``limit`` and ``skip``."""
        statement = select_page_and_total(self.shapes, query, where=self.where)
        rows = await (run or self.run)(statement)
        total: int = rows[0][-1]
        return page_records(self.shapes.selection(query.select), rows), total

    async def count(self, query: Query, at_most: int | None = None) -> int:
        """Return how many records meet a query, counted up to a number."""
        rows = await self.run(select_count(self.shapes, query, at_most, where=self.where))
        total: int = rows[0][0]
        return total

    async def measure(self, query: Query) -> tuple[int, int]:
        """Return how many records meet a query, and how many bytes they have."""
        rows = await self.run(select_size(self.shapes, query, where=self.where))
        records: int = rows[0][0]
        size: int = rows[0][1]
        return records, size

    async def estimate(self, query: Query) -> int | None:
        """Return about how many records meet a query, None if only a count tells.

        Without criteria it is the size that the statistics have. With criteria, up to 1,000 are
        counted; beyond that it is the number that PostgreSQL plans with.
        """
        is_postgresql = self.database.dialect == "postgresql"
        if not query.criteria.parts and self.is_plain:
            table = self.shapes.table
            name: str = table.sql
            if not is_postgresql:
                name = table.name
                if not (await self.run(Statement(_HAS_STATISTICS)))[0][0]:
                    return None
            size = _SIZE if is_postgresql else _SQLITE_SIZE
            rows = await self.run(Statement(size, (name,)))
            return int(rows[0][0]) if rows else None
        if not is_postgresql:
            return None
        counted = await self.count(query, EXACT_UP_TO + 1)
        if counted <= EXACT_UP_TO:
            return counted
        rows = await self.run(select_plan(self.shapes, query, where=self.where))
        planned: int = json.loads(rows[0][0])[0]["Plan"]["Plan Rows"]
        return max(counted, planned)

    # -- writing -------------------------------------------------------------------------------

    async def create(self, statements: Sequence[Statement], select: Select) -> list[Record]:
        """Run statements that store one record each, all or none, and return the records.

        Raises:
            BadRequest: The database has not stored all of them.
        """
        read = self.shapes.selection(select).read
        results = await self.run_all(statements)
        if not all(results):
            raise BadRequest(_NOT_STORED)
        return [record for rows in results for record in read(rows)]

    async def upsert(self, rows: Sequence[NewRow], select: Select) -> list[Record]:
        """Store records, or change those with their unique values; all or none.

        Raises:
            BadRequest: The database has not stored all of them.
        """
        columns, shapes = self.call.upsert, self.shapes
        has_old = self.database.version >= _RETURNS_OLD
        upserts = [upsert_one(shapes, row, columns, select, has_old=has_old) for row in rows]
        if self.database.dialect == "postgresql":
            results = await self.run_all(upserts)
            are_new = [bool(rows and rows[0][-1]) for rows in results]
        else:  # there is one writer, so nobody stores one between the two
            looks = [select_upserted(shapes, row, columns) for row in rows]
            pairs = itertools.chain.from_iterable(zip(looks, upserts, strict=True))
            found = await self.run_all(list(pairs))
            are_new, results = [not rows for rows in found[::2]], found[1::2]
        if not all(results):
            raise BadRequest(_NOT_STORED)
        read = shapes.selection(select).read
        records = [record for rows in results for record in read(rows)]
        note_outcome(records, ["created" if is_new else "patched" for is_new in are_new])
        return records

    async def create_many(self, new: Sequence[NewRow], select: Select) -> list[Record]:
        """Store all new records or none, and return them in their order.

        Raises:
            BadRequest: The database has not stored all of them.
        """
        parts = insert_many(self.shapes, new, select)
        results = await self.run_all([statement for _, statement in parts])
        read = self.shapes.selection(select).read
        stored: list[Record] = [{}] * len(new)
        for (positions, _), rows in zip(parts, results, strict=True):
            if len(rows) != len(positions):
                raise BadRequest(_NOT_STORED)
            for position, record in zip(positions, read(rows), strict=True):
                stored[position] = record
        return stored

    async def change(self, statement: Statement, query: Query) -> Record | None:
        """Run a change of one record and return the record, None if none was changed."""
        rows = await self.run(statement, writes=True)
        records = self.shapes.selection(query.select).read(rows)
        return records[0] if records else None

    async def change_many(self, change: Statement | TwoSteps, query: Query) -> list[Record]:
        """Run a change of many records and return these in the order of the query."""
        read = self.shapes.selection(query.select).read
        if isinstance(change, Statement):
            return read(await self.run(change, writes=True))

        async def run() -> list[Record]:
            async with self._transaction() as executor:
                selected = await executor.run(change.first, self.seconds)
                if not selected:
                    return []
                changed = await executor.run(change.second(selected), self.seconds, writes=True)
            return read(change.ordered(selected, changed))

        return await self._repeated(run)
