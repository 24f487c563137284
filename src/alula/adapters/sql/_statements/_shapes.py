"""What the statements of one table have in common: columns, criteria, and a cache of their texts.

A shape is all of a statement but its values: two finds of one shape have the same text, which is
made once. The functions of ``_reads.py`` and ``_writes.py`` make the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from alula.adapters._records import selector
from alula.adapters.sql._statement import Row
from alula.adapters.sql._statements._criteria import Criteria, Operand, unknown_field
from alula.adapters.sql._statements._data import RowWriter
from alula.adapters.sql._statements._text import PLACE, json_list, json_value, place_of
from alula.adapters.sql._tables._tables import Column, Table
from alula.errors import BadRequest
from alula.types import JSONValue, Record

if TYPE_CHECKING:
    from alula.adapters.sql._options import SQLOptions

__all__ = ["Select", "Selection", "Shapes", "Sort"]

Select: TypeAlias = tuple[str, ...] | None
Sort: TypeAlias = tuple[tuple[str, int], ...]

_MAX_TEXTS: Final = 2000
"""How many texts a table keeps; clients decide how many shapes there are."""


class Selection(NamedTuple):
    """What is read for a ``$select``.

    Attributes:
        columns: The columns, in the order of the record; that of `Table.extra` is the last one.
        names: The text that selects them.
        aliased: The same with the names ``alula_c0``, ``alula_c1`` and so on, for a subquery.
        id_position: The position of the id among them.
        read: Turns rows of these columns into records; columns behind them are left out.
    """

    columns: tuple[Column, ...]
    names: str
    aliased: str
    id_position: int
    read: Callable[[Sequence[Row]], list[Record]]

    def names_in(self, subquery: str) -> str:
        """Return the text that selects the columns of a subquery that selects `aliased`."""
        return ", ".join(f"{subquery}.alula_c{index}" for index in range(len(self.columns)))


class Shapes:
    """The shapes of the statements of one table under the options of a service.

    Args:
        table: The table.
        options: The options of the service, or of a call that overrides some of them.
        joined: Columns of related rows, by the names that queries have for them.

    Attributes:
        table: The table.
        is_postgresql: Whether the texts are for PostgreSQL, for SQLite otherwise.
        criteria: Translates the criteria of queries.
        writer: Translates data.
        texts: The texts by shape.
        by_id: The condition that finds a row by its id.
        by_ids: The condition that finds rows by the parameter of `id_list`.
        number: The place of a whole number, such as a limit.
        whole_by_id: The text that reads a whole record by its id.
        finds_by_id: Whether rows of several ids can be told apart by their ids.
        shares_pages: Whether a dollar sign in these texts is always that of a place.
        shares_inserts: Whether `insert_shared` can store the records of several calls.
        shares_changes: Whether `update_shared` and `update_in_turn` can change those of several.

    Raises:
        ValueError: An option names a column that is not there.
    """

    def __init__(
        self, table: Table, options: SQLOptions, joined: Mapping[str, Operand] | None = None
    ) -> None:
        self.table = table
        self.is_postgresql = table.dialect == "postgresql"
        self.criteria = Criteria(table, options, joined)
        self.writer = RowWriter(table, options)
        self.texts: dict[Hashable, str] = {}
        self._selections: dict[Select, Selection] = {}
        self._nulls_first = options.nulls == "first"
        # Null is the greatest value in PostgreSQL, and the least one in SQLite.
        self._names_nulls = options.nulls != "native" and self._nulls_first is self.is_postgresql
        id_type = table.id.type
        self.by_id = f"{table.id.sql}{id_type.equality} = {place_of(table.id)}"
        self.by_ids = f"{table.id.sql}{id_type.equality} " + (
            f"= any({PLACE}::{id_type.array_cast})"
            if self.is_postgresql
            else f"in (select {json_value(id_type)} from json_each({PLACE}))"
        )
        self.number = f"{PLACE}::int8" if self.is_postgresql else PLACE
        self.whole_by_id = self.numbered(
            f"select {self.selection(None).names} from {table.sql} where {self.by_id}"
        )
        self.finds_by_id = id_type.is_key
        related = [operand.sql for operand in (joined or {}).values()]
        columns = [column.sql for column in table.columns.values()]
        names = (table.sql, *columns, *options.paths, *related)
        self.shares_pages = not any("$" in name for name in names)
        # With other ids than those given, rows would seem to be refused, and be stored again. If
        # ids that differ in Python were equal in the database, two calls could get one record.
        self.shares_inserts = (
            self.is_postgresql
            and table.keeps_ids
            and (table.sequence is not None or table.new_ids != "database")
            and (id_type.is_key or id_type.name in ("integer", "uuid"))
        )
        # asyncpg refuses to read intervals of over 2,700,000 years, when the change has happened.
        has_interval = any(column.type.name == "interval" for column in table.columns.values())
        self.shares_changes = self.is_postgresql and self.finds_by_id and not has_interval

    # -- ids -----------------------------------------------------------------------------------

    def id_value(self, id: object) -> object | None:
        """Return an id as the driver takes it, None if no record can have it.

        A text is the id of a whole number only if it is how that is written: hooks that compare
        texts would not know ``05`` and ``5.0`` for the record 5.
        """
        if id is None:
            return None
        column = self.table.id
        try:
            outcome = column.type.comparison("$eq", id, column.name)
        except BadRequest:
            return None
        if isinstance(outcome, bool):
            return None
        value = outcome[1]
        if type(id) is str and column.type.name == "integer" and str(value) != id:
            return None
        return value

    def id_list(self, ids: Sequence[object]) -> object:
        """Return the one parameter for ids."""
        return list(ids) if self.is_postgresql else json_list(ids)

    # -- texts ---------------------------------------------------------------------------------

    def keep(self, shape: Hashable, text: str, first: int = 1) -> str:
        """Number the places of a text, keep it under its shape, and return it.

        Args:
            shape: All that makes the text.
            text: The text.
            first: The number of its first place.
        """
        if len(self.texts) >= _MAX_TEXTS:
            self.texts.clear()
        text = self.texts[shape] = self.numbered(text, first)
        return text

    def numbered(self, text: str, first: int = 1) -> str:
        """Return a text with numbers in its places."""
        mark = "$" if self.is_postgresql else "?"
        start, *pieces = text.split(PLACE)
        return start + "".join(f"{mark}{at}{piece}" for at, piece in enumerate(pieces, first))

    def order_by(self, sort: Sort, *, aliases: bool = False) -> str:
        """Return the terms of an order, which ends with the id.

        Args:
            sort: That of a query.
            aliases: Whether the values are columns of a subquery: ``alula_id``, and
                ``alula_sort0``, ``alula_sort1`` and so on.

        Raises:
            BadRequest: A field does not exist, or its values have no order.
        """
        id_column = self.table.id
        terms: list[str] = []
        for index, (field, direction) in enumerate(sort):
            operand = self.criteria.operand(field)
            if operand.type.name in ("json", "array"):
                raise BadRequest(f"Invalid value for $sort: {field!r} has no order")
            # With the table: a name alone would be that of what is selected, such as "at"::text,
            # which has no index and another order.
            table = f"{self.table.sql}." if field in self.table.columns else ""
            value = f"alula_sort{index}" if aliases else f"{table}{operand.sql}"
            descending = " desc" if direction < 0 else ""
            # A clause that the database does not need keeps it from using an index.
            nulls = ""
            if operand.nullable and self._names_nulls:
                nulls = " nulls first" if (direction > 0) is self._nulls_first else " nulls last"
            terms.append(f"{value}{operand.type.collation}{descending}{nulls}")
        if all(field != id_column.name for field, _ in sort):
            # Without it, pages could overlap. As the index has it, so without a collation.
            terms.append("alula_id" if aliases else f"{self.table.sql}.{id_column.sql}")
        return ", ".join(terms)

    # -- what is read --------------------------------------------------------------------------

    def selection(self, select: Select) -> Selection:
        """Return what is read for the ``$select`` of a query.

        Raises:
            BadRequest: A field does not exist.
        """
        selection = self._selections.get(select)
        if selection is None:
            if len(self._selections) >= _MAX_TEXTS:
                self._selections.clear()
            selection = self._selections[select] = self._new_selection(select)
        return selection

    def _new_selection(self, select: Select) -> Selection:
        extra = self.table.extra
        columns = {
            name: column for name, column in self.table.columns.items() if column is not extra
        }
        reduce: Callable[[Record], Record] | None = None
        has_extra = extra is not None
        if select is not None:
            selected: dict[str, Column] = {}
            is_whole, has_extra = True, False
            for name in (*select, self.table.id.name):
                column = columns.get(name) or columns.get(name.partition(".")[0])
                if column is not None and (column.name == name or column.type.name == "json"):
                    selected[column.name] = column
                    is_whole = is_whole and column.name == name
                elif extra is not None:
                    has_extra, is_whole = True, False
                else:
                    raise unknown_field(name)
            columns = selected
            reduce = None if is_whole else selector(select, self.table.id.name)
        read = (*columns.values(), *((extra,) if extra is not None and has_extra else ()))
        names = [
            column.sql if column.type.select is None else column.type.select(column.sql)
            for column in read
        ]
        return Selection(
            read,
            ", ".join(names),
            ", ".join(f"{name} as alula_c{index}" for index, name in enumerate(names)),
            read.index(self.table.id),
            _reader(read, extra.name if extra is not None and has_extra else None, reduce),
        )


def _reader(
    columns: Sequence[Column], extra: str | None, reduce: Callable[[Record], Record] | None
) -> Callable[[Sequence[Row]], list[Record]]:
    """Return the function that turns rows of columns into records.

    Args:
        columns: The columns.
        extra: The name of the one whose properties are those of the record.
        reduce: Drops what is not selected of a record.
    """
    names = tuple(column.name for column in columns)
    decoders = [
        (column.name, column.type.from_driver)
        for column in columns
        if column.type.from_driver is not None
    ]

    def read(rows: Sequence[Row]) -> list[Record]:
        # Without a step in Python for each row (bench postgresql, bytecodes of a page: -7 %).
        records: list[Record] = list(map(dict, map(zip, repeat(names), rows)))
        for name, decode in decoders:
            for record in records:
                value = record[name]
                if value is not None:
                    record[name] = decode(value)
        if extra is not None:
            for record in records:
                more: JSONValue = record.pop(extra)
                for name, value in more.items() if isinstance(more, dict) else ():
                    record.setdefault(name, value)  # a column wins
        return records if reduce is None else list(map(reduce, records))

    return read
