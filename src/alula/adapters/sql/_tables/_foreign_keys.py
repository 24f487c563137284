"""The foreign keys of tables, declared or read from the catalogue, and those between two tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import sqlalchemy
from sqlalchemy.exc import NoReferenceError

from alula.adapters.sql._names import Dialect

__all__ = [
    "FOREIGN_KEYS",
    "ForeignKey",
    "columns_between",
    "foreign_keys_of",
    "is_action",
    "names_to_compare",
]

FOREIGN_KEYS: Final = "alula_foreign_keys"
"""The key under which ``Table.info`` has the foreign keys that were read from the catalogue.

Each table that was read has it, so that migrations leave such tables alone."""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key.

    Attributes:
        columns: The names of its columns.
        table: The table that it refers to; with its schema, where a name alone means another one.
        targets: The columns there; empty for the primary key, whichever that is.
        acts: Whether the database removes or changes rows when one there is removed or gets
            another key: ``ON DELETE CASCADE`` and the like.
    """

    columns: tuple[str, ...]
    table: str
    targets: tuple[str, ...]
    acts: bool = False


def foreign_keys_of(source: sqlalchemy.Table) -> list[ForeignKey]:
    """Return the foreign keys of a table."""
    keys: list[ForeignKey] = []
    # A set in SQLAlchemy: the order of the columns is the same each time.
    constraints = sorted(source.foreign_key_constraints, key=lambda each: [*each.column_keys])
    for constraint in constraints:
        places = [_place(element) for element in constraint.elements]
        columns = tuple(str(element.parent.name) for element in constraint.elements)
        targets = tuple(column for _, column in places)
        acts = is_action(constraint.ondelete) or is_action(constraint.onupdate)
        keys.append(ForeignKey(columns, places[0][0], targets, acts))
    return [*keys, *source.info.get(FOREIGN_KEYS, ())]


def is_action(word: str | None) -> bool:
    """Tell whether ``ON DELETE`` or ``ON UPDATE`` of a foreign key changes rows."""
    return word is not None and word.upper() not in {"NO ACTION", "RESTRICT"}


def _place(key: sqlalchemy.ForeignKey) -> tuple[str, str]:
    """Return the table and the column that a column refers to."""
    try:
        return str(key.column.table.fullname), str(key.column.name)
    except NoReferenceError:  # the table is not declared, so there are no keys of columns to follow
        table, _, column = key.target_fullname.rpartition(".")
        return table, column


def names_to_compare(source: sqlalchemy.Table, target: sqlalchemy.Table) -> list[str]:
    """Return the names of tables in foreign keys that differ from another table by a schema alone.

    ``users`` and ``shop.users`` are the same table if ``shop`` is on the search path.
    """
    name = f".{target.fullname}"
    others = {key.table for key in foreign_keys_of(source)} - {target.fullname}
    return sorted(
        other for other in others if name.endswith(f".{other}") or f".{other}".endswith(name)
    )


def columns_between(
    source: sqlalchemy.Table,
    target: sqlalchemy.Table,
    id: str,
    dialect: Dialect,
    other_names: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return the columns that refer to the id of another table.

    Of a foreign key of several columns, it is the one that refers to the id: ``author`` of
    ``(tenant, author)``, where ids are those of ``(tenant, id)``.

    Args:
        source: The table of the columns.
        target: The other table.
        id: The column of the other table that holds the id.
        dialect: The dialect of their database.
        other_names: Further names by which foreign keys may call the other table.
    """

    def same(names: Iterable[str]) -> list[str]:
        # SQLite compares names without case, and keeps them as they were written.
        return [name.lower() if dialect == "sqlite" else name for name in names]

    tables = same([target.fullname, *other_names])
    (id_name,) = same([id])
    primary_key = [str(column.name) for column in target.primary_key]
    found: list[str] = []
    for key in foreign_keys_of(source):
        # The order of a primary key of several columns is not that of the table.
        targets = key.targets or (primary_key if len(primary_key) == 1 else ())
        if same([key.table])[0] in tables and id_name in same(targets):
            found.append(key.columns[same(targets).index(id_name)])
    return tuple(dict.fromkeys(found))
