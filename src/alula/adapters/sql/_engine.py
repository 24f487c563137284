"""SQLAlchemy's connections to a `Database`, for migrations; services use none of them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool, StaticPool

from alula.adapters.sql._database import Database
from alula.adapters.sql._names import quoted
from alula.adapters.sql._tables._ddl import AllQuoted, StrictTypes, copies
from alula.adapters.sql._tables._declarations import Declaration, is_declared, one_of_each

__all__ = ["run_in_scratch", "run_with_engine", "tables_for_migrations"]

_Result = TypeVar("_Result")
Work = Callable[[sqlalchemy.Connection], _Result]


class StrictSQLite(SQLiteDialect_pysqlite):
    """Writes tables as `Database.create` does: strict, with all names quoted."""

    type_compiler_cls = StrictTypes
    preparer = AllQuoted
    supports_statement_cache = True


registry.register("sqlite.alula", __name__, StrictSQLite.__name__)


def tables_for_migrations(
    declarations: Iterable[Declaration], database: Database
) -> sqlalchemy.MetaData:
    """Return copies of tables as `Database.create` creates them on this database.

    Tables that were read from the database are left out: something else has made them. With a
    table come all others of its ``MetaData``.

    Args:
        declarations: The tables of services, then others.
        database: The database.

    Raises:
        ValueError: Two declarations of a table contradict each other.
    """
    # Services come first: they say which of them has a declaration that contradicts another.
    wanted = [each for each in declarations if is_declared(each.table)]
    wanted += [Declaration(table) for each in wanted for table in each.table.metadata.sorted_tables]
    own = one_of_each(wanted, database.dialect)
    return copies(sorted(own, key=lambda table: table.fullname), database.dialect)


async def run_with_engine(
    database: Database, work: Work[_Result], scratch: str | None = None
) -> _Result:
    """Run a function with a connection of SQLAlchemy to the database.

    Args:
        database: The database.
        work: The function.
        scratch: As for `Database.connect_once`.

    Raises:
        Exception: Whatever the function raises, or an error of the driver.
    """
    raw = await database.connect_once(scratch)
    if database.dialect == "sqlite":
        # Tables are made anew under another name: that must not remove what refers to them.
        raw.execute("pragma foreign_keys = off")
        try:
            return run_on_sqlite(raw, work)
        finally:
            raw.close()

    async def connect() -> Any:
        return raw

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()
        await raw.close()


def run_on_sqlite(raw: Any, work: Work[_Result]) -> _Result:
    engine = sqlalchemy.create_engine(
        "sqlite+alula://", creator=lambda: raw, poolclass=StaticPool, isolation_level=None
    )

    # The standard library would begin a transaction before INSERT only, and not before DDL.
    @event.listens_for(engine, "begin")
    def begin(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("begin immediate")

    with engine.connect() as connection:
        return work(connection)


async def run_in_scratch(database: Database, work: Work[_Result]) -> _Result:
    """Run a function with a connection to an empty database, which is removed after that.

    On PostgreSQL that is a new database on the same server, on SQLite one in memory.

    Args:
        database: The database.
        work: The function.

    Raises:
        Exception: Whatever the function raises, or an error of the driver.
    """
    name = f"alula_scratch_{secrets.token_hex(4)}"
    if database.dialect == "sqlite":
        return await run_with_engine(database, work, name)
    await database.execute(f"create database {quoted(name)}")
    try:
        made = await database.connect_once(name)
        # The URL may set a search path, and the schemas on it are not there.
        path = str(await made.fetchval("show search_path"))
        for schema in (part.strip().strip('"') for part in path.split(",")):
            if schema not in {"", "$user", "public"}:
                await made.execute(f"create schema if not exists {quoted(schema)}")
        await made.close()
        return await run_with_engine(database, work, name)
    finally:
        await database.execute(f"drop database {quoted(name)} with (force)")
