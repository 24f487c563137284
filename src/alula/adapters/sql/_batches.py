"""Batches concurrent calls: gets, and on PostgreSQL pages, creates, patches and counts as well.

SQLite has no round trips: its driver hands all waiting statements to a thread at once. Its gets
are one statement all the same, which costs less than one for each.

What holds in this file:

- A batch has only calls that would send the same but for the id or the record: the table, the
  criteria with their values, the changed columns and the time limit are the same.
- No call in a transaction, and none with ``params.sql``, joins a batch.
- No caller fails or waits because of another one: a record that is locked, refused or that fails
  the statement goes alone. Only if the database is away, or nobody knows whether a write took
  effect, all callers of the batch get that error.
- Patches of the same record are executed one after the other, in one round trip and one
  transaction. PostgreSQL itself executes each of them: triggers, constraints and criteria see every
  patch, and each caller gets the record as its own patch left it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from alula.adapters._batching import ALONE, Batcher, ChangesInTurn, one_for_each
from alula.adapters._records import copied, selector
from alula.adapters.sql._database import Database
from alula.adapters.sql._errors import is_outage, was_undone
from alula.adapters.sql._operation import Operation
from alula.adapters.sql._statement import Row, Statement
from alula.adapters.sql._statements._data import NewRow
from alula.adapters.sql._statements._reads import pages_of, select_by_ids, shared_pages
from alula.adapters.sql._statements._writes import (
    insert_one,
    insert_shared,
    inserted_shared,
    update_by_row,
    update_in_turn,
    update_one,
    update_shared,
    updated_in_turn,
    updated_shared,
)
from alula.query import EMPTY_QUERY, Query
from alula.types import Record

__all__ = ["Batches"]

Key: TypeAlias = Hashable


class _Patch(NamedTuple):
    """The patch of one call.

    Attributes:
        key: The id of the record, as the driver takes it.
        row: What the patch sets.
        query: As of the call; its ``$select`` may be another than that of the others.
    """

    key: Any
    row: NewRow
    query: Query


class Batches:
    """The batchers of one service: one for each operation and everything that must be the same.

    Args:
        database: The database of the service.
    """

    def __init__(self, database: Database) -> None:
        self._is_postgresql = database.dialect == "postgresql"
        self._batchers: dict[Key, Batcher[Any, Any]] = {}
        self._changes = ChangesInTurn()

    async def get(self, operation: Operation, key: object, query: Query) -> Record | None:
        """Return the record with an id that meets a query, None if there is none."""
        batch: Key = None
        if operation.shapes.finds_by_id:
            batch = self._key_of("get", operation, query, query.select)
        if batch is not None:
            batcher = self._batchers.get(batch) or self._start(
                batch, 1, _get_batch, operation, query
            )
            record: Any = await batcher.load(key)
            if record is not ALONE:
                found: Record | None = record
                return found
        return await operation.get(key, query)

    async def page(self, operation: Operation, statement: Statement) -> Sequence[Row]:
        """Return the rows of a statement for a page."""
        if self._is_postgresql and operation.shapes.shares_pages:
            batch = "page", operation.key, statement.text
            batcher = self._batchers.get(batch) or self._start(batch, 2, _page_batch, operation)
            result: Any = await batcher.load(statement)
            if result is not ALONE:
                rows: Sequence[Row] = result
                return rows
        return await operation.run(statement)

    async def create(self, operation: Operation, row: NewRow) -> Record:
        """Store a new record and return it; only where `Shapes.shares_inserts` says so."""
        batch = "create", operation.key
        batcher = self._batchers.get(batch) or self._start(batch, 2, _create_batch, operation)
        record: Any = await batcher.load(row)
        if record is not ALONE:
            stored: Record = record
            return stored
        return await _create_alone(operation, row)

    async def patch(
        self, operation: Operation, key: object, changes: Mapping[str, Any], query: Query
    ) -> Record | None:
        """Change a record and return it as it is then, None if there is none."""
        shapes = operation.shapes
        row = shapes.writer.changed_row(changes) if shapes.shares_changes else None
        if row is None:
            return await operation.change(update_one(shapes, key, changes, query), query)
        patch = _Patch(key, row, query)
        batch = self._key_of("patch", operation, query, row.columns)
        if batch is None:
            return await _patch_alone(operation, patch)
        batcher = self._batchers.get(batch) or self._start(batch, 2, _patch_batch, operation, query)
        record: Record | None = await self._changes.load(
            (batch, key),
            patch,
            batcher,
            partial(_patch_in_turn, operation, query),
            was_undone,
            partial(_patch_alone, operation, patch),
        )
        return record

    async def count(self, operation: Operation, query: Query) -> int:
        """Return how many records meet a query."""
        batch = self._key_of("count", operation, query) if self._is_postgresql else None
        if batch is None:
            return await operation.count(query)
        batcher = self._batchers.get(batch) or self._start(batch, 1, _count_batch, operation, query)
        total: int = await batcher.load(None)  # equal statements: never `ALONE`
        return total

    @staticmethod
    def _key_of(name: str, operation: Operation, query: Query, more: object = None) -> Key:
        """Return what calls of one batch have in common, None if this call cannot join any."""
        if query is EMPTY_QUERY:
            return name, operation.key, more
        # Equal criteria are not one to the database: in Python, 1 equals True.
        parameters: list[object] = []
        conditions = operation.shapes.criteria.conditions(query, parameters)
        key = name, operation.key, more, conditions, tuple(parameters)
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
            goes_alone=_GOES_ALONE[load],
        )
        self._batchers[key] = batcher
        return batcher


# -- the round trips -------------------------------------------------------------------------------


async def _get_batch(operation: Operation, query: Query, keys: list[Any]) -> list[Any]:
    """Return the record or None for each id."""
    if len(keys) == 1:
        return [await operation.get(keys[0], query)]
    shapes = operation.shapes
    wanted = list(dict.fromkeys(keys))
    rows = await operation.run(select_by_ids(shapes, wanted, query))
    selection = shapes.selection(query.select)
    stored_keys = map(itemgetter(selection.id_position), rows)
    records = dict(zip(stored_keys, selection.read(rows), strict=True))
    if shapes.table.dialect == "sqlite" and shapes.table.id.type.name == "text":
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
    """Return the rows of each page."""
    if len(pages) == 1:
        return [await operation.run(pages[0])]
    shared = shared_pages(pages)
    if shared is None:
        return [ALONE] * len(pages)
    return pages_of(await operation.run(shared), len(pages))


async def _create_alone(operation: Operation, row: NewRow) -> Record:
    return (await operation.create([insert_one(operation.shapes, row)], None))[0]


async def _create_batch(operation: Operation, rows: list[NewRow]) -> list[Any]:
    """Return the stored record for each new row, `ALONE` for those that were refused."""
    if len(rows) == 1:
        return [await _create_alone(operation, rows[0])]
    results: list[Any] = [ALONE] * len(rows)

    async def store(part: tuple[list[int], Statement]) -> None:
        positions, statement = part
        try:
            stored = await operation.run(statement, writes=True)
        except Exception as error:
            if not was_undone(error):
                raise
            return
        for position, record in zip(
            positions, inserted_shared(operation.shapes, stored), strict=True
        ):
            # Refused, most often since a unique value is taken. Alone, it learns why.
            results[position] = ALONE if record is None else record

    parts = insert_shared(operation.shapes, rows)
    if len(parts) == 1:
        await store(parts[0])
        return results
    outcomes = await asyncio.gather(*map(store, parts), return_exceptions=True)
    for (positions, _), outcome in zip(parts, outcomes, strict=True):
        if outcome is not None:
            for position in positions:
                results[position] = outcome
    return results


async def _patch_batch(operation: Operation, query: Query, patches: list[_Patch]) -> list[Any]:
    """Return the changed record or None for each patch, `ALONE` where its record is locked.

    No two of them are of one record.
    """
    if len(patches) == 1:
        return [await _patch_alone(operation, patches[0])]
    shapes = operation.shapes
    keys, rows = [patch.key for patch in patches], [patch.row for patch in patches]
    changed = await operation.run(update_shared(shapes, keys, rows, query), writes=True)
    records = updated_shared(shapes, changed)
    locked = [key in records and records[key] is None for key in keys]
    return [
        ALONE if is_locked else _selected(operation, patch, records.get(patch.key))
        for patch, is_locked in zip(patches, locked, strict=True)
    ]


async def _patch_in_turn(operation: Operation, query: Query, patches: list[_Patch]) -> list[Any]:
    """Return one record as it is after each patch, None where it did not meet the query."""
    if len(patches) == 1:
        return [await _patch_alone(operation, patches[0])]
    shapes = operation.shapes
    rows = [patch.row for patch in patches]
    statement = update_in_turn(shapes, patches[0].key, rows, query)
    records = updated_in_turn(shapes, await operation.run(statement, writes=True))
    return [_selected(operation, patch, records.get(at)) for at, patch in enumerate(patches)]


def _selected(
    operation: Operation, patch: _Patch, result: Record | Exception | None
) -> Record | Exception | None:
    """Return what a patch selects of its record."""
    select = patch.query.select
    if select is None or result is None or isinstance(result, Exception):
        return result
    return selector(select, operation.shapes.table.id.name)(result)


async def _patch_alone(operation: Operation, patch: _Patch) -> Record | None:
    key, row, query = patch
    return await operation.change(update_by_row(operation.shapes, key, row, query), query)


_GOES_ALONE: Final[Mapping[Callable[..., Any], Callable[[Exception], bool]]] = {
    _get_batch: lambda error: not is_outage(error),
    _page_batch: lambda error: not is_outage(error),
    _count_batch: lambda _: False,
    _create_batch: was_undone,
    _patch_batch: was_undone,
}
