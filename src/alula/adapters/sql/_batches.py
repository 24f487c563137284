"""Batches concurrent calls: gets, and on PostgreSQL pages, creates, patches and counts as well.

SQLite has no round trips: its driver hands all waiting statements to a thread at once. Its gets
are one statement all the same, which costs less than one for each.

What holds in this file:

- A batch has only calls that would send the same but for the id or the record: the table, the
  criteria with their values, the changed columns and the time limit are the same.
- No call in a transaction, and none with ``params.sql``, joins a batch.
- What concerns one caller (a missing record, a taken key, a refused value) reaches that caller
  only; a failed round trip reaches all callers of the batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from alula.adapters._batching import Batcher, one_for_each
from alula.adapters._records import copied, selector
from alula.adapters.sql._database import Database
from alula.adapters.sql._errors import is_refusal
from alula.adapters.sql._operation import Operation
from alula.adapters.sql._statement import Row, Statement
from alula.adapters.sql._statements._rows import NewRow
from alula.adapters.sql._statements._shared_pages import pages_of, shared_pages
from alula.query import EMPTY_QUERY, Query
from alula.types import Record

__all__ = ["Batches"]

Key: TypeAlias = Hashable

_NOT_DONE: Final = object()
"""The result of a change that has to be done alone."""


class _Patch(NamedTuple):
    """The patch of one call.

    Attributes:
        key: The id of the record, as the driver takes it.
        row: What the patch sets.
        changes: As of the call.
        query: As of the call; its ``$select`` may be another than that of the others.
    """

    key: Any
    row: NewRow
    changes: Mapping[str, Any]
    query: Query


class Batches:
    """The batchers of one service: one for each operation and everything that must be the same.

    Args:
        database: The database of the service.
    """

    def __init__(self, database: Database) -> None:
        self._is_postgresql = database.dialect == "postgresql"
        self._batchers: dict[Key, Batcher[Any, Any]] = {}

    def get(self, operation: Operation, key: object, query: Query) -> Awaitable[Record | None]:
        """Return the record with an id that meets a query, None if there is none."""
        batch: Key = None
        if operation.statements.finds_by_id:
            if query is EMPTY_QUERY:
                batch = "get", operation.key
            else:
                batch = self._key_of("get", operation, query, query.select)
        if batch is None:
            return operation.get(key, query)
        batcher = self._batchers.get(batch) or self._start(batch, 1, _get_batch, operation, query)
        return batcher.load(key)

    def page(self, operation: Operation, statement: Statement) -> Awaitable[Sequence[Row]]:
        """Return the rows of a statement for a page."""
        if not self._is_postgresql or not operation.statements.shares_pages:
            return operation.run(statement)
        batch = "page", operation.key, statement.text
        batcher = self._batchers.get(batch) or self._start(batch, 2, _page_batch, operation)
        return batcher.load(statement)

    def create(self, operation: Operation, row: NewRow) -> Awaitable[Record]:
        """Store a new record and return it; only where `Statements.shares_inserts` says so."""
        batch = "create", operation.key
        batcher = self._batchers.get(batch) or self._start(batch, 2, _create_batch, operation)
        return batcher.load(row)

    async def patch(
        self, operation: Operation, key: object, changes: Mapping[str, Any], query: Query
    ) -> Record | None:
        """Change a record and return it as it is then, None if there is none."""
        statements = operation.statements
        row: NewRow | None = None
        batch: Key = None
        if self._is_postgresql and statements.finds_by_id:
            row = statements.changed_row(changes)
        if row is not None:
            if query is EMPTY_QUERY:
                batch = "patch", operation.key, row.columns
            else:
                batch = self._key_of("patch", operation, query, row.columns)
        if row is not None and batch is not None:
            batcher = self._batchers.get(batch) or self._start(
                batch, 2, _patch_batch, operation, query
            )
            record: Any = await batcher.load(_Patch(key, row, changes, query))
            if record is not _NOT_DONE:
                if record is None or query.select is None:
                    whole: Record | None = record
                    return whole
                return selector(query.select, statements.table.id.name)(record)
        return await operation.change(statements.patch(key, changes, query), query)

    async def count(self, operation: Operation, query: Query) -> int:
        """Return how many records meet a query."""
        batch = self._key_of("count", operation, query) if self._is_postgresql else None
        if batch is None:
            return await operation.count(query)
        batcher = self._batchers.get(batch) or self._start(batch, 1, _count_batch, operation, query)
        total: int = await batcher.load(None)
        return total

    @staticmethod
    def _key_of(name: str, operation: Operation, query: Query, more: object = None) -> Key:
        """Return what calls of one batch have in common, None if this call cannot join any."""
        # The text and the driver's values, not the criteria: in Python, 1 equals True.
        criteria = operation.statements.count(query)
        key = name, operation.key, more, criteria.text, criteria.parameters
        try:
            hash(key)
        except TypeError:  # a list among the values
            return None
        return key

    def _start(
        self,
        key: Key,
        concurrency: int,
        load: Callable[..., Awaitable[Sequence[Any]]],
        *arguments: object,
    ) -> Batcher[Any, Any]:
        """Return a new batcher, which goes when it is idle; ``load`` gets its keys as the last."""
        batcher: Batcher[Any, Any] = Batcher(
            partial(load, *arguments),
            # None: a caller that awaits its key late may find that the batcher has gone meanwhile.
            lambda: self._batchers.pop(key, None),
            concurrency,
        )
        self._batchers[key] = batcher
        return batcher


# -- the round trips -------------------------------------------------------------------------------


async def _get_batch(operation: Operation, query: Query, keys: list[Any]) -> list[Any]:
    """Return the record or None for each id."""
    if len(keys) == 1:
        return [await operation.get(keys[0], query)]
    statements = operation.statements
    wanted = list(dict.fromkeys(keys))
    rows = await operation.run(statements.get_many(wanted, query))
    stored_keys = map(itemgetter(statements.id_position(query.select)), rows)
    records = dict(zip(stored_keys, statements.reader(query.select)(rows), strict=True))
    if statements.table.dialect == "sqlite" and statements.table.id.type.name == "text":
        # To SQLite, an id in another case may be the same (`collate nocase`), or one with blanks
        # behind it (`collate rtrim`). Then the statement has found a record with such an id.
        alike = {str(key).casefold().rstrip() for key in records}
        missing = [key for key in wanted if key not in records and key.casefold().rstrip() in alike]
        alone = await asyncio.gather(*(operation.get(key, query) for key in missing))
        records |= {key: record for key, record in zip(missing, alone, strict=True) if record}
    return one_for_each(keys, records, copied)


async def _count_batch(operation: Operation, query: Query, callers: list[None]) -> list[int]:
    """Return the same number for each caller."""
    return [await operation.count(query)] * len(callers)


async def _page_batch(operation: Operation, pages: list[Statement]) -> list[Any]:
    """Return the rows of each page, or an error."""
    shared = shared_pages(pages) if len(pages) > 1 else None
    if shared is not None:
        try:
            return pages_of(await operation.run(shared), len(pages))
        except Exception as error:
            if not is_refusal(error):  # one has a value that the database refuses
                raise
    return await asyncio.gather(*map(operation.run, pages), return_exceptions=True)


async def _create_batch(operation: Operation, rows: list[NewRow]) -> list[Any]:
    """Return the stored record, or an error, for each new row."""
    statements = operation.statements

    async def alone(row: NewRow) -> Record:
        return (await operation.create([statements.insert(row)], None))[0]

    if len(rows) == 1:
        return [await alone(rows[0])]
    results: list[Any] = [None] * len(rows)

    async def insert(part: tuple[list[int], Any]) -> None:
        positions, statement = part
        try:
            stored = await operation.run(statement, writes=True)
        except Exception as error:
            if not is_refusal(error):
                raise
            return
        for position, record in zip(positions, statements.shared_reader(stored), strict=True):
            results[position] = record

    parts = statements.insert_shared(rows)
    if len(parts) == 1:
        await insert(parts[0])
    else:
        await asyncio.gather(*map(insert, parts))
    # Each refused row goes alone, which tells why; most often a unique value is taken.
    if not all(results):
        missing = [position for position, record in enumerate(results) if record is None]
        again = await asyncio.gather(
            *(alone(rows[position]) for position in missing), return_exceptions=True
        )
        for position, result in zip(missing, again, strict=True):
            results[position] = result
    return results


async def _patch_batch(operation: Operation, query: Query, patches: list[_Patch]) -> list[Any]:
    """Return the changed record or None for each patch, `_NOT_DONE` for those that go alone."""
    statements = operation.statements
    if len(patches) == 1:
        key, _, changes, query = patches[0]
        return [await operation.change(statements.patch(key, changes, query), query)]
    firsts: dict[Any, int] = {}
    for position, patch in enumerate(patches):
        firsts.setdefault(patch.key, position)
    rows = [patches[position].row for position in firsts.values()]
    results: list[Any] = [_NOT_DONE] * len(patches)
    try:
        changed = await operation.run(
            statements.patch_shared(list(firsts), rows, query), writes=True
        )
    except Exception as error:
        if not is_refusal(error):
            raise
        return results
    id_name = statements.table.id.name
    records = {record[id_name]: record for record in statements.reader()(changed)}
    for key, position in firsts.items():
        results[position] = records.get(key)
    return results
