"""Statements that store new records: one, many in a few statements, or those of several calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from alula.adapters.sql._statement import Statement
from alula.adapters.sql._statements._assignments import RowWriter
from alula.adapters.sql._statements._list_parameters import array_text, json_rows, json_value
from alula.adapters.sql._statements._operands import PLACE, Operand, place_of
from alula.adapters.sql._statements._reads import Reads, Select, where_of
from alula.adapters.sql._statements._rows import NewRow
from alula.adapters.sql._tables._tables import Column, Table
from alula.errors import BadRequest

if TYPE_CHECKING:
    from alula.adapters.sql._options import SQLOptions

__all__ = ["LIMITED_WAIT", "Inserts"]

LIMITED_WAIT: Final = (
    "alula_limited_wait as materialized (select set_config('lock_timeout', '50', true))"
)
"""Part of a statement of several calls, which must not wait for what another transaction has
locked, such as a unique value: after 50 ms PostgreSQL undoes it, and each call goes alone. The
setting ends with the statement. What locks has to read from this part, or it would be left out."""

_COLUMNS: Final = attrgetter("columns")
_VALUES: Final = attrgetter("values")

_MAX_ROWS: Final = 10_000
"""How many rows one statement inserts: all of them are in memory at once, here and there."""

_MAX_ID_FROM_CLIENT: Final = 1 << 52
"""The largest id that a client may bring where SQLite counts on from the largest one that there
ever was: as many ids follow that JavaScript keeps exact. After 2^63 - 1 there are none."""


class Inserts(Reads):
    """The statements that read one table and store new records in it; arguments as of `Reads`."""

    def __init__(
        self, table: Table, options: SQLOptions, joined: Mapping[str, Operand] | None = None
    ) -> None:
        super().__init__(table, options, joined)
        self._writer = RowWriter(table, options)
        self.new_row = self._writer.new_row
        self.changed_row = self._writer.changed_row
        # With other ids than those given, rows would seem to be refused, and be stored again. If
        # ids that differ in Python were equal in the database, two calls could get one record.
        self.shares_inserts = (
            self._postgresql
            and table.keeps_ids
            and (table.sequence is not None or table.new_ids != "database")
            and (table.id.type.is_key or table.id.type.name in ("integer", "uuid"))
        )
        self.counts_on = (
            not self._postgresql and table.new_ids == "database" and table.id.type.name == "integer"
        )

    def check_ids_from_client(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Refuse ids behind which the database would run out of ids; only where it `counts_on`.

        Raises:
            BadRequest: An id is too large.
        """
        name = self.table.id.name
        for record in records:
            new_id = record.get(name)
            if isinstance(new_id, int | float) and new_id > _MAX_ID_FROM_CLIENT:
                expected = f"a whole number up to {_MAX_ID_FROM_CLIENT}"
                raise self._id.type.refusal(name, expected)

    def insert(self, row: NewRow, select: Select = None) -> Statement:
        """Return the statement that stores one record and returns it."""
        key = ("insert", row.columns, select)
        text = self._texts.get(key)
        if text is None:
            text = self._keep(key, f"{self._insert_one(row)} returning {self._names(select)}")
        return Statement(text, row.values)

    def upsert(
        self,
        row: NewRow,
        columns: Collection[str],
        select: Select = None,
        *,
        has_old: bool = False,
    ) -> Statement:
        """Return the statement that stores a record, or changes the one with its unique values.

        On PostgreSQL its row ends with whether the record is new.

        Args:
            row: The record.
            columns: The columns with these values; a unique index has to have exactly them.
            select: The ``$select`` of the query.
            has_old: Whether PostgreSQL can return the row that was there before, as 18 can.

        Raises:
            BadRequest: The record has none of the columns.
            ValueError: There is no such column.
        """
        for name in columns:
            if name not in self.table.columns:
                raise ValueError(f"upsert has {name!r}; {self.table.name!r} has no such column")
            if name not in row.columns:
                raise BadRequest(f"'{name}' is missing in the data", errors={name: "is missing"})
        key = ("upsert", row.columns, tuple(columns), select, has_old)
        text = self._texts.get(key)
        if text is None:
            kept = {*columns, self._id.name}
            changed = [name for name in row.columns if name not in kept] or [*columns][:1]
            names = [self.table.columns[name].sql for name in changed]
            returning = f"returning {self._names(select)}"
            if self._postgresql and has_old:
                returning = (
                    f"returning with (old as alula_old) {self._names(select)},"
                    f" alula_old.{self._id.sql} is null"
                )
            elif self._postgresql:  # a row that `do update` has changed is locked by it
                returning += ", alula_row.xmax = 0"
            text = self._keep(
                key,
                # With an alias: `excluded` may be the name of the table.
                f"{self._insert_one(row, ' as alula_row')}"
                f" on conflict ({', '.join(self.table.columns[name].sql for name in columns)})"
                f" do update set {', '.join(f'{name} = excluded.{name}' for name in names)}"
                f" {returning}",
            )
        return Statement(text, row.values)

    def upserted(self, row: NewRow, columns: Collection[str]) -> Statement:
        """Return the statement that finds the record which `upsert` would change."""
        values = dict(zip(row.columns, row.values, strict=True))
        key = ("upserted", tuple(columns))
        text = self._texts.get(key)
        if text is None:
            places = [
                f"{self.table.columns[name].sql} = {place_of(self.table.columns[name])}"
                for name in columns
            ]
            text = self._keep(key, f"select 1 from {self.table.sql}{where_of(places)}")
        return Statement(text, tuple(values[name] for name in columns))

    def _insert_one(self, row: NewRow, alias: str = "") -> str:
        if not row.columns:
            return f"insert into {self.table.sql} default values"
        columns = self._columns_of(row)
        names = ", ".join(column.sql for column in columns)
        return (
            f"insert into {self.table.sql}{alias} ({names})"
            f" values ({', '.join(map(place_of, columns))})"
        )

    def insert_many(
        self, rows: Sequence[NewRow], select: Select = None
    ) -> list[tuple[list[int], Statement]]:
        """Return the statements that store records, each with the positions of its records.

        The records of a statement have the same columns, so that what a record does not give gets
        its default. A statement has no bound for parameters and at most 10,000 rows.
        """
        statements: list[tuple[list[int], Statement]] = []
        rows = self._aligned(rows)
        for positions in _parts(rows):
            part = [rows[position] for position in positions]
            if len(part) == 1:
                statements.append((positions, self.insert(part[0], select)))
            elif part[0].columns:
                statements.append((positions, self.insert_rows(part, select)))
            else:  # nothing to unnest
                statements += [([at], self.insert(rows[at], select)) for at in positions]
        return statements

    def insert_rows(self, rows: Sequence[NewRow], select: Select) -> Statement:
        """Return the statement that stores records, all with the same columns."""
        # The number of rows is not part of the shape, as it would be with one place for each value.
        key = ("insert_many", rows[0].columns, select)
        text = self._texts.get(key)
        if text is None:
            columns = self._columns_of(rows[0])
            values, source, order = self._source(columns)
            text = self._keep(
                key,
                f"insert into {self.table.sql} ({', '.join(column.sql for column in columns)})"
                f" select {', '.join(values)} from {source} order by {order}"
                f" returning {self._names(select)}",
            )
        return Statement(text, self._lists(rows))

    def insert_shared(self, rows: Sequence[NewRow]) -> list[tuple[list[int], Statement]]:
        """Return the statements that store the records of several calls; PostgreSQL only.

        A record that the table refuses as a duplicate does not keep others from being stored. Of
        records with the same id, only the first is in a statement. One row comes back for each
        record of a statement, in their order; the columns of those that were refused are null.
        PostgreSQL undoes a statement that waits for another transaction.

        Args:
            rows: What `new_row` has returned for each record; `shares_inserts` has to be true.

        Returns:
            The positions of the records of each statement, and the statement.
        """
        rows = self._aligned(rows)
        statements: list[tuple[list[int], Statement]] = []
        for positions in _parts(rows):
            columns = rows[positions[0]].columns
            if self._id.name in columns:
                # They would all get the one record that is stored.
                at = columns.index(self._id.name)
                by_id = {rows[position].values[at]: position for position in reversed(positions)}
                positions = sorted(by_id.values())  # noqa: PLW2901  # fewer of them
            part = [rows[position] for position in positions]
            statements.append((positions, self._insert_shared(part)))
        return statements

    def _insert_shared(self, rows: Sequence[NewRow]) -> Statement:
        key = ("insert_shared", rows[0].columns)
        text = self._texts.get(key)
        if text is None:
            columns = self._columns_of(rows[0])
            values, source, order = self._source(columns)
            names = [column.sql for column in columns]
            if self._id.name in rows[0].columns:
                new_id = values[rows[0].columns.index(self._id.name)]
            else:
                # Drawn first: it tells which row of the insert is whose.
                new_id = f"nextval({self.table.sequence})"
                names.append(self._id.sql)
                values.append("alula_item.alula_id")
            read = ", ".join(
                f"alula_stored.alula_c{index}" for index in range(len(self.table.columns))
            )
            # Exactly: a collation of the database may take texts for equal that Python does not.
            exactly = ' collate "C"' if self._id.type.name == "text" else ""
            text = self._keep(
                key,
                # The list and what is drawn for it have one name, so `values` are read from both.
                f"with {LIMITED_WAIT}, alula_given as materialized"
                f" (select {new_id} as alula_id, alula_item.* from {source}, alula_limited_wait),"
                f" alula_stored as (insert into {self.table.sql} ({', '.join(names)})"
                f" overriding system value select {', '.join(values)}"
                f" from alula_given as alula_item order by {order} on conflict do nothing"
                f" returning {self._id.sql} as alula_id, {self._names(None, aliases=True)})"
                f" select {read} from alula_given as alula_item left join alula_stored"
                f" on alula_stored.alula_id{exactly} = alula_item.alula_id{exactly}"
                f" order by {order}",
            )
        return Statement(text, self._lists(rows))

    # -- parts of statements -------------------------------------------------------------------

    def _aligned(self, rows: Sequence[NewRow]) -> Sequence[NewRow]:
        """Return rows with null in the columns that only others have, where null is the default."""
        if len(set(map(_COLUMNS, rows))) < 2:
            return rows
        given = {name for row in rows for name in row.columns}
        columns = [name for name in self.table.columns if name in given]
        aligned: list[NewRow] = []
        for row in rows:
            values = dict(zip(row.columns, row.values, strict=True))
            names = tuple(
                name
                for name in columns
                if name in values or not self.table.columns[name].has_default
            )
            aligned.append(NewRow(names, tuple(map(values.get, names))))
        return aligned

    def _columns_of(self, row: NewRow) -> list[Column]:
        return [self.table.columns[name] for name in row.columns]

    def _source(self, columns: Sequence[Column]) -> tuple[list[str], str, str]:
        """Return the values of a row in a list parameter, the table of all of them, its order."""
        if not self._postgresql:
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

    def _lists(self, rows: Sequence[NewRow]) -> tuple[object, ...]:
        """Return the parameters of `_source`."""
        if not self._postgresql:
            return (json_rows([row.values for row in rows]),)
        columns = self._columns_of(rows[0])
        lists: list[object] = []
        for column, values in zip(columns, zip(*map(_VALUES, rows), strict=True), strict=True):
            is_array = column.type.name == "array"
            lists.append([*map(array_text, values)] if is_array else [*values])
        return tuple(lists)


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
