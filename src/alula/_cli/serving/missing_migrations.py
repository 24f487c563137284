"""Warns if a database lacks migrations of the application that is about to use it."""

from __future__ import annotations

import ast
import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from alula._service import owning_handle
from alula.express import ExpressApplication

__all__ = ["last_migrations", "warn_if_behind", "warn_if_tables_lack_columns"]

_log = logging.getLogger("alula.serve")


async def warn_if_behind(app: object, folder: Path) -> None:
    """Log a warning if the database of an application is not at its last migration.

    Alembic need not be installed for that, and is not imported.

    Args:
        app: The application, which is set up.
        folder: The folder of its migrations.
    """
    sql: Any = sys.modules.get("alula.adapters.sql")
    if sql is None or not isinstance(app, ExpressApplication):
        return
    heads = last_migrations(folder)
    services = [owning_handle(handle).service for handle in app.services.values()]
    databases = {service.database for service in services if isinstance(service, sql.SQLService)}
    for database in databases if heads else ():
        try:
            rows: list[Mapping[str, Any]] = await database.fetch(
                "select version_num from alembic_version"
            )
        except Exception:  # noqa: BLE001  # without the table, and each driver has errors of its own
            rows = []
        missing = heads - {row["version_num"] for row in rows}
        if missing:
            _log.warning(
                "%r is not at the last migration (%s); run: alula migrate",
                database,
                ", ".join(sorted(missing)),
            )


async def warn_if_tables_lack_columns(app: object) -> None:
    """Log a warning for each table that lacks columns of its model: every call would fail.

    In development, missing tables are created, and tables that exist stay as they are.

    Args:
        app: The application, which is set up.
    """
    sql: Any = sys.modules.get("alula.adapters.sql")
    if sql is None or not isinstance(app, ExpressApplication):
        return
    services = [owning_handle(handle).service for handle in app.services.values()]
    for service in services:
        if not isinstance(service, sql.SQLService):
            continue
        missing, table_name = list[str](), ""
        # Each driver has errors of its own; the setup of the service has logged the reason.
        with suppress(Exception):
            table = await service.get_model()
            table_name = table.name
            present = await _columns_of(service.database, table.sql)
            names = [column.name for column in table.source.columns] if present else []
            missing = [name for name in names if name not in present]
        if missing:
            _log.warning(
                "the table %r lacks columns of its model (%s); run: alula generate migration"
                " add_%s, then: alula migrate",
                table_name,
                ", ".join(missing),
                "_".join(missing) if len(missing) == 1 else "columns",
            )


async def _columns_of(database: Any, table: str) -> set[str]:
    """Return the names of a table's columns; none if there is no such table.

    Args:
        database: The database.
        table: The table as SQL, in double quotes.
    """
    name = table.replace("'", "''")
    if database.dialect == "sqlite":
        name = name.strip('"').replace('""', '"')
        statement = f"select name from pragma_table_info('{name}')"  # noqa: S608  # a name of the application
    else:
        statement = (
            f"select attname::text as name from pg_attribute where attrelid = to_regclass('{name}')"  # noqa: S608  # as above
            " and attnum > 0 and not attisdropped"
        )
    return {row["name"] for row in await database.fetch(statement)}


def last_migrations(folder: Path) -> set[str]:
    """Return the migrations of a folder that no other one follows."""
    revisions: set[str] = set()
    followed: set[str] = set()
    for path in folder.glob("*.py"):
        values = constants_of(path)
        if isinstance(values.get("revision"), str):
            revisions.add(values["revision"])
            before = values.get("down_revision") or ()
            followed |= {before} if isinstance(before, str) else set(before)
    return revisions - followed


def constants_of(path: Path) -> dict[str, Any]:
    """Return the constants of a module by name, without running it."""
    found: dict[str, Any] = {}
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError):
        return {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value)
            ) if name in {"revision", "down_revision"}:
                found[name] = ast.literal_eval(value)
            case _:
                pass
    return found
