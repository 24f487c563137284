"""Turns the data of writes into columns, the driver's values and assignments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from alula.adapters.sql._columns._number_types import DecimalType
from alula.adapters.sql._statements._criteria import json_path
from alula.adapters.sql._statements._text import PLACE, literal, place_of
from alula.adapters.sql._tables._ddl import default_text
from alula.adapters.sql._tables._tables import Column, Table
from alula.errors import BadRequest, shown_name
from alula.types import JSONValue, is_list

if TYPE_CHECKING:
    from alula.adapters.sql._options import SQLOptions

__all__ = ["Assignments", "NewRow", "RowWriter"]

_MAX_PLANS: Final = 500
"""How many sets of names and types are remembered: clients choose what a record has."""

_MAX_ID_FROM_CLIENT: Final = 1 << 52
"""The largest id that a client may bring where SQLite counts on from the largest one that there
ever was: as many ids follow that JavaScript keeps exact. After 2^63 - 1 there are none."""

_Made: TypeAlias = tuple[Column, Callable[[], object]]
"""A column, and what makes its value in Python."""

_Values: TypeAlias = tuple[Any, ...]

_Assignment: TypeAlias = tuple[str, list[object]]
"""The text of an assignment, and the parameters for its places."""

_Tree: TypeAlias = dict[str, Any]
"""Changes of a JSON column by key; at the ends of its branches are `_Leaf`."""


class NewRow(NamedTuple):
    """The columns of a new record, or those that a patch sets, with values for the driver.

    Attributes:
        columns: Names of the columns, in the order of the table.
        values: Their values.
    """

    columns: tuple[str, ...]
    values: tuple[object, ...]


class Assignments(NamedTuple):
    """What a change sets.

    Attributes:
        texts: ``"column" = ...``, with places for the parameters.
        parameters: The values of these places, in their order.
    """

    texts: tuple[str, ...]
    parameters: list[object]


class RowWriter:
    """Turns data into what statements write.

    Args:
        table: The table.
        options: ``paths`` names the JSON paths that a patch may set.
    """

    def __init__(self, table: Table, options: SQLOptions) -> None:
        self.table = table
        self._postgresql = table.dialect == "postgresql"
        self._paths = frozenset(options.paths)
        self._columns = {
            name: column for name, column in table.columns.items() if column is not table.extra
        }
        columns = [column for column in table.columns.values() if column.writable]
        self._made: list[_Made] = [
            (column, column.default) for column in columns if column.default is not None
        ]
        self._renewed: list[_Made] = [
            (column, column.on_update) for column in columns if column.on_update is not None
        ]
        self._new = _Rows(table, self._made, needs_id=table.new_ids == "brought")
        self._changed = _Rows(table, self._renewed)

    # -- rows ----------------------------------------------------------------------------------

    def new_row(self, record: Mapping[str, Any]) -> NewRow:
        """Return a new record as the driver takes it, with the values that Python makes.

        Raises:
            BadRequest: A property has no column, or a value is not of its type, or the record has
                to bring an id and has none.
        """
        row = self._new.row(record)  # bench postgresql, bytecodes of a create: -11 %
        if row is not None:
            return row
        values = self._stored(record)
        _add_made(values, self._made)
        if self.table.new_ids == "brought" and values.get(self.table.id.name) is None:
            name = self.table.id.name
            raise BadRequest(
                f"'{name}' is missing: a new record needs one", errors={name: "is missing"}
            )
        return self._row(values)

    def changed_row(self, changes: Mapping[str, Any]) -> NewRow | None:
        """Return the changes of a patch if they set whole columns only, None otherwise.

        Raises:
            BadRequest: A value is not of the type of its column.
        """
        if not changes:
            return None
        row = self._changed.row(changes)
        if row is None and all(name in self._columns for name in changes):
            self._stored(changes)  # says which value is wrong
        return row

    def check_ids_from_client(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Refuse ids behind which SQLite would run out of ids, where it counts on from the largest.

        Raises:
            BadRequest: An id is too large.
        """
        id_column = self.table.id
        if self._postgresql or self.table.new_ids != "database" or id_column.type.name != "integer":
            return
        for record in records:
            new_id = record.get(id_column.name)
            if isinstance(new_id, int | float) and new_id > _MAX_ID_FROM_CLIENT:
                expected = f"a whole number up to {_MAX_ID_FROM_CLIENT}"
                raise id_column.type.refusal(id_column.name, expected)

    def _row(self, values: dict[str, object]) -> NewRow:
        names = tuple(name for name in self.table.columns if name in values)
        return NewRow(names, tuple(values[name] for name in names))

    def _stored(self, data: Mapping[str, Any]) -> dict[str, object]:
        """Return the driver's values by column; what has none goes into the extra column."""
        values: dict[str, object] = {}
        more: dict[str, Any] = {}
        for name, value in data.items():
            column = self._columns.get(name)
            if column is not None:
                values[name] = self._value(column, value)
            elif self.table.extra is None or not isinstance(name, str):
                raise _unknown(name)
            else:
                more[name] = value
        if more and self.table.extra is not None:
            values[self.table.extra.name] = self.table.extra.type.store(more, "data")
        return values

    def _value(self, column: Column, value: Any) -> object:
        if not column.writable:
            raise BadRequest(f"Invalid key {column.name} in the data: the database computes it")
        return _stored_value(column, value)

    # -- assignments ---------------------------------------------------------------------------

    def assignments(self, changes: Mapping[str, Any]) -> Assignments:
        """Return what a patch sets.

        Names with dots have to be declared paths. Keys such as ``$inc`` are update operators.

        Raises:
            BadRequest: A property cannot be set this way; the message names it.
        """
        fields = dict(changes)
        texts = self._take_operators(fields)
        trees: dict[str, _Tree] = {}
        more: dict[str, Any] = {}
        for name, value in fields.items():
            column = self._columns.get(name)
            if column is not None:
                _add(texts, name, self._set(column, value))
            elif name in self._paths:
                column, keys = json_path(name, self.table)
                leaf = _Leaf("null" if value is None else column.type.store(value, name))
                if not _add_leaf(trees.setdefault(column.name, {}), keys, leaf):
                    raise _twice(name)
            elif self.table.extra is None or "." in name:
                raise _unknown(name)
            else:
                more[name] = value
        if more and self.table.extra is not None:
            trees.setdefault(self.table.extra.name, {})
        for name, tree in trees.items():
            column = self.table.columns[name]
            merged = more if column is self.table.extra else {}
            _add(texts, name, self._with_paths(column, tree, merged))
        for column, make in self._renewed if texts else ():
            if column.name not in texts:
                texts[column.name] = self._set(column, make())
        return Assignments(
            tuple(text for text, _ in texts.values()),
            [value for _, values in texts.values() for value in values],
        )

    def assigned(self, row: NewRow) -> Assignments:
        """Return what a patch sets whose changes `changed_row` has turned into a row."""
        columns = [self.table.columns[name] for name in row.columns]
        texts = tuple(f"{column.sql} = {place_of(column)}" for column in columns)
        return Assignments(texts, [*row.values])

    def replacement(self, data: Mapping[str, Any]) -> Assignments:
        """Return what an update sets; columns that the data does not have get their defaults.

        Raises:
            BadRequest: As for a new record.
        """
        values = self._stored(data)
        _add_made(values, self._renewed)
        _add_made(values, [pair for pair in self._made if pair[0] is not self.table.id])
        row = self._row(values)
        texts = [
            f"{column.sql} = {place_of(column) if name in values else self._default_of(column)}"
            for name, column in self.table.columns.items()
            if column.writable and column is not self.table.id
        ]
        return Assignments(tuple(texts), [*row.values])

    def _default_of(self, column: Column) -> str:
        if self._postgresql:
            return "default"
        # SQLite has no such word in an update.
        return default_text(self.table.source.columns[column.name])

    def _set(self, column: Column, value: Any) -> _Assignment:
        if column is self.table.id:
            raise BadRequest(f"Invalid key {column.name} in the data: an id never changes")
        return f"{column.sql} = {place_of(column)}", [self._value(column, value)]

    def _take_operators(self, fields: dict[str, Any]) -> dict[str, _Assignment]:
        """Remove the update operators from changes, and return their assignments by column."""
        texts: dict[str, _Assignment] = {}
        for operator in [name for name in fields if name[:1] == "$"]:
            operands: JSONValue = fields.pop(operator)
            operate = _OPERATORS.get(operator)
            if operate is None and operator != "$set":
                names = ", ".join(["$set", *_OPERATORS])
                raise BadRequest(
                    f"Invalid key {shown_name(operator)} in the data: expected one of {names}"
                )
            if not isinstance(operands, Mapping):
                raise BadRequest(f"Invalid value for {operator}: expected an object of fields")
            for name, value in operands.items():
                if operate is None:
                    _add(fields, name, value)
                else:
                    column = self._columns.get(name)
                    if column is None or column is self.table.id or not column.writable:
                        raise BadRequest(
                            f"Invalid value for {operator}: {shown_name(name)!r} cannot be"
                            " changed by it"
                        )
                    _add(texts, name, operate(operator, column, value))
        return texts

    def _with_paths(self, column: Column, tree: _Tree, more: Mapping[str, Any]) -> _Assignment:
        """Return the assignment that sets paths in a JSON column, and merges properties."""
        parameters: list[object] = []
        stored = f"{column.sql}::jsonb" if self._postgresql else column.sql
        text = stored
        if tree:
            set_paths = _set_in_jsonb if self._postgresql else _set_in_json_text
            text = set_paths(stored, tree, parameters)
        elif self._postgresql:
            text = _object_in_jsonb(stored)
        if more:
            parameters.append(column.type.store(more, column.name))
            text = (
                f"{text} || {PLACE}::jsonb"
                if self._postgresql
                else f"alula_json_merge({text}, {PLACE})"
            )
        cast = f"::{column.type.cast}" if self._postgresql else ""
        return f"{column.sql} = ({text}){cast}", parameters


def _add_made(values: dict[str, object], made: list[_Made]) -> None:
    """Add the driver's values that Python makes for columns without one."""
    for column, make in made:
        if column.name not in values:
            values[column.name] = _stored_value(column, make())


def _add(changes: dict[str, Any], name: str, change: object) -> None:
    if name in changes:
        raise _twice(name)
    changes[name] = change


def _twice(name: str) -> BadRequest:
    return BadRequest(f"Invalid key {shown_name(name)} in the data: it changes one place twice")


def _unknown(name: object) -> BadRequest:
    return BadRequest(
        f"Invalid key {shown_name(name)} in the data: there is no such field",
        errors={shown_name(name): "is not there"},
    )


# -- update operators ------------------------------------------------------------------------------


def _computed(operator: str, column: Column, value: Any) -> _Assignment:
    """Return the assignment of ``$inc`` or ``$mul``, to which null is 0."""
    if value is None or column.type.name not in ("integer", "number", "decimal"):
        raise BadRequest(f"Invalid value for {operator}: {column.name!r} and it must be numbers")
    stored = column.type.store(value, column.name)
    sign, function = _COMPUTING[operator]
    if isinstance(column.type, DecimalType) and column.type.dialect == "sqlite":
        whole, scale = column.type.digits
        limits = f"{whole}, {'null' if scale is None else scale}"
        return f"{column.sql} = {function}({column.sql}, {PLACE}, {limits})", [stored]
    return f"{column.sql} = coalesce({column.sql}, 0) {sign} {place_of(column)}", [stored]


def _bounded(operator: str, column: Column, value: Any) -> _Assignment:
    """Return the assignment of ``$min`` or ``$max``, to which every value is beyond null."""
    if value is None or column.type.name in ("json", "array"):
        raise BadRequest(f"Invalid value for {operator}: {column.name!r} has no order for it")
    stored = column.type.store(value, column.name)
    place = place_of(column)
    beyond = ">" if operator == "$min" else "<"
    # least() and greatest() of the two databases differ for null.
    return (
        f"{column.sql} = case when {column.sql} is null or"
        f" {column.sql}{column.type.collation} {beyond} {place} then {place}"
        f" else {column.sql} end",
        [stored, stored],
    )


def _pushed(operator: str, column: Column, value: JSONValue) -> _Assignment:
    """Return the assignment of ``$push``, with a value or ``$each``.

    Raises:
        BadRequest: The column holds no list, or cannot hold a value.
    """
    if column.type.name not in ("json", "array"):
        raise BadRequest(f"Invalid value for {operator}: {column.name!r} is not a list")
    items: list[Any] = [value]
    if isinstance(value, Mapping) and any(str(name)[:1] == "$" for name in value):
        if [*value] != ["$each"] or not is_list(value["$each"]):
            raise BadRequest(f"Invalid value for {operator}: expected a value, or $each alone")
        items = value["$each"]
    stored = column.type.store(items, column.name)
    if column.type.dialect == "sqlite":
        return f"{column.sql} = alula_json_concat({column.sql}, {PLACE})", [stored]
    if column.type.name == "json":
        text = f"coalesce({column.sql}::jsonb, '[]') || {place_of(column)}"
    else:
        text = f"coalesce({column.sql}, '{{}}') || {place_of(column)}"
    return f"{column.sql} = {text}", [stored]


_COMPUTING: Final = {
    "$inc": ("+", "alula_decimal_sum"),
    "$mul": ("*", "alula_decimal_product"),
}
"""By operator: its sign, and the function for the decimals of SQLite, which are text."""

_OPERATORS: Final[Mapping[str, Callable[[str, Column, Any], _Assignment]]] = {
    "$inc": _computed,
    "$mul": _computed,
    "$min": _bounded,
    "$max": _bounded,
    "$push": _pushed,
}


# -- plans for data of one form --------------------------------------------------------------------


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
    made: Sequence[_Made]
    in_order: Callable[[_Values], _Values] | None


class _Rows:
    """Turns data into rows by plans, which are made once for all data of one form.

    Args:
        table: The table.
        made: The values that Python makes for data that does not have them.
        needs_id: Whether the data has to bring an id.
    """

    def __init__(self, table: Table, made: Sequence[_Made], *, needs_id: bool = False) -> None:
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
            values = *changed, *(_stored_value(column, make()) for column, make in made)
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


def _stored_value(column: Column, value: object) -> object:
    """Return the driver's value for one of data, which may be None."""
    return None if value is None else column.type.store(value, column.name)


def _taking(positions: Sequence[int]) -> Callable[[_Values], _Values]:
    """Return what takes the values at some positions as a tuple."""
    # Of a single position, itemgetter would take the value itself; of none, there is no such thing.
    if len(positions) < 2:
        return itemgetter(slice(positions[0], positions[0] + 1))
    return itemgetter(*positions)


# -- JSON paths in changes -------------------------------------------------------------------------


class _Leaf(NamedTuple):
    """The JSON text that a path is set to."""

    text: object


def _add_leaf(tree: _Tree, keys: list[str], leaf: _Leaf) -> bool:
    """Add what a path is set to; False if the tree has something there, or on the way."""
    level: Any = tree
    for key in keys[:-1]:
        level = level.setdefault(key, {})
        if isinstance(level, _Leaf):
            return False
    return level.setdefault(keys[-1], leaf) is leaf


def _set_in_jsonb(value: str, tree: _Tree, parameters: list[object]) -> str:
    """Return the object that a jsonb value becomes by changes; PostgreSQL.

    What is not an object on the way to a changed value becomes one.
    """
    entries: list[str] = []
    for key, inner in tree.items():
        name = literal(key)
        if isinstance(inner, _Leaf):
            parameters.append(inner.text)
            entries.append(f"{name}, {PLACE}::jsonb")
        else:
            entries.append(f"{name}, {_set_in_jsonb(f'{value}->{name}', inner, parameters)}")
    return f"({_object_in_jsonb(value)} || jsonb_build_object({', '.join(entries)}))"


def _object_in_jsonb(value: str) -> str:
    """Return the object that a jsonb value is, an empty one if it is none; PostgreSQL."""
    return f"(case jsonb_typeof({value}) when 'object' then {value} else '{{}}' end)"


def _set_in_json_text(value: str, tree: _Tree, parameters: list[object]) -> str:
    """Return the object that JSON becomes by changes, as `_set_in_jsonb`; SQLite."""
    arguments = [value]
    waiting: list[tuple[list[str], _Tree]] = [([], tree)]
    while waiting:
        path, level = waiting.pop()
        for key, inner in level.items():
            if isinstance(inner, _Leaf):
                parameters.append(inner.text)
                arguments += [literal(json.dumps([*path, key])), PLACE]
            else:
                waiting.append(([*path, key], inner))
    # json_set() of SQLite changes nothing where there is no object on the way.
    return f"alula_json_set({', '.join(arguments)})"
