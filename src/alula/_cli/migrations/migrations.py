"""`Migrations`: writes the migrations of an application, and runs them.

A new migration is the difference between the models and an empty scratch database on which all
migrations so far have run. So it does not depend on what the database of development is like.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import sqlalchemy
from alembic import command, util
from alembic.config import Config
from alembic.operations import ops
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from alula._cli.application import Application
from alula._cli.migrations.alignment import ALIGNS, align, missing_defaults
from alula._cli.migrations.comparison import (
    Words,
    add_unseen_changes,
    create_tables,
    read_words,
    separate_types,
)
from alula._cli.terminal import UsageError
from alula._service import owning_handle
from alula.adapters.sql import Database, SQLService
from alula.adapters.sql._engine import run_in_scratch, run_with_engine, tables_for_migrations
from alula.adapters.sql._tables._declarations import Declaration
from alula.configuration import environment_name

__all__ = ["Migrations"]

_LISTED: Final = "metadata"
"""The setting with tables that no service has: a ``MetaData``, or a list of them."""


class Migrations:
    """The migrations of one application.

    Args:
        app: The application, which is not set up.
        folder: The folder of the migrations.

    Raises:
        UsageError: No service of the application is on a table, or they use several databases.
    """

    def __init__(self, app: Application, folder: Path) -> None:
        # By path, in the order of registration: what is written must not depend on that of a set.
        self._services: dict[str, SQLService] = {}
        for service_path, handle in app.services.items():
            service = owning_handle(handle).service
            if isinstance(service, SQLService):
                self._services[service_path] = service
        databases = {service.database for service in self._services.values()}
        if len(databases) != 1:
            raise UsageError(
                "migrations are for services on SQL, and this application has none"
                if not databases
                else f"the services use {len(databases)} databases; migrations are for one"
            )
        (self._database,) = databases
        self._folder = folder
        listed: Any = app.get(_LISTED) or []
        self._listed: list[sqlalchemy.MetaData] = (
            [listed] if isinstance(listed, sqlalchemy.MetaData) else [*listed]
        )
        self._config = Config()
        # A percent sign begins an interpolation.
        locations = {"script_location": Path(__file__).parent, "version_locations": folder}
        for name, path in locations.items():
            self._config.set_main_option(name, str(path).replace("%", "%%"))
        self._config.set_main_option("version_path_separator", "os")
        self._config.set_main_option("path_separator", "os")
        self._config.set_main_option("file_template", "%%(rev)s_%%(slug)s")

    @property
    def database(self) -> Database:
        """The database of the services."""
        return self._database

    def heads(self) -> list[str]:
        """Return the last migrations: one, unless two follow the same one.

        Raises:
            UsageError: Two follow the same one.
        """
        with _alembic_errors():
            heads = ScriptDirectory.from_config(self._config).get_heads()
        if len(heads) > 1:
            raise UsageError(
                f"the migrations {' and '.join(heads)} follow the same one; set down_revision of"
                " the later one to the other"
            )
        return [*heads]

    async def generate(self, name: str) -> tuple[Path, list[str]] | None:
        """Write the migration from the last one to the models.

        Args:
            name: What it does, in words.

        Returns:
            The file, and the columns that records which are there cannot have; None if there is
            nothing to change.

        Raises:
            UsageError: The migrations so far cannot be run.
        """
        target = await self._tables()
        words = await self._words(target)
        self.heads()
        self._folder.mkdir(exist_ok=True)
        lacking: list[str] = []

        connections: list[sqlalchemy.Connection] = []

        def revise(_context: object, _revision: object, directives: list[Any]) -> None:
            changes = directives[0].upgrade_ops
            add_unseen_changes(changes, connections[0], target, words)
            directives[0].downgrade_ops = changes.reverse()
            if changes.is_empty():
                directives.clear()
                return
            lacking.extend(missing_defaults(changes))
            # `Database.create` may have created them in development.
            for change in changes.ops:
                for each in getattr(change, "ops", [change]):
                    if isinstance(each, ops.CreateTableOp | ops.CreateIndexOp):
                        each.if_not_exists = True

        def write(connection: sqlalchemy.Connection) -> Path | None:
            connections.append(connection)
            with self._running(connection, target):
                command.upgrade(self._config, "head")
            now = datetime.now(UTC)  # with hundredths: scripts may write two in one second
            revision = f"{now:%Y%m%d%H%M%S}{now.microsecond // 10_000:02}"
            with self._running(connection, target, revise):
                script = command.revision(self._config, name, autogenerate=True, rev_id=revision)
            return Path(script.path) if script and not isinstance(script, list) else None

        path = await run_in_scratch(self._database, write)
        return None if path is None else (path, lacking)

    async def upgrade(self, to: str, *, stamp: bool, tell: Callable[[str], None]) -> None:
        """Run the migrations that the database lacks, or undo those after one.

        In development, tables that `Database.create` has created are changed to what the
        migrations make.

        Args:
            to: The migration to go to, ``head`` for the last one, ``base`` for none.
            stamp: Only note that the database is there already.
            tell: Is called with each step.

        Raises:
            UsageError: There are no migrations, or the database has tables which none has made.
        """
        if not self.heads():
            raise UsageError(
                f"there are no migrations in {self._folder}; `alula generate migration initial`"
                " writes the first one"
            )
        tables = await self._tables()
        develops = to == "head" and environment_name() == "development"
        made = await run_in_scratch(self._database, self._made) if develops else None

        def work(connection: sqlalchemy.Connection) -> None:
            context = MigrationContext.configure(connection)
            current = context.get_current_heads()
            existing = sqlalchemy.inspect(connection).get_table_names()
            connection.rollback()
            found = sorted(table.name for table in tables.tables.values() if table.name in existing)
            with _alembic_errors():
                if stamp or (found and not current and made is not None):
                    with self._running(connection, tables):
                        command.stamp(self._config, to)
                    tell(f"noted that the database is at {to}")
                elif found and not current:
                    raise UsageError(
                        f"the database has tables ({', '.join(found)}) that no migration has made;"
                        " if they are as after one of them, note that: alula migrate --stamp --to"
                        " REVISION"
                    )
                else:
                    self._go(connection, tables, current, to, tell)
            if made is not None and not stamp:
                for change in align(connection, *made):
                    tell(change)

        await run_with_engine(self._database, work)
        if to == "head":
            # Tables that were made anew have lost their triggers.
            searching = [service for service in self._services.values() if service.searched_columns]
            if searching:
                await self._database.create(*searching)

    async def is_complete(self) -> tuple[bool, bool]:
        """Tell whether the database is at the last migration, and that is as the models."""
        heads = set(self.heads())
        target = await self._tables()
        words = await self._words(target)
        current = await run_with_engine(
            self._database,
            lambda connection: set(MigrationContext.configure(connection).get_current_heads()),
        )

        def differs(connection: sqlalchemy.Connection) -> bool:
            with self._running(connection, target):
                command.upgrade(self._config, "head")
            return bool(align(connection, target, words, only_look=True))

        return current == heads, not await run_in_scratch(self._database, differs)

    def _made(self, connection: sqlalchemy.Connection) -> tuple[sqlalchemy.MetaData, Words]:
        """Return the tables that migrations make on an empty database, and its words for them."""
        with self._running(connection, sqlalchemy.MetaData()):
            command.upgrade(self._config, "head")
        made = sqlalchemy.MetaData()
        made.reflect(connection)
        made.remove(made.tables["alembic_version"])
        for table in made.tables.values():
            table.dialect_options["sqlite"]["strict"] = True
        separate_types(made)
        return made, read_words(connection, made.sorted_tables)

    async def _words(self, target: sqlalchemy.MetaData) -> Words:
        """Return the words that this kind of database has for the models."""
        return await run_in_scratch(
            self._database, lambda connection: create_tables(connection, target)
        )

    def _go(
        self,
        connection: sqlalchemy.Connection,
        tables: sqlalchemy.MetaData,
        current: Iterable[str],
        to: str,
        tell: Callable[[str], None],
    ) -> None:
        directory = ScriptDirectory.from_config(self._config)
        behind = {script.revision for script in directory.iterate_revisions(tuple(current), "base")}
        goal = directory.get_revision(to)
        run = command.upgrade
        if to == "base" or (goal is not None and goal.revision in behind - {*current}):  # pyright: ignore[reportUnnecessaryComparison]  # "base" has none
            run = command.downgrade

        def applied(step: Any, **_: object) -> None:
            for revision in step.up_revisions:
                tell(f"{'ran' if step.is_upgrade else 'undid'} {revision.revision} {revision.doc}")

        with self._running(connection, tables, applied=applied):
            run(self._config, to)

    async def _tables(self) -> sqlalchemy.MetaData:
        declarations = [
            Declaration((await service.get_model()).source, f"the service {path!r}")
            for path, service in self._services.items()
        ]
        declarations += [
            Declaration(table, "the setting 'metadata'")
            for each in self._listed
            for table in each.sorted_tables
        ]
        try:
            return tables_for_migrations(declarations, self._database)
        except ValueError as error:
            raise UsageError(str(error)) from None

    @contextmanager
    def _running(
        self,
        connection: sqlalchemy.Connection,
        target: sqlalchemy.MetaData,
        revise: Callable[..., None] | None = None,
        applied: Callable[..., None] | None = None,
    ) -> Generator[None]:
        """Have Alembic's commands use a connection."""

        def run(context: Any) -> None:
            context.configure(
                connection=connection,
                target_metadata=target,
                process_revision_directives=revise,
                on_version_apply=applied,
                **ALIGNS,
            )
            with context.begin_transaction():
                context.run_migrations()

        self._config.attributes["run"] = run
        with _alembic_errors(), redirect_stdout(io.StringIO()):  # Alembic's own remarks
            yield
        connection.rollback()  # what autogenerate has only read


@contextmanager
def _alembic_errors() -> Generator[None]:
    try:
        yield
    except util.CommandError as error:
        raise UsageError(str(error)) from None
