"""`alula migrate`: changes the tables of the database to those of the models."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from alula._cli.application import ApplicationTarget, load_application
from alula._cli.generator.project import find_project
from alula._cli.terminal import (
    EXIT_FAILURE,
    UsageError,
    print_error,
    print_result,
    reporting_errors,
    stdout_to_stderr,
)

if TYPE_CHECKING:
    from alula._cli.migrations import Migrations

__all__ = ["migrate", "open_migrations", "run_on_database"]

T = TypeVar("T")

Revision = Annotated[
    str,
    typer.Option(
        "--to", metavar="REVISION", help="The migration to go to, also back; base for none."
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check", help="Change nothing; fail if the database or the migrations are behind."
    ),
]
Stamp = Annotated[
    bool, typer.Option("--stamp", help="Only note that the database is there already.")
]


def migrate(
    application: ApplicationTarget = "app:app",
    to: Revision = "head",
    check: Check = False,
    stamp: Stamp = False,
) -> None:
    """Run the migrations that the database lacks."""
    with reporting_errors():
        migrations = open_migrations(application)
        if check:
            at_head, as_models = run_on_database(migrations, migrations.is_complete())
            if not at_head:
                print_error("the database lacks migrations; run: alula migrate")
            if not as_models:
                print_error("the models have changed; run: alula generate migration NAME")
            if not (at_head and as_models):
                raise typer.Exit(EXIT_FAILURE)
            print_result("the database and the migrations are as the models")
            return
        steps: list[str] = []
        try:
            run_on_database(migrations, migrations.upgrade(to, stamp=stamp, tell=steps.append))
        finally:
            for step in steps:
                print_result(step)
        if not steps:
            print_result("nothing to do: the database is up to date")


def open_migrations(application: str) -> Migrations:
    """Return the migrations of an application, in the folder `migrations` of its project.

    Raises:
        UsageError: There is no such application, or it has no services on SQL.
        ImportError: Alembic is not installed.
    """
    with stdout_to_stderr():
        app = load_application(application)
    from alula._cli.migrations import Migrations  # noqa: PLC0415  # slow to import

    folder = Path.cwd()
    with suppress(UsageError):  # an application that `alula new` has not created
        folder = find_project(folder).folder
    return Migrations(app, folder / "migrations")


def run_on_database(migrations: Migrations, work: Coroutine[Any, Any, T]) -> T:
    """Run work on the database of an application, and close the database.

    Raises:
        typer.Exit: With 1 if the database cannot be reached or refuses a statement; the reason is
            printed.
        Exception: Whatever else the work raises.
    """
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415  # slow to import

    async def run() -> T:
        try:
            return await work
        finally:
            await migrations.database.close()

    try:
        return asyncio.run(run())
    except DBAPIError as error:
        reason = str(error.orig).partition("\n")[0].partition(": ")[2] or str(error.orig)
        print_error(f"the database refused this, and nothing was changed: {reason}")
        print_error(f"in the statement: {error.statement}")
    except (OSError, sqlite3.Error) as error:
        print_error(f"the database {migrations.database!r} cannot be used: {error}")
    except Exception as error:
        # asyncpg may not be installed.
        if not type(error).__module__.startswith("asyncpg"):
            raise
        print_error(f"the database {migrations.database!r} cannot be used: {error}")
    raise typer.Exit(EXIT_FAILURE)
