"""The operands of names in queries: columns, declared JSON paths, properties of other records."""

from __future__ import annotations

import builtins

from alula.adapters.sql._statements._json_paths import json_path, path_text, plain_path
from alula.adapters.sql._statements._list_operands import ArrayOperand, JSONOperand
from alula.adapters.sql._statements._operands import Operand
from alula.adapters.sql._tables._tables import Column, Table

__all__ = ["column_operand", "joined_operand", "path_operand"]


def column_operand(column: Column, table: Table) -> Operand:
    """Return the operand of a column of a table."""
    makes: dict[str, builtins.type[Operand]] = {"array": ArrayOperand, "json": JSONOperand}
    # In `json_each("value")`, a name alone is that of a column of json_each.
    is_ambiguous = table.dialect == "sqlite" and column.type.name == "array"
    sql = f"{table.sql}.{column.sql}" if is_ambiguous else column.sql
    return makes.get(column.type.name, Operand)(
        column.name, sql, column.type, column.nullable, table.dialect
    )


def path_operand(path: str, type: builtins.type, table: Table) -> Operand:
    """Return the operand of a value in a JSON column.

    A value of another type than the declared one counts as null, so that a query never fails for
    what a record holds.

    Args:
        path: A column and keys below it: ``"address.city"``. A first part that is not a column is
            a key in the column of the option ``extra``.
        type: str, int, float or bool.
        table: That of the column.

    Raises:
        ValueError: The path does not lead into a JSON column, or a key has a quote.
    """
    column, keys = json_path(path, table)
    # An index on data->>'key', as people make it, is one of the plain path.
    dialect = table.dialect
    text = path_text(column, keys, type, dialect)
    indexed = plain_path(column, keys) if type is str and dialect == "postgresql" else ""
    return Operand(path, text, table.scalars[type], True, dialect, indexed)


def joined_operand(name: str, key: str, table: Table, field: str, other: Table) -> Operand:
    """Return the operand of a column of the row that a row refers to; null where there is none.

    Args:
        name: Its name in queries: ``author.name``.
        key: The property of ``table`` that holds the id of the other row.
        table: The table of the service.
        field: The property of the other row.
        other: The table of the other row.

    Raises:
        ValueError: A column is not there.
    """
    for property_name, where in ((key, table), (field, other)):
        if property_name not in where.columns:
            raise ValueError(f"relations: {where.name!r} has no column {property_name!r}")
    column = other.columns[field]
    # With an alias of its own: a table may refer to itself.
    sql = (
        f"(select alula_related.{column.sql} from {other.sql} as alula_related"
        f" where alula_related.{other.id.sql} = {table.sql}.{table.columns[key].sql})"
    )
    return Operand(name, sql, column.type, nullable=True, dialect=table.dialect)
