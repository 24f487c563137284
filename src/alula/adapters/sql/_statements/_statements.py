"""Translates calls of a service into statements; `Statements` has reads, inserts and changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from alula.adapters.sql._statement import RepeatedStatement, Row, Statement
from alula.adapters.sql._statements._assignments import Assignments
from alula.adapters.sql._statements._inserts import LIMITED_WAIT, Inserts
from alula.adapters.sql._statements._operands import PLACE, place_of
from alula.adapters.sql._statements._reads import Select, Sort, where_of
from alula.adapters.sql._statements._rows import NewRow
from alula.query import Query

if TYPE_CHECKING:
    from alula.adapters.sql._statements._where import Condition

__all__ = ["NewRow", "Select", "Statements", "TwoSteps"]


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


class Statements(Inserts):
    """The statements of one table under the options of a service; arguments as of `Reads`."""

    # -- one record ----------------------------------------------------------------------------

    def update(
        self,
        id: object,
        data: Mapping[str, Any],
        query: Query,
        *,
        where: Condition | None = None,
    ) -> Statement:
        """Return the statement that replaces a record if it meets a query, and returns it.

        Columns that the data does not have get their defaults.
        """
        row = self._writer.replacing_row(data)
        texts = [
            f"{column.sql} = "
            + (place_of(column) if name in row.columns else self._writer.default_of(column))
            for name, column in self.table.columns.items()
            if column.writable and column is not self._id
        ]
        return self._change(id, Assignments(tuple(texts), [*row.values]), query, where)

    def patch(
        self,
        id: object,
        changes: Mapping[str, Any],
        query: Query,
        *,
        where: Condition | None = None,
    ) -> Statement:
        """Return the statement that changes a record if it meets a query, and returns it."""
        return self._change(id, self._writer.assignments(changes), query, where)

    def patch_row(self, id: object, row: NewRow, query: Query) -> Statement:
        """Return what `patch` returns for the changes that `changed_row` has turned into a row."""
        return self._change(id, self._assigned(row), query, None)

    def _assigned(self, row: NewRow) -> Assignments:
        columns = self._columns_of(row)
        texts = tuple(f"{column.sql} = {place_of(column)}" for column in columns)
        return Assignments(texts, [*row.values])

    def _change(
        self, id: object, assignments: Assignments, query: Query, where: Condition | None
    ) -> Statement:
        if not assignments.texts:
            return self.get(id, query, where=where)
        texts, parameters = assignments
        parameters.append(id)
        conditions = self._conditions(query, where, parameters)
        key = ("change", texts, conditions, query.select)
        text = self._texts.get(key)
        if text is None:
            text = self._keep(
                key,
                f"update {self.table.sql} set {', '.join(texts)}"
                f"{where_of((self._by_id, *conditions))} returning {self._names(query.select)}",
            )
        return Statement(text, tuple(parameters))

    def remove(self, id: object, query: Query, *, where: Condition | None = None) -> Statement:
        """Return the statement that removes a record if it meets a query, and returns it."""
        parameters = [id]
        conditions = self._conditions(query, where, parameters)
        key = ("remove", conditions, query.select)
        text = self._texts.get(key)
        if text is None:
            text = self._keep(
                key,
                f"delete from {self.table.sql}{where_of((self._by_id, *conditions))}"
                f" returning {self._names(query.select)}",
            )
        return Statement(text, tuple(parameters))

    # -- many records --------------------------------------------------------------------------

    def patch_many(
        self, changes: Mapping[str, Any], query: Query, *, where: Condition | None = None
    ) -> Statement | TwoSteps:
        """Return the statement that changes all records of a query.

        They come back in the order that they had before the change.
        """
        texts, values = self._writer.assignments(changes)
        if not texts:
            return self.page(query, where=where)
        change = f"update {self.table.sql} set {', '.join(texts)}"
        return self._many(change, " from", values, query, where)

    def remove_many(self, query: Query, *, where: Condition | None = None) -> Statement | TwoSteps:
        """Return the statement that removes all records of a query, and returns them in order."""
        return self._many(f"delete from {self.table.sql}", " using", [], query, where)

    def _many(
        self,
        change: str,
        join: str,
        values: list[object],
        query: Query,
        where: Condition | None,
    ) -> Statement | TwoSteps:
        parameters: list[object] = []
        conditions = self._conditions(query, where, parameters)
        if not self._postgresql:
            return self._two_steps(change, values, query, conditions, parameters)
        key = ("many", change, conditions, query.sort, query.select)
        text = self._texts.get(key)
        if text is None:
            count = len(self._selection(query.select).columns)
            read = ", ".join(f"alula_changed.alula_c{index}" for index in range(count))
            sorts = "".join(
                f", alula_changing.alula_sort{index}" for index in range(len(query.sort))
            )
            text = self._keep(
                key,
                # The order counts as it was before the change.
                f"with alula_changing as materialized"
                f" ({self._ids(query.sort, conditions)} for update),"
                f" alula_changed as ({change}{join} alula_changing"
                f" where {self.table.sql}.{self._id.sql} = alula_changing.alula_id"
                f" returning {self._names(query.select, aliases=True)},"
                f" alula_changing.alula_id{sorts})"
                f" select {read} from alula_changed"
                f" order by {', '.join(self.order_terms(query.sort, aliases=True))}",
            )
        return Statement(text, (*parameters, *values))

    def _ids(self, sort: Sort, conditions: Sequence[str]) -> str:
        """Return the query for ids with the values to sort by, in the order of the ids."""
        sorts = "".join(
            f", {self._criteria.operand(field).sql} as alula_sort{index}"
            for index, (field, _) in enumerate(sort)
        )
        # Rows are locked in this order: two changes of the same rows cannot wait for each other.
        return (
            f"select {self._id.sql} as alula_id{sorts} from {self.table.sql}"
            f"{where_of(conditions)} order by {self._id.sql}"
        )

    def _two_steps(
        self,
        change: str,
        values: list[object],
        query: Query,
        conditions: tuple[str, ...],
        parameters: list[object],
    ) -> TwoSteps:
        key = ("ids", conditions, query.sort)
        text = self._texts.get(key)
        if text is None:
            order = ", ".join(self.order_terms(query.sort))
            text = self._keep(
                key,
                f"select {self._id.sql} from {self.table.sql}{where_of(conditions)}"
                f" order by {order}",
            )
        at = self.id_position(query.select)

        def second(rows: Sequence[Row]) -> Statement:
            key = ("second", change, query.select)
            text = self._texts.get(key)
            if text is None:
                text = self._keep(
                    key, f"{change} where {self._by_ids} returning {self._names(query.select)}"
                )
            return Statement(text, (*values, self.id_list([row[0] for row in rows])))

        # RETURNING of SQLite has no order of its own.
        def ordered(ids: Sequence[Row], rows: Sequence[Row]) -> Sequence[Row]:
            by_id = {row[at]: row for row in rows}
            # A trigger may leave some out.
            return [by_id[row[0]] for row in ids if row[0] in by_id]

        return TwoSteps(Statement(text, tuple(parameters)), second, ordered)

    # -- changes of several calls --------------------------------------------------------------

    @property
    def shares_changes(self) -> bool:
        """Whether changes of several records may be one statement; PostgreSQL only."""
        # asyncpg refuses to read intervals of over 2,700,000 years, when the change has happened.
        names = {column.type.name for column in self.table.columns.values()}
        return self._postgresql and self.finds_by_id and "interval" not in names

    def patch_in_turn(self, id: object, rows: Sequence[NewRow], query: Query) -> RepeatedStatement:
        """Return the statement that patches a record several times, in one round trip.

        It returns the columns of the record after each patch, and then the position of the patch.
        A patch has no row if the record did not meet the query, or is not there.

        Args:
            id: The id of the record.
            rows: What `changed_row` has returned for each patch; all with the same columns.
            query: The query of all the calls; its ``$select`` does not count.
        """
        texts = self._assigned(rows[0]).texts
        common: list[object] = [id]
        conditions = self._conditions(query, None, common)
        key = ("patch_in_turn", texts, conditions)
        text = self._texts.get(key)
        if text is None:
            text = self._keep(
                key,
                f"update {self.table.sql} set {', '.join(texts)}"
                f"{where_of((self._by_id, *conditions))}"
                f" returning {self._names(None)}, {PLACE}::int4",
            )
        parameters = [(*row.values, *common, at) for at, row in enumerate(rows)]
        return RepeatedStatement(text, tuple(parameters))

    def patch_shared(
        self, ids: Sequence[object], rows: Sequence[NewRow], query: Query
    ) -> Statement:
        """Return the statement for the patches of several calls; PostgreSQL only.

        It returns a row for each record that there is and that meets the query: its id, and the
        columns of the changed record. These are null if another transaction has locked the record,
        which this statement leaves as it is.

        Args:
            ids: The id of each record, none of them twice.
            rows: What `changed_row` has returned for each of them; all with the same columns.
            query: The query of all the calls; its ``$select`` does not count.
        """
        selection: list[object] = [list(ids)]
        conditions = self._conditions(query, None, selection)
        key = ("patch_shared", rows[0].columns, conditions)
        text = self._texts.get(key)
        if text is None:
            columns = self._columns_of(rows[0])
            (item_id, *values), source, _ = self._source([self._id, *columns])
            changes = ", ".join(
                f"{column.sql} = {value}" for column, value in zip(columns, values, strict=True)
            )
            where = where_of((self._by_ids, *conditions))
            id_column = f"{self.table.sql}.{self._id.sql}"
            count = len(self.table.columns)
            read = ", ".join(f"alula_changed.alula_c{index}" for index in range(count))
            text = self._keep(
                key,
                f"with {LIMITED_WAIT},"
                f" alula_there as materialized"
                f" (select {self._id.sql} as alula_id from {self.table.sql}{where}),"
                # Without "materialized", rows are locked in the order of a join: deadlocks.
                f" alula_changing as materialized"
                f" (select {id_column} as alula_id from {self.table.sql}, alula_limited_wait{where}"
                f" order by {id_column} for update skip locked),"
                f" alula_changed as (update {self.table.sql} set {changes}"
                f" from alula_changing join {source} on {item_id} = alula_changing.alula_id"
                f" where {id_column} = alula_changing.alula_id"
                f" returning alula_changing.alula_id, {self._names(None, aliases=True)})"
                f" select alula_there.alula_id, {read}"
                f" from alula_there left join alula_changed using (alula_id)",
            )
        return Statement(text, (*selection, *selection, list(ids), *self._lists(rows)))
