"""Plain statements for tests of what tables and column types give to the rest of the adapter."""

from __future__ import annotations

from typing import Any

import sqlalchemy

from alula.adapters.sql._database import Database
from alula.adapters.sql._statement import Statement
from alula.adapters.sql._tables._ddl import create_statements
from alula.adapters.sql._tables._tables import Column, Table, table_of


async def created(database: Database, *tables: sqlalchemy.Table) -> list[Table]:
    """Create tables and return them as the adapter sees them."""
    for text in create_statements(tables, database.dialect):
        await database.execute(text)
    return [await table_of(table, database) for table in tables]


def place(column: Column, number: int) -> str:
    """Return the place of a parameter for a column."""
    return f"${number}::{column.type.cast}" if column.type.cast else f"?{number}"


async def insert(database: Database, table: Table, record: dict[str, Any]) -> dict[str, Any]:
    """Store a record and return it as it comes back."""
    columns = [table.columns[name] for name in record]
    names = ", ".join(column.sql for column in columns)
    places = ", ".join(place(column, at) for at, column in enumerate(columns, 1))
    values = tuple(
        None if record[column.name] is None else column.type.store(record[column.name], column.name)
        for column in columns
    )
    text = f"insert into {table.sql} ({names}) values ({places}) returning {selected(table)}"
    rows = await database.run(Statement(text, values), 10, writes=True)
    return read(table, rows[0])


def selected(table: Table) -> str:
    """Return the list of what to select for `read`."""
    columns = table.columns.values()
    return ", ".join(
        column.sql if column.type.select is None else column.type.select(column.sql)
        for column in columns
    )


def read(table: Table, row: Any) -> dict[str, Any]:
    """Return the record of a row."""
    return {
        column.name: value
        if value is None or column.type.from_driver is None
        else column.type.from_driver(value)
        for column, value in zip(table.columns.values(), row, strict=True)
    }


async def records(database: Database, table: Table, field: str | None = None) -> list[Any]:
    """Return all records, sorted by a field."""
    order = "" if field is None else f" order by {table.columns[field].sql}"
    order += "" if field is None else table.columns[field].type.collation
    text = f"select {selected(table)} from {table.sql}{order}"
    return [read(table, row) for row in await database.run(Statement(text), 10)]


async def ids_where(
    database: Database, table: Table, field: str, operator: str, value: object
) -> set[int]:
    """Return the ids of the records that meet one comparison."""
    column = table.columns[field]
    comparison = column.type.comparison(operator, value, field)
    if isinstance(comparison, bool):
        text, parameters = f"{column.sql} is not null and {str(comparison).lower()}", ()
    else:
        is_equality = operator in ("$eq", "$ne")
        suffix = column.type.equality if is_equality else column.type.collation
        text = f"{column.sql}{suffix} {comparison[0]} {place(column, 1)}"
        parameters = (comparison[1],)
    rows = await database.run(
        Statement(f"select {table.id.sql} from {table.sql} where {text}", parameters), 10
    )
    return {row[0] for row in rows}
