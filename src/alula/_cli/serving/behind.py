"""Warns if a database lacks migrations of the application that is about to use it."""

from __future__ import annotations

import ast
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alula._service import owning_handle
from alula.express import ExpressApplication

__all__ = ["last_migrations", "warn_if_behind"]

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
