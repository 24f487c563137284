"""A table with a column of each common type, and its statements run on a database."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType

from sqlalchemy import (
    ARRAY,
    JSON,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    Uuid,
)

from alula.adapters.sql._database import Database
from alula.adapters.sql._options import SQLOptions
from alula.adapters.sql._statement import Statement
from alula.adapters.sql._statements._reads import (
    page_records,
    select_count,
    select_page,
    select_page_and_total,
)
from alula.adapters.sql._statements._shapes import Shapes
from alula.adapters.sql._statements._writes import insert_many
from alula.adapters.sql._tables._ddl import create_statements
from alula.adapters.sql._tables._tables import table_of
from alula.query import Grammar

OPERATORS = "$eq $not $all $elemMatch $like $notlike $ilike $null $contains $overlaps $size $regex"
GRAMMAR = Grammar(operators=OPERATORS.split(), filters={"$search": True})
PATHS = {"data.color": str, "data.n": int, "data.a.b": float, "data.ok": bool, "data.it's": str}


def people():
    """Return a model with a column of each common type."""
    return Table(
        "people",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("name", Text),
        Column("age", Integer),
        Column("score", Double),
        Column("price", Numeric(12, 2)),
        Column("active", Boolean),
        Column("born", Date),
        Column("seen", DateTime(timezone=True)),
        Column("token", Uuid),
        Column("raw", LargeBinary),
        Column("data", JSON(none_as_null=True)),
        Column("tags", ARRAY(Text)),
        Column("marks", ARRAY(Double)),
        Column("city", Text, nullable=False, server_default="Oslo"),
    )


class Store:
    """A table in a database, and the shapes of the statements for it."""

    def __init__(self, database, table, options):
        self.database = database
        self.table = table
        self.shapes = Shapes(table, options)

    async def rows(self, statement, *, writes=False):
        return await self.database.run(statement, 10, writes=writes)

    async def records(self, statement, select=None):
        """Run a statement, or both of two steps, and return the records."""
        read = self.shapes.selection(select).read
        if isinstance(statement, Statement):
            return read(await self.rows(statement, writes=True))
        first = await self.rows(statement.first)
        if not first:
            return []
        return read(statement.ordered(first, await self.rows(statement.second(first), writes=True)))

    async def find(self, **query):
        """Return the ids that a query finds, by each of the statements that read."""
        read = GRAMMAR.read(query)
        shapes = self.shapes
        found = await self.records(select_page(shapes, read), read.select)
        rows = await self.rows(select_page_and_total(shapes, read))
        assert page_records(shapes.selection(read.select), rows) == found
        [[total]] = await self.rows(select_count(shapes, read))
        assert rows[0][-1] == total
        if read.limit is None and not read.skip:
            assert total == len(found)
        return [record["id"] for record in found]

    async def insert(self, *records):
        """Store records and return them."""
        rows = [self.shapes.writer.new_row(record) for record in records]
        stored = [None] * len(rows)
        for positions, statement in insert_many(self.shapes, rows):
            for position, record in zip(positions, await self.records(statement), strict=True):
                stored[position] = record
        return stored


@asynccontextmanager
async def store_of(url, model=None, *, extra=None, **options):
    """Provide the store of a new table."""
    database = Database(url)
    await database.open()
    try:
        model = people() if model is None else model
        for text in create_statements([model], database.dialect):
            await database.execute(text)
        table = await table_of(model, database, extra=extra)
        given = {"grammar": GRAMMAR, "paths": MappingProxyType(options.pop("paths", {}))}
        yield Store(database, table, replace(SQLOptions(**given), **options))
    finally:
        await database.close()
