"""Turns data into rows of columns with the driver's values, by plans for data of one form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias

from alula.adapters.sql._tables._tables import Column, Table

__all__ = ["Made", "NewRow", "Rows", "stored_value"]

_MAX_PLANS: Final = 500
"""How many sets of names and types are remembered: clients choose what a record has."""

Made: TypeAlias = tuple[Column, Callable[[], object]]
"""A column, and what makes its value in Python."""

_Values: TypeAlias = tuple[Any, ...]


class NewRow(NamedTuple):
    """The columns of a new record, or those that a patch sets, with values for the driver.

    Attributes:
        columns: Names of the columns, in the order of the table.
        values: Their values.
    """

    columns: tuple[str, ...]
    values: tuple[object, ...]


class _Plan(NamedTuple):
    """How records that have the same names and types of values become rows.

    Attributes:
        columns: As of `NewRow`.
        checks: What takes some values of a record, and tells whether they are stored as they are.
        stores: Positions and names of the others, each with what turns its value into the driver's.
        made: What makes the values that the record does not have; they come behind.
        in_order: Puts all these values in the order of the table; None if they are.
    """

    columns: tuple[str, ...]
    checks: Sequence[tuple[Callable[[_Values], _Values], Callable[[_Values], bool]]]
    stores: Sequence[tuple[int, str, Callable[[object, str], object]]]
    made: Sequence[Made]
    in_order: Callable[[_Values], _Values] | None


class Rows:
    """Turns data into rows by plans, which are made once for all data of one form.

    Args:
        table: The table.
        made: The values that Python makes for data that does not have them.
        needs_id: Whether the data has to bring an id.
    """

    def __init__(self, table: Table, made: Sequence[Made], *, needs_id: bool = False) -> None:
        self._columns = table.columns
        self._made = made
        self._brought = table.id.name if needs_id else None
        self._extra = table.extra
        self._plans: dict[tuple[tuple[str, ...], tuple[type, ...]], _Plan | None] = {}

    def row(self, data: Mapping[str, Any]) -> NewRow | None:
        """Return the row for data; None if there is more to do, or if a value may not be valid.

        Raises:
            BadRequest: A value is not of the type of its column.
        """
        values: _Values = tuple(data.values())
        form = tuple(data), tuple(map(type, values))
        plan = self._plans.get(form)
        if plan is None:
            # Other names are not remembered: a client could send thousands in each request.
            if form in self._plans or not data.keys() <= self._columns.keys():
                return None
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[form] = self._plan(*form)
            return self.row(data)
        columns, checks, stores, made, in_order = plan
        for take, are_valid in checks:
            if not are_valid(take(values)):
                return None
        if stores or made:
            changed = list(values)
            for position, name, store in stores:
                changed[position] = store(changed[position], name)
            values = *changed, *(stored_value(column, make()) for column, make in made)
        return NewRow(columns, values if in_order is None else in_order(values))

    def _plan(self, names: tuple[str, ...], types: tuple[type, ...]) -> _Plan | None:
        form = dict(zip(names, types, strict=True))
        if self._brought is not None and form.get(self._brought, NoneType) is NoneType:
            return None
        stores: list[tuple[int, str, Callable[[object, str], object]]] = []
        places: dict[Callable[[_Values], bool], list[int]] = {}
        for position, (name, type_) in enumerate(form.items()):
            column = self._columns[name]
            if column is self._extra or not column.writable:
                return None
            if type_ is not column.type.plain and type_ is not NoneType:
                stores.append((position, name, column.type.store))
            elif type_ is not NoneType and column.type.are_valid is not None:
                places.setdefault(column.type.are_valid, []).append(position)
        made = [pair for pair in self._made if pair[0].name not in form]
        names += tuple(column.name for column, _ in made)
        of_table = tuple(name for name in self._columns if name in names)
        return _Plan(
            of_table,
            [(_taking(positions), are_valid) for are_valid, positions in places.items()],
            stores,
            made,
            None if of_table == names else _taking([names.index(name) for name in of_table]),
        )


def stored_value(column: Column, value: object) -> object:
    """Return the driver's value for one of data, which may be None."""
    return None if value is None else column.type.store(value, column.name)


def _taking(positions: Sequence[int]) -> Callable[[_Values], _Values]:
    """Return what takes the values at some positions as a tuple."""
    # Of a single position, itemgetter would take the value itself; of none, there is no such thing.
    if len(positions) < 2:
        return itemgetter(slice(positions[0], positions[0] + 1))
    return itemgetter(*positions)
