"""Statements that read: pages, totals and single records, and how their rows become records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from alula.adapters._records import selector
from alula.adapters.sql._statement import Row, Statement
from alula.adapters.sql._statements._criteria import Criteria, unknown_field
from alula.adapters.sql._statements._list_parameters import json_list, json_value
from alula.adapters.sql._statements._operands import PLACE, Operand, place_of
from alula.adapters.sql._tables._tables import Column, Table
from alula.errors import BadRequest
from alula.query import EMPTY_QUERY, Query
from alula.types import JSONValue, Record

if TYPE_CHECKING:
    from alula.adapters.sql._options import Lock, SQLOptions
    from alula.adapters.sql._statements._where import Condition

__all__ = ["Reader", "Reads", "Select", "Sort", "where_of"]

Reader: TypeAlias = Callable[[Sequence[Row]], list[Record]]
Select: TypeAlias = tuple[str, ...] | None
Sort: TypeAlias = tuple[tuple[str, int], ...]

_OF_FIXED_SIZE: Final = frozenset({"boolean", "integer", "number"})
"""Types of columns that are not measured."""

_MAX_TEXTS: Final = 2000
"""How many texts a table keeps; clients decide how many shapes there are."""


class _Selection(NamedTuple):
    """What is read for a ``$select``.

    Attributes:
        columns: The columns, in the order of the record; that of `Table.extra` is the last one.
        reduce: Drops what is not selected of a record, None if that is nothing.
    """

    columns: tuple[Column, ...]
    reduce: Callable[[Record], Record] | None


class Reads:
    """The statements that read one table; texts are cached by shape.

    ``where`` is a condition of the application beside the query. An id is one that `id_value` has
    returned. What the table cannot have is a `BadRequest` that names the field.

    Args:
        table: The table.
        options: The options of the service, or of a call that overrides some of them.
        joined: Columns of related rows, by the names that queries have for them.

    Attributes:
        table: The table.
        finds_by_id: Whether rows of several ids can be told apart by their ids.

    Raises:
        ValueError: An option names a column that is not there.
    """

    def __init__(
        self, table: Table, options: SQLOptions, joined: Mapping[str, Operand] | None = None
    ) -> None:
        self.table = table
        self._postgresql = table.dialect == "postgresql"
        self._criteria = Criteria(table, options, joined)
        self._nulls_first = options.nulls == "first"
        # Null is the greatest value in PostgreSQL, and the least one in SQLite.
        self._names_nulls = options.nulls != "native" and self._nulls_first is self._postgresql
        related = [operand.sql for operand in (joined or {}).values()]
        columns = [column.sql for column in table.columns.values()]
        names = (table.sql, *columns, *options.paths, *related)
        self._shares_pages = not any("$" in name for name in names)
        self._id = table.id
        self._compare_id = table.id.type.comparison
        self._is_integer = table.id.type.name == "integer"
        self._texts: dict[Hashable, str] = {}
        self._selections: dict[Select, _Selection] = {}
        self._readers: dict[Select, Reader] = {}
        extra = table.extra
        self._columns = {
            name: column for name, column in table.columns.items() if column is not extra
        }
        self.finds_by_id = self._id.type.is_key
        self._by_id = f"{self._id.sql}{self._id.type.equality} = {place_of(self._id)}"
        values = (
            f"= any({PLACE}::{self._id.type.array_cast})"
            if self._postgresql
            else f"in (select {json_value(self._id.type)} from json_each({PLACE}))"
        )
        self._by_ids = f"{self._id.sql}{self._id.type.equality} {values}"
        self._get_whole = self._numbered(
            f"select {self._names(None)} from {table.sql} where {self._by_id}"
        )

    @property
    def shares_pages(self) -> bool:
        """Whether a dollar sign in these texts is always that of a place for a parameter."""
        return self._shares_pages

    def id_value(self, id: object) -> object | None:
        """Return an id as the driver takes it, None if no record can have it.

        A text is the id of a whole number only if it is how that is written: hooks that compare
        texts would not know ``05`` and ``5.0`` for the record 5.
        """
        if id is None:
            return None
        try:
            outcome = self._compare_id("$eq", id, self._id.name)
        except BadRequest:
            return None
        if isinstance(outcome, bool):
            return None
        value = outcome[1]
        if self._is_integer and type(id) is str and str(value) != id:
            return None
        return value

    # -- statements ----------------------------------------------------------------------------

    def page(
        self, query: Query, *, where: Condition | None = None, lock: Lock | None = None
    ) -> Statement:
        """Return the statement for the records of a page.

        Records that are equal in all fields of ``$sort`` come in the order of their ids.
        """
        parameters: list[object] = []
        conditions = self._conditions(query, where, parameters)
        _, limit, skip, sort, select, _, _ = query
        key = ("page", conditions, sort, select, limit is None, skip == 0, lock)
        text = self._texts.get(key)
        if text is None:
            text = self._keep(key, self._page(query, where_of(conditions), lock))
        self._append_range(query, parameters)
        return Statement(text, tuple(parameters))

    def page_and_total(self, query: Query, *, where: Condition | None = None) -> Statement:
        """Return the statement for a page and how many records there are on all pages.

        Its rows are the columns, then the total. If the page is empty, there is one row, whose
        columns are null.
        """
        parameters: list[object] = []
        conditions = self._conditions(query, where, parameters)
        key = ("total", conditions, query.sort, query.select, query.limit is None, query.skip == 0)
        text = self._texts.get(key)
        if text is None:
            # Both parts have the same conditions with the same parameters. A window function in
            # place of the count takes four times as long, and has no row for an empty page.
            condition = self._numbered(where_of(conditions))
            columns = self._selection(query.select).columns
            names = ", ".join(f"alula_page.alula_c{index}" for index in range(len(columns)))
            text = self._keep(
                key,
                f"select {names}, alula_counted.alula_total"
                f" from (select count(*) as alula_total from {self.table.sql}{condition})"
                f" as alula_counted left join"
                f" ({self._page(query, condition, None, aliases=True)}) as alula_page on true",
                len(parameters) + 1,
            )
        self._append_range(query, parameters)
        return Statement(text, tuple(parameters))

    def count(
        self, query: Query, at_most: int | None = None, *, where: Condition | None = None
    ) -> Statement:
        """Return the statement for the number of records, or with a bound for the lesser one."""
        parameters: list[object] = []
        conditions = self._conditions(query, where, parameters)
        key = ("count", conditions, at_most is None)
        text = self._texts.get(key)
        if text is None:
            matching = f"from {self.table.sql}{where_of(conditions)}"
            text = self._keep(
                key,
                f"select count(*) {matching}"
                if at_most is None
                else f"select count(*) from (select 1 {matching} limit {self._number})"
                " as alula_counted",
            )
        if at_most is not None:
            parameters.append(at_most)
        return Statement(text, tuple(parameters))

    def measure(self, query: Query, *, where: Condition | None = None) -> Statement:
        """Return the statement for the number of records of a page, and that of their bytes."""
        parameters: list[object] = []
        conditions = self._conditions(query, where, parameters)
        key = ("measure", conditions, query.sort, query.select, query.skip == 0)
        text = self._texts.get(key)
        if text is None:
            sizes = map(self._size_of, self._selection(query.select).columns)
            page = self._page(query, where_of(conditions), None, names=" + ".join(sizes))
            text = self._keep(
                key,
                "select count(*), cast(coalesce(sum(alula_size), 0) as bigint)"
                f" from ({page}) as alula_measured",
            )
        self._append_range(query, parameters)
        return Statement(text, tuple(parameters))

    def _size_of(self, column: Column) -> str:
        """Return the expression for the bytes of a column's value."""
        if column.type.name in _OF_FIXED_SIZE:
            return "8"
        if not self._postgresql:
            return f"coalesce(length(cast({column.sql} as blob)), 0)"
        # Of a text, PostgreSQL knows the length without reading it.
        cast = "" if column.type.name in {"text", "bytes"} else "::text"
        return f"coalesce(octet_length({column.sql}{cast}), 0)::int8"

    def explain(self, query: Query, *, where: Condition | None = None) -> Statement:
        """Return the statement for PostgreSQL's plan of a query, as JSON text; it reads no row."""
        parameters: list[object] = []
        conditions = self._conditions(query, where, parameters)
        key = ("explain", conditions)
        text = self._texts.get(key) or self._keep(
            key, f"explain (format json) select 1 from {self.table.sql}{where_of(conditions)}"
        )
        return Statement(text, tuple(parameters))

    def get(
        self,
        id: object,
        query: Query,
        *,
        where: Condition | None = None,
        lock: Lock | None = None,
    ) -> Statement:
        """Return the statement for the record with an id if it meets a query."""
        # Most gets: neither a key nor a look-up of the text (0.4 µs instead of 1.5).
        if query is EMPTY_QUERY and where is None and lock is None:
            return Statement(self._get_whole, (id,))
        return self._selected_by_id(self._by_id, id, query, where, lock)

    def get_many(
        self, ids: Sequence[object], query: Query, *, where: Condition | None = None
    ) -> Statement:
        """Return the statement for the records that have one of the ids and meet a query."""
        return self._selected_by_id(self._by_ids, self.id_list(ids), query, where, None)

    def _selected_by_id(
        self,
        by_id: str,
        id: object,
        query: Query,
        where: Condition | None,
        lock: Lock | None,
    ) -> Statement:
        parameters = [id]
        conditions = self._conditions(query, where, parameters)
        key = (by_id, conditions, query.select, lock)
        text = self._texts.get(key)
        if text is None:
            text = self._keep(
                key,
                f"select {self._names(query.select)} from {self.table.sql}"
                f"{where_of((by_id, *conditions))}{self._locked(lock)}",
            )
        return Statement(text, tuple(parameters))

    # -- rows ----------------------------------------------------------------------------------

    def reader(self, select: Select = None) -> Reader:
        """Return the function that turns the rows of a statement into records.

        Columns behind those of the record are left out.

        Args:
            select: That of the query.
        """
        reader = self._readers.get(select)
        if reader is None:
            if len(self._readers) >= _MAX_TEXTS:
                self._readers.clear()
            reader = self._readers[select] = self._new_reader(select)
        return reader

    def page_reader(self, select: Select = None) -> Reader:
        """Return the function that turns the rows of `page_and_total` into records."""
        read = self.reader(select)
        at = self.id_position(select)

        def read_page(rows: Sequence[Row]) -> list[Record]:
            # An empty page is one row with the total and nulls.
            return [] if rows[0][at] is None else read(rows)

        return read_page

    def shared_reader(self, rows: Sequence[Row]) -> Sequence[Record | Exception | None]:
        """Return the records of a shared insert's rows; None for each that was refused.

        A record that cannot be read is an error.
        """
        at = self.id_position(None)
        return [
            None if row[at] is None else record
            for row, record in zip(rows, self._read_each(rows), strict=True)
        ]

    def shared_changes(self, rows: Sequence[Row]) -> dict[object, Record | Exception | None]:
        """Return the records of a shared patch's rows by id; None for each that is locked.

        A record that cannot be read is an error.
        """
        at = self.id_position(None) + 1  # behind the id that every row has
        records = self._read_each([row[1:] for row in rows])
        return {
            row[0]: None if row[at] is None else record
            for row, record in zip(rows, records, strict=True)
        }

    def changes_in_turn(self, rows: Sequence[Row]) -> dict[int, Record | Exception]:
        """Return the records of the rows of `patch_in_turn` by the positions of the patches.

        A record that cannot be read is an error.
        """
        return {row[-1]: record for row, record in zip(rows, self._read_each(rows), strict=True)}

    def _read_each(self, rows: Sequence[Row]) -> Sequence[Record | Exception]:
        """Return the record of each row, or the error that reading it raises."""
        read = self.reader()
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

    def id_position(self, select: Select) -> int:
        """Return the position of the id among the columns that are read."""
        return self._selection(select).columns.index(self._id)

    def _new_reader(self, select: Select) -> Reader:
        columns, reduce = self._selection(select)
        names = tuple(column.name for column in columns)
        decoders = [
            (column.name, column.type.from_driver)
            for column in columns
            if column.type.from_driver is not None
        ]
        extra_column = self.table.extra
        extra = (
            None if extra_column is None or columns[-1] is not extra_column else extra_column.name
        )

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

    # -- parts of statements -------------------------------------------------------------------

    def criteria(self, query: Query) -> tuple[tuple[str, ...], tuple[object, ...]]:
        """Return the criteria of a query as conditions and their values.

        Two queries with the same of both are one to the database, unlike criteria that are equal in
        Python, where 1 equals True.
        """
        parameters: list[object] = []
        return self._conditions(query, None, parameters), tuple(parameters)

    def _conditions(
        self, query: Query, where: Condition | None, parameters: list[object]
    ) -> tuple[str, ...]:
        conditions = self._criteria.conditions(query, parameters)
        if where is None:
            return conditions
        parameters.extend(where.parameters)
        return (*conditions, f"({PLACE.join(where.parts)})")

    def _page(
        self,
        query: Query,
        where: str,
        lock: Lock | None,
        aliases: bool = False,
        names: str | None = None,
    ) -> str:
        names = self._names(query.select, aliases) if names is None else f"{names} as alula_size"
        text = (
            f"select {names} from {self.table.sql}{where}"
            f" order by {', '.join(self.order_terms(query.sort))}"
        )
        if query.limit is not None:
            text += f" limit {self._number}"
        elif (query.skip or aliases) and not self._postgresql:
            # SQLite has no offset without it, and drops the order of a subquery.
            text += " limit -1"
        if query.skip:
            text += f" offset {self._number}"
        return text + self._locked(lock)

    def _append_range(self, query: Query, parameters: list[object]) -> None:
        if query.limit is not None:
            parameters.append(query.limit)
        if query.skip:
            parameters.append(query.skip)

    @property
    def _number(self) -> str:
        return f"{PLACE}::int8" if self._postgresql else PLACE

    def order_terms(self, sort: Sort, aliases: bool = False) -> list[str]:
        """Return the terms of an order.

        Args:
            sort: That of a query.
            aliases: Whether the values have the names that `_ids` of `Statements` gives them.

        Raises:
            BadRequest: A field does not exist, or its values have no order.
        """
        terms: list[str] = []
        for index, (field, direction) in enumerate(sort):
            operand = self._criteria.operand(field)
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
        if all(field != self._id.name for field, _ in sort):
            # Without it, pages could overlap. As the index has it, so without a collation.
            terms.append("alula_id" if aliases else f"{self.table.sql}.{self._id.sql}")
        return terms

    def _locked(self, lock: Lock | None) -> str:
        # In SQLite, a transaction that writes has locked everything.
        return f" for {lock}" if lock is not None and self._postgresql else ""

    def _names(self, select: Select, aliases: bool = False) -> str:
        """Return the list of columns to read."""
        texts: list[str] = []
        for index, column in enumerate(self._selection(select).columns):
            text = column.sql if column.type.select is None else column.type.select(column.sql)
            texts.append(f"{text} as alula_c{index}" if aliases else text)
        return ", ".join(texts)

    def _selection(self, select: Select) -> _Selection:
        selection = self._selections.get(select)
        if selection is not None:
            return selection
        if len(self._selections) >= _MAX_TEXTS:
            self._selections.clear()
        extra = self.table.extra
        if select is None:
            selection = _Selection((*self._columns.values(), *([extra] if extra else ())), None)
            return self._selections.setdefault(select, selection)
        columns: dict[str, Column] = {}
        whole = True
        needs_extra = False
        for name in (*select, self._id.name):
            column_name = name.partition(".")[0]
            column = self._columns.get(name) or self._columns.get(column_name)
            if column is not None and (column.name == name or column.type.name == "json"):
                columns[column.name] = column
                whole = whole and column.name == name
            elif extra is not None:
                needs_extra, whole = True, False
            else:
                raise unknown_field(name)
        selected = (*columns.values(), *([extra] if extra and needs_extra else ()))
        selection = _Selection(selected, None if whole else selector(select, self._id.name))
        return self._selections.setdefault(select, selection)

    def id_list(self, ids: Sequence[object]) -> object:
        """Return the one parameter for ids."""
        return list(ids) if self._postgresql else json_list(ids)

    def _keep(self, key: Hashable, text: str, first: int = 1) -> str:
        """Number the places of a text, and keep it under the key of its shape."""
        if len(self._texts) >= _MAX_TEXTS:
            self._texts.clear()
        text = self._texts[key] = self._numbered(text, first)
        return text

    def _numbered(self, text: str, first: int = 1) -> str:
        mark = "$" if self._postgresql else "?"
        start, *pieces = text.split(PLACE)
        return start + "".join(f"{mark}{at}{piece}" for at, piece in enumerate(pieces, first))


def where_of(conditions: Sequence[str]) -> str:
    """Return the clause for conditions that must all hold, an empty one without any."""
    return f" where {' and '.join(conditions)}" if conditions else ""
