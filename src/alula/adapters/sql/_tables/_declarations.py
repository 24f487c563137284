"""Several declarations of one table: which of them describes it, and which contradict each other.

A ``Table`` of SQLAlchemy or a mapped class says what the whole table is. A Pydantic model may show
some of its columns only, so a ``Table`` wins over it, and a larger model wins over a smaller one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy
from sqlalchemy import schema

from alula.adapters.sql._columns._sqlalchemy_types import column_type
from alula.adapters.sql._names import Dialect
from alula.adapters.sql._tables._foreign_keys import FOREIGN_KEYS, foreign_keys_of

__all__ = ["MODEL", "Declaration", "is_declared", "one_of_each", "table_key"]

MODEL: Final = "alula_model"
"""The key under which ``Table.info`` has the Pydantic model that a table was made from."""

_ALIKE: Final = (
    frozenset({"timestamp", "local_timestamp"}),
    frozenset({"text", "enum"}),
)
"""Names of column types that one column may have in a `Table` and in a model."""


class Declaration(NamedTuple):
    """What a service, or the metadata of its table, says about a table.

    Attributes:
        table: The table.
        owner: What declares it, for errors: ``the service 'users'``.
    """

    table: sqlalchemy.Table
    owner: str = ""

    def __str__(self) -> str:
        model = self.table.info.get(MODEL)
        what = "a Table of SQLAlchemy" if model is None else f"the model {model.__name__}"
        return f"{self.owner} ({what})" if self.owner else what


def is_declared(table: sqlalchemy.Table) -> bool:
    """Tell whether the application describes a table, instead of reading it from the database."""
    return FOREIGN_KEYS not in table.info


def table_key(table: sqlalchemy.Table, dialect: Dialect) -> str:
    """Return a text that is the same for all declarations of one table."""
    # SQLite compares names without case.
    return table.fullname.lower() if dialect == "sqlite" else table.fullname


def one_of_each(declarations: Iterable[Declaration], dialect: Dialect) -> list[sqlalchemy.Table]:
    """Return one table for each name, in the order of the first declarations.

    Args:
        declarations: All declarations, in an order that is always the same.
        dialect: The dialect of the database.

    Raises:
        ValueError: Two declarations contradict each other.
    """
    by_name: dict[str, dict[sqlalchemy.Table, Declaration]] = {}
    for declaration in declarations:
        same = by_name.setdefault(table_key(declaration.table, dialect), {})
        same.setdefault(declaration.table, declaration)
    return [_best([*same.values()], dialect) for same in by_name.values()]


def _best(same: Sequence[Declaration], dialect: Dialect) -> sqlalchemy.Table:
    best = max(same, key=_rank)  # the first of equals
    for other in same:
        if other is not best and (difference := _difference(best, other, dialect)):
            raise ValueError(
                f"two declarations of the table {best.table.fullname!r} contradict each other:"
                f" {best} and {other}: {difference}; give both services the same Table"
            )
    return best.table


def _rank(declaration: Declaration) -> tuple[bool, int]:
    return MODEL not in declaration.table.info, len(declaration.table.columns)


def _difference(best: Declaration, other: Declaration, dialect: Dialect) -> str | None:
    """Return what another declaration says that the best one does not, None if nothing."""
    columns, others = columns_of(best.table), columns_of(other.table)
    if unknown := [name for name in others if name not in columns]:
        return f"only the second has {_names(unknown)}"
    if MODEL in other.table.info:
        # Beside a Table, the column of a model needs values that the Table's column can have.
        same = _same_columns if MODEL in best.table.info else _alike
    elif missing := [name for name in columns if name not in others]:
        return f"only the first has {_names(missing)}"
    else:
        same = _same_columns
    different = [name for name in others if not same(columns[name], others[name], dialect)]
    if different:
        return f"they differ in {_names(different)}"
    if MODEL not in other.table.info and _constraints(best.table) != _constraints(other.table):
        return "they differ in constraints or indexes"
    return None


def columns_of(table: sqlalchemy.Table) -> Mapping[str, sqlalchemy.Column[Any]]:
    """Return the columns of a table by their names in the database."""
    return {str(column.name): column for column in table.columns}


def _names(names: Iterable[str]) -> str:
    return f"the column {', '.join(map(repr, names))}"


def _same_columns(
    left: sqlalchemy.Column[Any], right: sqlalchemy.Column[Any], dialect: Dialect
) -> bool:
    del dialect
    return _shape(left) == _shape(right)


def _shape(column: sqlalchemy.Column[Any]) -> tuple[object, ...]:
    default = column.server_default
    text = str(default.arg) if isinstance(default, schema.DefaultClause) else None
    return repr(column.type), column.nullable, column.primary_key, text


def _alike(left: sqlalchemy.Column[Any], right: sqlalchemy.Column[Any], dialect: Dialect) -> bool:
    types = [column_type(column.type, dialect) for column in (left, right)]
    names = {type_.name for type_ in types}
    if len(names) > 1 and not any(names <= group for group in _ALIKE):
        return False
    # PostgreSQL does not turn text into a type that was created, such as an enum.
    return "enum" not in names or types[0].cast == types[1].cast


def _constraints(table: sqlalchemy.Table) -> set[object]:
    """Return the constraints and indexes of a table, to be compared with those of another one."""
    found: set[object] = {(key.columns, key.table, key.targets) for key in foreign_keys_of(table)}
    for constraint in table.constraints:
        if isinstance(constraint, sqlalchemy.CheckConstraint):
            found.add(str(constraint.sqltext))
        elif isinstance(constraint, sqlalchemy.UniqueConstraint):
            found.add(("unique", *sorted(str(column.name) for column in constraint.columns)))
    for index in table.indexes:
        found.add((str(index.name), bool(index.unique), *map(str, index.expressions)))
    return found
