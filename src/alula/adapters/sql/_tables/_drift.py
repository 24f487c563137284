"""Tells where a table, the schema of its records, and the table in the database differ."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from alula._service_object import RecordFields
from alula.adapters.sql._statement import Statement
from alula.adapters.sql._tables._constraints import CATALOGUE_SECONDS, Catalogue
from alula.adapters.sql._tables._declarations import is_declared
from alula.adapters.sql._tables._tables import Table

__all__ = ["check_columns", "check_fields"]

_log = logging.getLogger("alula.sql")

# The name of each column, and whether a new row has to bring a value for it.
_PG_COLUMNS: Final = """
select attname, attnotnull and not atthasdef and attidentity = ''
from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped"""

_SQLITE_COLUMNS: Final = """
select name, "notnull" and dflt_value is null and not hidden and not pk
from pragma_table_xinfo(?1)"""


def check_fields(table: Table, fields: RecordFields, *, creates: bool) -> None:
    """Compare the columns of a table with what a schema says about its records.

    Args:
        table: The table.
        fields: The properties that the schema names.
        creates: Whether the service has a method that stores new records.

    Raises:
        ValueError: A property has no column, or a column needs a value that no data can have.
    """
    unknown = [name for name in fields.stored if name not in table.columns]
    if unknown and table.extra is None:
        raise ValueError(
            f"the table {table.name!r} has no column for {_listed(unknown)} of the schema; add a"
            " column, take the property out of the schema, or give extra= a JSON column"
        )
    if fields.given is None or not creates:
        return
    lacking = [
        column.name
        for column in table.columns.values()
        if column is not table.id
        and column.writable
        and not (column.nullable or column.has_default or column.name in fields.given)
    ]
    if lacking:
        raise ValueError(
            f"the table {table.name!r} needs a value for {_listed(lacking)}, which the schema does"
            " not have; add the property to the schema, or let the column be null or have a default"
        )


async def check_columns(table: Table, database: Catalogue, path: str, *, creates: bool) -> None:
    """Compare the columns of a declared table with those that the database has.

    A table that the database does not have is none of its business: `Database.create` may follow.

    Args:
        table: The table.
        database: The database.
        path: The path of the service, for the log.
        creates: Whether the service has a method that stores new records.

    Raises:
        ValueError: The database lacks a column of the table.
        Exception: An error of the driver.
    """
    if not is_declared(table.source):
        return
    is_postgresql = database.dialect == "postgresql"
    text = _PG_COLUMNS if is_postgresql else _SQLITE_COLUMNS
    name = table.sql if is_postgresql else table.source.name
    rows = await database.run(Statement(text, (name,)), CATALOGUE_SECONDS)

    def same(column: str) -> str:
        return column if is_postgresql else column.lower()

    needs = {same(column): bool(is_needed) for column, is_needed in rows}
    names = table.constraints.properties
    if needs and (missing := [column for column in names if same(column) not in needs]):
        raise ValueError(
            f"the table {table.name!r} of the database has no column {_listed(missing)}, which the"
            " model has; run `alula generate migration` and `alula migrate`, or in development"
            " remove the table and make it anew by `await database.create()`"
        )
    known = {*map(same, names)}
    lacking = [column for column, is_needed in needs.items() if is_needed and column not in known]
    if lacking and creates:
        _log.warning(
            "the service %r cannot create records: the table %r needs a value for %s, which the"
            " model does not have",
            path,
            table.name,
            _listed(lacking),
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
