"""Statements that write: new records, and changes of one record, of many, or of several calls.

``where`` is a condition of the application beside the query. An id is one that `Shapes.id_value`
has returned, a row one of `RowWriter`. What the table cannot have is a `BadRequest` that names the
field.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from alula.adapters.sql._statement import RepeatedStatement, Row, Statement
from alula.adapters.sql._statements._data import Assignments, NewRow
from alula.adapters.sql._statements._reads import select_by_id, select_page
from alula.adapters.sql._statements._shapes import Select, Shapes, Sort
from alula.adapters.sql._statements._text import (
    PLACE,
    array_text,
    json_rows,
    json_value,
    place_of,
    where_of,
)
from alula.adapters.sql._tables._tables import Column
from alula.errors import BadRequest
from alula.query import Query
from alula.types import Record

if TYPE_CHECKING:
    from alula.adapters.sql._own_sql import Condition

__all__ = [
    "TwoSteps",
    "delete_many",
    "delete_one",
    "insert_many",
    "insert_one",
    "insert_shared",
    "inserted_shared",
    "replace_one",
    "select_upserted",
    "update_by_row",
    "update_in_turn",
    "update_many",
    "update_one",
    "update_shared",
    "updated_in_turn",
    "updated_shared",
    "upsert_one",
]

_LIMITED_WAIT: Final = (
    "alula_limited_wait as materialized (select set_config('lock_timeout', '50', true))"
)
"""Part of a statement of several calls, which must not wait for what another transaction has
locked, such as a unique value: after 50 ms PostgreSQL undoes it, and each call goes alone. The
setting ends with the statement. What locks has to read from this part, or it would be left out."""

_COLUMNS: Final = attrgetter("columns")
_VALUES: Final = attrgetter("values")

_MAX_ROWS: Final = 10_000
"""How many rows one statement inserts: all of them are in memory at once, here and there."""


class TwoSteps(NamedTuple):
    """A change of many records on SQLite, which has no changes in subqueries.

    Both statements run in one transaction.

    Attributes:
        first: Returns the ids in the order of the query.
        second: Makes the statement for the rows of the first; not needed if there are none.
        ordered: Puts the rows of the second into the order of those of the first.
    """

    first: Statement
    second: Callable[[Sequence[Row]], Statement]
    ordered: Callable[[Sequence[Row], Sequence[Row]], Sequence[Row]]


# -- new records -----------------------------------------------------------------------------------


def insert_one(shapes: Shapes, row: NewRow, select: Select = None) -> Statement:
    """Return the statement that stores one record and returns it."""
    shape = ("insert", row.columns, select)
    text = shapes.texts.get(shape)
    if text is None:
        names = shapes.selection(select).names
        text = shapes.keep(shape, f"{_insert_one(shapes, row)} returning {names}")
    return Statement(text, row.values)


def _insert_one(shapes: Shapes, row: NewRow, alias: str = "") -> str:
    if not row.columns:
        return f"insert into {shapes.table.sql} default values"
    columns = _columns_of(shapes, row)
    names = ", ".join(column.sql for column in columns)
    places = ", ".join(map(place_of, columns))
    return f"insert into {shapes.table.sql}{alias} ({names}) values ({places})"


def upsert_one(
    shapes: Shapes,
    row: NewRow,
    columns: Collection[str],
    select: Select = None,
    *,
    has_old: bool = False,
) -> Statement:
    """Return the statement that stores a record, or changes the one with its unique values.

    On PostgreSQL its row ends with whether the record is new.

    Args:
        shapes: The shapes of the table.
        row: The record.
        columns: The columns with these values; a unique index has to have exactly them.
        select: The ``$select`` of the query.
        has_old: Whether PostgreSQL can return the row that was there before, as 18 can.

    Raises:
        BadRequest: The record has none of the columns.
        ValueError: There is no such column.
    """
    table = shapes.table
    for name in columns:
        if name not in table.columns:
            raise ValueError(f"upsert has {name!r}; {table.name!r} has no such column")
        if name not in row.columns:
            raise BadRequest(f"'{name}' is missing in the data", errors={name: "is missing"})
    shape = ("upsert", row.columns, tuple(columns), select, has_old)
    text = shapes.texts.get(shape)
    if text is None:
        kept = {*columns, table.id.name}
        changed = [name for name in row.columns if name not in kept] or [*columns][:1]
        names = [table.columns[name].sql for name in changed]
        selected = shapes.selection(select).names
        returning = f"returning {selected}"
        if shapes.is_postgresql and has_old:
            returning = (
                f"returning with (old as alula_old) {selected}, alula_old.{table.id.sql} is null"
            )
        elif shapes.is_postgresql:  # a row that `do update` has changed is locked by it
            returning += ", alula_row.xmax = 0"
        text = shapes.keep(
            shape,
            # With an alias: `excluded` may be the name of the table.
            f"{_insert_one(shapes, row, ' as alula_row')}"
            f" on conflict ({', '.join(table.columns[name].sql for name in columns)})"
            f" do update set {', '.join(f'{name} = excluded.{name}' for name in names)}"
            f" {returning}",
        )
    return Statement(text, row.values)


def select_upserted(shapes: Shapes, row: NewRow, columns: Collection[str]) -> Statement:
    """Return the statement that finds the record which `upsert_one` would change."""
    values = dict(zip(row.columns, row.values, strict=True))
    shape = ("upserted", tuple(columns))
    text = shapes.texts.get(shape)
    if text is None:
        unique = [shapes.table.columns[name] for name in columns]
        places = [f"{column.sql} = {place_of(column)}" for column in unique]
        text = shapes.keep(shape, f"select 1 from {shapes.table.sql}{where_of(places)}")
    return Statement(text, tuple(values[name] for name in columns))


def insert_many(
    shapes: Shapes, rows: Sequence[NewRow], select: Select = None
) -> list[tuple[list[int], Statement]]:
    """Return the statements that store records, each with the positions of its records.

    The records of a statement have the same columns, so that what a record does not give gets its
    default. A statement has no bound for parameters and at most 10,000 rows.
    """
    statements: list[tuple[list[int], Statement]] = []
    rows = _aligned(shapes, rows)
    for positions in _parts(rows):
        part = [rows[position] for position in positions]
        if len(part) == 1:
            statements.append((positions, insert_one(shapes, part[0], select)))
        elif part[0].columns:
            statements.append((positions, _insert_rows(shapes, part, select)))
        else:  # nothing to unnest
            statements += [([at], insert_one(shapes, rows[at], select)) for at in positions]
    return statements


def _insert_rows(shapes: Shapes, rows: Sequence[NewRow], select: Select) -> Statement:
    """Return the statement that stores records, all with the same columns."""
    # The number of rows is not part of the shape, as it would be with one place for each value.
    shape = ("insert_many", rows[0].columns, select)
    text = shapes.texts.get(shape)
    if text is None:
        columns = _columns_of(shapes, rows[0])
        values, source, order = _source(shapes, columns)
        text = shapes.keep(
            shape,
            f"insert into {shapes.table.sql} ({', '.join(column.sql for column in columns)})"
            f" select {', '.join(values)} from {source} order by {order}"
            f" returning {shapes.selection(select).names}",
        )
    return Statement(text, _lists(shapes, rows))


# -- new records of several calls, on PostgreSQL ---------------------------------------------------


def insert_shared(shapes: Shapes, rows: Sequence[NewRow]) -> list[tuple[list[int], Statement]]:
    """Return the statements that store the records of several calls.

    A record that the table refuses as a duplicate does not keep others from being stored. Of
    records with the same id, only the first is in a statement. One row comes back for each record
    of a statement, in their order; the columns of those that were refused are null. PostgreSQL
    undoes a statement that waits for another transaction.

    Args:
        shapes: The shapes of the table; its `Shapes.shares_inserts` has to be true.
        rows: What `RowWriter.new_row` has returned for each record.

    Returns:
        The positions of the records of each statement, and the statement.
    """
    id_name = shapes.table.id.name
    rows = _aligned(shapes, rows)
    statements: list[tuple[list[int], Statement]] = []
    for positions in _parts(rows):
        columns = rows[positions[0]].columns
        if id_name in columns:
            # They would all get the one record that is stored.
            at = columns.index(id_name)
            by_id = {rows[position].values[at]: position for position in reversed(positions)}
            positions = sorted(by_id.values())  # noqa: PLW2901  # fewer of them
        part = [rows[position] for position in positions]
        statements.append((positions, _insert_shared(shapes, part)))
    return statements


def _insert_shared(shapes: Shapes, rows: Sequence[NewRow]) -> Statement:
    shape = ("insert_shared", rows[0].columns)
    text = shapes.texts.get(shape)
    if text is None:
        table = shapes.table
        columns = _columns_of(shapes, rows[0])
        values, source, order = _source(shapes, columns)
        names = [column.sql for column in columns]
        if table.id.name in rows[0].columns:
            new_id = values[rows[0].columns.index(table.id.name)]
        else:
            # Drawn first: it tells which row of the insert is whose.
            new_id = f"nextval({table.sequence})"
            names.append(table.id.sql)
            values.append("alula_item.alula_id")
        selection = shapes.selection(None)
        # Exactly: a collation of the database may take texts for equal that Python does not.
        exactly = ' collate "C"' if table.id.type.name == "text" else ""
        text = shapes.keep(
            shape,
            # The list and what is drawn for it have one name, so `values` are read from both.
            f"with {_LIMITED_WAIT}, alula_given as materialized"
            f" (select {new_id} as alula_id, alula_item.* from {source}, alula_limited_wait),"
            f" alula_stored as (insert into {table.sql} ({', '.join(names)})"
            f" overriding system value select {', '.join(values)}"
            f" from alula_given as alula_item order by {order} on conflict do nothing"
            f" returning {table.id.sql} as alula_id, {selection.aliased})"
            f" select {selection.names_in('alula_stored')} from alula_given as alula_item"
            f" left join alula_stored"
            f" on alula_stored.alula_id{exactly} = alula_item.alula_id{exactly}"
            f" order by {order}",
        )
    return Statement(text, _lists(shapes, rows))


def inserted_shared(shapes: Shapes, rows: Sequence[Row]) -> Sequence[Record | Exception | None]:
    """Return the records in the rows of `insert_shared`; None for each that was refused.

    A record that cannot be read is an error.
    """
    at = shapes.selection(None).id_position
    return [
        None if row[at] is None else record
        for row, record in zip(rows, _read_each(shapes, rows), strict=True)
    ]


# -- changes of one record -------------------------------------------------------------------------


def replace_one(
    shapes: Shapes,
    id: object,
    data: Mapping[str, Any],
    query: Query,
    *,
    where: Condition | None = None,
) -> Statement:
    """Return the statement that replaces a record if it meets a query, and returns it.

    Columns that the data does not have get their defaults.
    """
    return _update(shapes, id, shapes.writer.replacement(data), query, where)


def update_one(
    shapes: Shapes,
    id: object,
    changes: Mapping[str, Any],
    query: Query,
    *,
    where: Condition | None = None,
) -> Statement:
    """Return the statement that changes a record if it meets a query, and returns it."""
    return _update(shapes, id, shapes.writer.assignments(changes), query, where)


def update_by_row(shapes: Shapes, id: object, row: NewRow, query: Query) -> Statement:
    """Return what `update_one` returns for changes that `RowWriter.changed_row` has read."""
    return _update(shapes, id, shapes.writer.assigned(row), query, None)


def _update(
    shapes: Shapes,
    id: object,
    assignments: Assignments,
    query: Query,
    where: Condition | None,
) -> Statement:
    texts, parameters = assignments
    if not texts:
        return select_by_id(shapes, id, query, where=where)
    parameters.append(id)
    conditions = shapes.criteria.conditions(query, parameters, where)
    shape = ("update", texts, conditions, query.select)
    text = shapes.texts.get(shape)
    if text is None:
        text = shapes.keep(
            shape,
            f"update {shapes.table.sql} set {', '.join(texts)}"
            f"{where_of((shapes.by_id, *conditions))}"
            f" returning {shapes.selection(query.select).names}",
        )
    return Statement(text, tuple(parameters))


def delete_one(
    shapes: Shapes, id: object, query: Query, *, where: Condition | None = None
) -> Statement:
    """Return the statement that removes a record if it meets a query, and returns it."""
    parameters = [id]
    conditions = shapes.criteria.conditions(query, parameters, where)
    shape = ("delete", conditions, query.select)
    text = shapes.texts.get(shape)
    if text is None:
        text = shapes.keep(
            shape,
            f"delete from {shapes.table.sql}{where_of((shapes.by_id, *conditions))}"
            f" returning {shapes.selection(query.select).names}",
        )
    return Statement(text, tuple(parameters))


# -- changes of many records -----------------------------------------------------------------------


def update_many(
    shapes: Shapes, changes: Mapping[str, Any], query: Query, *, where: Condition | None = None
) -> Statement | TwoSteps:
    """Return the statement that changes all records of a query.

    They come back in the order that they had before the change.
    """
    texts, values = shapes.writer.assignments(changes)
    if not texts:
        return select_page(shapes, query, where=where)
    change = f"update {shapes.table.sql} set {', '.join(texts)}"
    return _change_many(shapes, change, " from", values, query, where)


def delete_many(
    shapes: Shapes, query: Query, *, where: Condition | None = None
) -> Statement | TwoSteps:
    """Return the statement that removes all records of a query, and returns them in order."""
    return _change_many(shapes, f"delete from {shapes.table.sql}", " using", [], query, where)


def _change_many(
    shapes: Shapes,
    change: str,
    join: str,
    values: list[object],
    query: Query,
    where: Condition | None,
) -> Statement | TwoSteps:
    parameters: list[object] = []
    conditions = shapes.criteria.conditions(query, parameters, where)
    if not shapes.is_postgresql:
        return _two_steps(shapes, change, values, query, conditions, parameters)
    shape = ("change_many", change, conditions, query.sort, query.select)
    text = shapes.texts.get(shape)
    if text is None:
        selection = shapes.selection(query.select)
        sorts = "".join(f", alula_changing.alula_sort{index}" for index in range(len(query.sort)))
        text = shapes.keep(
            shape,
            # The order counts as it was before the change.
            f"with alula_changing as materialized"
            f" ({_ids(shapes, query.sort, conditions)} for update),"
            f" alula_changed as ({change}{join} alula_changing"
            f" where {shapes.table.sql}.{shapes.table.id.sql} = alula_changing.alula_id"
            f" returning {selection.aliased}, alula_changing.alula_id{sorts})"
            f" select {selection.names_in('alula_changed')} from alula_changed"
            f" order by {shapes.order_by(query.sort, aliases=True)}",
        )
    return Statement(text, (*parameters, *values))


def _ids(shapes: Shapes, sort: Sort, conditions: Sequence[str]) -> str:
    """Return the query for ids with the values to sort by, in the order of the ids."""
    id_sql = shapes.table.id.sql
    sorts = "".join(
        f", {shapes.criteria.operand(field).sql} as alula_sort{index}"
        for index, (field, _) in enumerate(sort)
    )
    # Rows are locked in this order: two changes of the same rows cannot wait for each other.
    return (
        f"select {id_sql} as alula_id{sorts} from {shapes.table.sql}"
        f"{where_of(conditions)} order by {id_sql}"
    )


def _two_steps(
    shapes: Shapes,
    change: str,
    values: list[object],
    query: Query,
    conditions: tuple[str, ...],
    parameters: list[object],
) -> TwoSteps:
    shape = ("ids", conditions, query.sort)
    text = shapes.texts.get(shape)
    if text is None:
        text = shapes.keep(
            shape,
            f"select {shapes.table.id.sql} from {shapes.table.sql}{where_of(conditions)}"
            f" order by {shapes.order_by(query.sort)}",
        )
    selection = shapes.selection(query.select)

    def second(rows: Sequence[Row]) -> Statement:
        shape = ("change_ids", change, query.select)
        text = shapes.texts.get(shape)
        if text is None:
            text = shapes.keep(shape, f"{change} where {shapes.by_ids} returning {selection.names}")
        return Statement(text, (*values, shapes.id_list([row[0] for row in rows])))

    # RETURNING of SQLite has no order of its own.
    def ordered(ids: Sequence[Row], rows: Sequence[Row]) -> Sequence[Row]:
        by_id = {row[selection.id_position]: row for row in rows}
        # A trigger may leave some out.
        return [by_id[row[0]] for row in ids if row[0] in by_id]

    return TwoSteps(Statement(text, tuple(parameters)), second, ordered)


# -- changes of several calls, on PostgreSQL -------------------------------------------------------


def update_in_turn(
    shapes: Shapes, id: object, rows: Sequence[NewRow], query: Query
) -> RepeatedStatement:
    """Return the statement that changes a record several times, in one round trip.

    It returns the columns of the record after each change, and then the position of the change. A
    change has no row if the record did not meet the query, or is not there.

    Args:
        shapes: The shapes of the table.
        id: The id of the record.
        rows: What `RowWriter.changed_row` has returned for each change; all with the same columns.
        query: The query of all the calls; its ``$select`` does not count.
    """
    texts = shapes.writer.assigned(rows[0]).texts
    common: list[object] = [id]
    conditions = shapes.criteria.conditions(query, common)
    shape = ("update_in_turn", texts, conditions)
    text = shapes.texts.get(shape)
    if text is None:
        text = shapes.keep(
            shape,
            f"update {shapes.table.sql} set {', '.join(texts)}"
            f"{where_of((shapes.by_id, *conditions))}"
            f" returning {shapes.selection(None).names}, {PLACE}::int4",
        )
    parameters = [(*row.values, *common, at) for at, row in enumerate(rows)]
    return RepeatedStatement(text, tuple(parameters))


def updated_in_turn(shapes: Shapes, rows: Sequence[Row]) -> dict[int, Record | Exception]:
    """Return the records in the rows of `update_in_turn` by the positions of the changes.

    A record that cannot be read is an error.
    """
    records = _read_each(shapes, rows)
    return {row[-1]: record for row, record in zip(rows, records, strict=True)}


def update_shared(
    shapes: Shapes, ids: Sequence[object], rows: Sequence[NewRow], query: Query
) -> Statement:
    """Return the statement for the changes of several calls.

    It returns a row for each record that there is and that meets the query: its id, and the columns
    of the changed record. These are null if another transaction has locked the record, which this
    statement leaves as it is.

    Args:
        shapes: The shapes of the table.
        ids: The id of each record, none of them twice.
        rows: What `RowWriter.changed_row` has returned for each; all with the same columns.
        query: The query of all the calls; its ``$select`` does not count.
    """
    selected: list[object] = [list(ids)]
    conditions = shapes.criteria.conditions(query, selected)
    shape = ("update_shared", rows[0].columns, conditions)
    text = shapes.texts.get(shape)
    if text is None:
        table = shapes.table
        columns = _columns_of(shapes, rows[0])
        (item_id, *values), source, _ = _source(shapes, [table.id, *columns])
        changes = ", ".join(
            f"{column.sql} = {value}" for column, value in zip(columns, values, strict=True)
        )
        where = where_of((shapes.by_ids, *conditions))
        id_column = f"{table.sql}.{table.id.sql}"
        selection = shapes.selection(None)
        text = shapes.keep(
            shape,
            f"with {_LIMITED_WAIT},"
            f" alula_there as materialized"
            f" (select {table.id.sql} as alula_id from {table.sql}{where}),"
            # Without "materialized", rows are locked in the order of a join: deadlocks.
            f" alula_changing as materialized"
            f" (select {id_column} as alula_id from {table.sql}, alula_limited_wait{where}"
            f" order by {id_column} for update skip locked),"
            f" alula_changed as (update {table.sql} set {changes}"
            f" from alula_changing join {source} on {item_id} = alula_changing.alula_id"
            f" where {id_column} = alula_changing.alula_id"
            f" returning alula_changing.alula_id, {selection.aliased})"
            f" select alula_there.alula_id, {selection.names_in('alula_changed')}"
            f" from alula_there left join alula_changed using (alula_id)",
        )
    return Statement(text, (*selected, *selected, list(ids), *_lists(shapes, rows)))


def updated_shared(shapes: Shapes, rows: Sequence[Row]) -> dict[object, Record | Exception | None]:
    """Return the records in the rows of `update_shared` by id; None for each that is locked.

    A record that cannot be read is an error.
    """
    at = shapes.selection(None).id_position + 1  # behind the id that every row has
    records = _read_each(shapes, [row[1:] for row in rows])
    return {
        row[0]: None if row[at] is None else record
        for row, record in zip(rows, records, strict=True)
    }


def _read_each(shapes: Shapes, rows: Sequence[Row]) -> Sequence[Record | Exception]:
    """Return the record of each row, or the error that reading it raises."""
    read = shapes.selection(None).read
    try:
        return read(rows)
    except Exception:  # noqa: BLE001  # it is that of one row
        records: list[Record | Exception] = []
        for row in rows:
            try:
                records += read([row])
            except Exception as error:  # noqa: BLE001  # for the caller of this row
                records.append(error)
        return records


# -- lists of rows ---------------------------------------------------------------------------------


def _aligned(shapes: Shapes, rows: Sequence[NewRow]) -> Sequence[NewRow]:
    """Return rows with null in the columns that only others have, where null is the default."""
    if len(set(map(_COLUMNS, rows))) < 2:
        return rows
    given = {name for row in rows for name in row.columns}
    columns = {name: column for name, column in shapes.table.columns.items() if name in given}
    aligned: list[NewRow] = []
    for row in rows:
        values = dict(zip(row.columns, row.values, strict=True))
        names = tuple(
            name for name, column in columns.items() if name in values or not column.has_default
        )
        aligned.append(NewRow(names, tuple(map(values.get, names))))
    return aligned


def _parts(rows: Sequence[NewRow]) -> list[list[int]]:
    """Return the positions of rows with the same columns, at most `_MAX_ROWS` together."""
    by_columns: dict[tuple[str, ...], list[int]] = {}
    if len(set(map(_COLUMNS, rows))) == 1:  # most parts
        by_columns[rows[0].columns] = list(range(len(rows)))
    else:
        for position, row in enumerate(rows):
            by_columns.setdefault(row.columns, []).append(position)
    return [
        positions[start : start + _MAX_ROWS]
        for positions in by_columns.values()
        for start in range(0, len(positions), _MAX_ROWS)
    ]


def _columns_of(shapes: Shapes, row: NewRow) -> list[Column]:
    return [shapes.table.columns[name] for name in row.columns]


def _source(shapes: Shapes, columns: Sequence[Column]) -> tuple[list[str], str, str]:
    """Return the values of a row in a list parameter, the table of all of them, its order."""
    if not shapes.is_postgresql:
        values: list[str] = [
            json_value(column.type, f"json_extract(alula_item.value, '$[{index}]')")
            for index, column in enumerate(columns)
        ]
        return values, f"json_each({PLACE}) as alula_item", "alula_item.key"
    lists: list[str] = []
    names: list[str] = []
    values = []
    for index, column in enumerate(columns):
        # A list of arrays of several lengths is nothing that PostgreSQL has.
        is_array = column.type.name == "array"
        lists.append(f"{PLACE}::{'text[]' if is_array else column.type.array_cast}")
        names.append(f"alula_c{index}")
        values.append(f"alula_item.alula_c{index}{f'::{column.type.cast}' if is_array else ''}")
    source = (
        f"unnest({', '.join(lists)}) with ordinality"
        f" as alula_item({', '.join(names)}, alula_position)"
    )
    return values, source, "alula_item.alula_position"


def _lists(shapes: Shapes, rows: Sequence[NewRow]) -> tuple[object, ...]:
    """Return the parameters of `_source`."""
    if not shapes.is_postgresql:
        return (json_rows([row.values for row in rows]),)
    columns = _columns_of(shapes, rows[0])
    lists: list[object] = []
    for column, values in zip(columns, zip(*map(_VALUES, rows), strict=True), strict=True):
        is_array = column.type.name == "array"
        lists.append([*map(array_text, values)] if is_array else [*values])
    return tuple(lists)
