"""Changes tables to what the migrations make, and keeps tables of SQLite strict on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy
from alembic.autogenerate import produce_migrations
from alembic.ddl.sqlite import SQLiteImpl
from alembic.operations import Operations, ops
from alembic.runtime.migration import MigrationContext

from alula._cli.migrations.comparison import TypeOp, Words, add_unseen_changes

__all__ = ["ALIGNS", "align", "missing_defaults"]

ALIGNS: Final[dict[str, Any]] = {
    "compare_type": True,
    "render_as_batch": True,  # without effect but on SQLite, see `_Strict`
    "transactional_ddl": True,
}
"""Options of all contexts of Alembic."""


class _Strict(SQLiteImpl):  # pyright: ignore[reportUnusedClass]  # Alembic finds it
    """Takes the place of Alembic's own: tables that are made anew stay strict."""

    __dialect__ = "sqlite"
    transactional_ddl = True

    def prep_table_for_batch(self, batch_impl: Any, table: sqlalchemy.Table) -> None:
        new: sqlalchemy.Table = batch_impl.new_table
        options = new.dialect_options["sqlite"]
        options["strict"] = True
        number = new.autoincrement_column
        options["autoincrement"] = number is not None and number.primary_key
        for check in [*new.constraints]:
            # Checks of a column have its name, see `create_statements`.
            if isinstance(check, sqlalchemy.CheckConstraint):
                name = str(check.name)
                if name in table.columns and name not in new.columns:
                    new.constraints.discard(check)


def align(
    connection: sqlalchemy.Connection,
    target: sqlalchemy.MetaData,
    words: Words,
    *,
    only_look: bool = False,
) -> list[str]:
    """Change the tables of a database to those of ``target``; others stay.

    Args:
        connection: To the database.
        target: The tables.
        words: The words of this database for their checks and defaults.
        only_look: Change nothing, and compare everything in the database.

    Returns:
        The changes in words.
    """

    def is_compared(_object: Any, _name: Any, kind: str, reflected: bool, other: Any) -> bool:
        return only_look or not (reflected and other is None and kind in {"table", "index"})

    context = MigrationContext.configure(connection, opts={**ALIGNS, "include_object": is_compared})
    with connection.begin():
        changes = produce_migrations(context, target).upgrade_ops
        operations = Operations(context)
        told: list[str] = []
        assert changes is not None  # noqa: S101  # Alembic has just made them
        add_unseen_changes(changes, connection, target, words, keeps_types=not only_look)
        for change in changes.ops:
            parts = change.ops if isinstance(change, ops.ModifyTableOps) else [change]
            told += [f"changed: {in_words(part)}" for part in parts]
            if only_look:
                continue
            if isinstance(change, ops.ModifyTableOps):
                with operations.batch_alter_table(change.table_name, schema=change.schema) as batch:
                    for part in change.ops:
                        batch.invoke(part)
            else:
                operations.invoke(change)
        return told


def missing_defaults(changes: ops.UpgradeOps) -> Iterator[str]:
    """Yield the new columns that may not be null and have no value for records that are there."""
    for change in changes.ops:
        for part in getattr(change, "ops", ()):
            if isinstance(part, ops.AddColumnOp):
                column = part.column
                if not column.nullable and column.server_default is None:
                    yield f"{part.table_name}.{column.name}"


def in_words(part: Any) -> str:
    if isinstance(part, TypeOp):
        return part.words
    names = [
        getattr(part, "table_name", None),
        getattr(getattr(part, "column", None), "name", None)
        or getattr(part, "column_name", None)
        or getattr(part, "constraint_name", None)
        or getattr(part, "index_name", None),
    ]
    verb = type(part).__name__.removesuffix("Op")
    return f"{verb} {'.'.join(str(name) for name in names if name)}"
