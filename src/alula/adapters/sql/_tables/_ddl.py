"""Statements that create missing tables, for development and tests."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final, cast

import sqlalchemy
from sqlalchemy import schema, types
from sqlalchemy.dialects.postgresql import CreateEnumType
from sqlalchemy.dialects.sqlite.base import (
    SQLiteDialect,
    SQLiteIdentifierPreparer,
    SQLiteTypeCompiler,
)

from alula.adapters.sql._columns._number_types import IntegerType, NumberType
from alula.adapters.sql._columns._sqlalchemy_types import (
    ENGINE_DIALECTS,
    column_type,
    database_type,
)
from alula.adapters.sql._names import Dialect
from alula.adapters.sql._tables._declarations import Declaration, one_of_each, table_key

__all__ = ["create_statements", "default_text"]

_MAX_FLOAT: Final = sys.float_info.max

_STORAGE: Final = {"integer": "INTEGER", "boolean": "INTEGER", "number": "REAL", "bytes": "BLOB"}
"""By name of a column type: what SQLite keeps; all others are TEXT."""

_NOW_OF_OTHERS: Final = frozenset({"CURRENT_TIMESTAMP", "NOW()"})
_NOW: Final = "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"
"""The time in the form of timestamps on SQLite; CURRENT_TIMESTAMP lacks the fraction."""

_BOOLEANS: Final = {"false": "0", "true": "1"}
"""Defaults that PostgreSQL reads from text; SQLite would keep the text itself."""


def create_statements(
    tables: Iterable[sqlalchemy.Table], dialect: Dialect, others: Iterable[Declaration] = ()
) -> list[str]:
    """Return the statements that create tables, types and indexes that are not there.

    On SQLite, tables are strict: no column takes a value of another type, and ids of removed
    records are not given again.

    Args:
        tables: The tables. Those that they refer to are created as well.
        dialect: The dialect of the database.
        others: Further declarations of these tables, which are created as the best one says.

    Returns:
        The statements; a table comes after those that it refers to.

    Raises:
        ValueError: Two declarations of a table contradict each other.
    """
    ordered = in_order(with_referenced(tables), dialect, others)
    if dialect == "postgresql":
        types_ = dict.fromkeys(text for table in ordered for text in enum_types(table))
        return [*types_, *_of_tables(ordered, ENGINE_DIALECTS[dialect])]
    metadata = sqlalchemy.MetaData(naming_convention=naming_convention(ordered))
    return _of_tables(
        [strict_copy(table.to_metadata(metadata)) for table in ordered], _StrictDialect()
    )


def naming_convention(tables: Iterable[sqlalchemy.Table]) -> Any:
    """Return the naming convention for copies of tables, None if theirs is SQLAlchemy's own.

    Copies get the names of their constraints from the new `MetaData`. The table of a Pydantic model
    has none to give.
    """
    plain = sqlalchemy.MetaData().naming_convention
    conventions = (table.metadata.naming_convention for table in tables)
    return next((each for each in conventions if each != plain), None)


def with_referenced(tables: Iterable[sqlalchemy.Table]) -> list[sqlalchemy.Table]:
    found = dict.fromkeys(tables)
    waiting = [*found]
    while waiting:
        targets = {key.column.table for key in waiting.pop(0).foreign_keys}
        # Sorted: statements do not depend on the order of a set.
        new = sorted(targets - found.keys(), key=lambda table: table.fullname)
        found |= dict.fromkeys(new)
        waiting += new
    return list(found)


def in_order(
    tables: Iterable[sqlalchemy.Table], dialect: Dialect, others: Iterable[Declaration]
) -> list[sqlalchemy.Table]:
    """Return one declaration of each table, after those of the tables that it refers to."""
    wanted = [Declaration(table) for table in tables]
    keys = {table_key(each.table, dialect) for each in wanted}
    same = [each for each in others if table_key(each.table, dialect) in keys]
    # `others` first: they say which service a declaration is of.
    chosen = one_of_each([*same, *wanted], dialect)
    by_key = {table_key(table, dialect): table for table in chosen}
    # A foreign key may lead to a declaration that was not chosen.
    first = [
        (target, table)
        for table in chosen
        for key in table.foreign_keys
        if (target := by_key[table_key(key.column.table, dialect)]) is not key.column.table
        and target is not table
    ]
    return schema.sort_tables(chosen, extra_dependencies=first)


def _of_tables(tables: list[sqlalchemy.Table], dialect: sqlalchemy.Dialect) -> list[str]:
    statements: list[schema.ExecutableDDLElement] = []
    for table in tables:
        statements.append(schema.CreateTable(table, if_not_exists=True))
        statements += [
            schema.CreateIndex(index, if_not_exists=True)
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        ]
    return [str(statement.compile(dialect=dialect)).strip() for statement in statements]


# -- PostgreSQL ------------------------------------------------------------------------------------


def enum_types(table: sqlalchemy.Table) -> Iterable[str]:
    for column in table.columns:
        type_ = database_type(column.type, "postgresql")
        if isinstance(type_, types.ARRAY):
            # Pyright calls the items unknown after `isinstance`, and mypy a cast redundant.
            type_ = type_.item_type  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # as above
        if isinstance(type_, types.Enum) and type_.native_enum:
            dialect = ENGINE_DIALECTS["postgresql"]
            named = type_.dialect_impl(dialect)
            create = CreateEnumType(cast("Any", named)).compile(dialect=dialect)
            # CREATE TYPE has no IF NOT EXISTS.
            yield (
                f"do $alula$ begin {str(create).strip()};"
                " exception when duplicate_object then null; end $alula$"
            )


# -- SQLite ----------------------------------------------------------------------------------------


class StrictTypes(SQLiteTypeCompiler):
    """Writes the types that strict tables have."""

    def process(self, type_: types.TypeEngine[Any], **_options: object) -> str:
        return _STORAGE.get(column_type(type_, "sqlite").name, "TEXT")


class AllQuoted(SQLiteIdentifierPreparer):
    def _requires_quotes(self, value: str) -> bool:  # noqa: ARG002  # SQLAlchemy's
        # SQLAlchemy's list of reserved words lacks some, such as "nothing".
        return True


class _StrictDialect(SQLiteDialect):
    type_compiler_cls = StrictTypes
    preparer = AllQuoted
    supports_statement_cache = True


def check_of(
    column: sqlalchemy.Column[Any], type_: types.TypeEngine[Any]
) -> sqlalchemy.ColumnElement[bool] | None:
    """Return what values of a column must meet, besides the type that SQLite has for them."""
    text = sqlalchemy.type_coerce(column, types.Text())
    number = sqlalchemy.type_coerce(column, types.Integer())
    if isinstance(type_, types.Boolean):
        return number.in_([0, 1])
    if isinstance(type_, types.Enum):
        return text.in_(type_.enums)
    if isinstance(type_, types.String):
        return None if type_.length is None else sqlalchemy.func.length(text) <= type_.length
    kind = column_type(type_, "sqlite")
    if isinstance(kind, IntegerType) and not column.primary_key and kind.end < 1 << 63:
        # For $inc, which is computed in the database: PostgreSQL refuses what is beyond.
        return number.between(-kind.end, kind.end - 1)
    if isinstance(kind, NumberType):
        double: types.Double[Any] = types.Double()
        return sqlalchemy.type_coerce(column, double).between(-_MAX_FLOAT, _MAX_FLOAT)
    return None


def strict_copy(table: sqlalchemy.Table) -> sqlalchemy.Table:
    """Change a copy of a table into a strict one, with checks of what types do not say."""
    options = table.dialect_options["sqlite"]
    # Without AUTOINCREMENT, a new record gets the id of a removed last one.
    options["strict"] = True
    number = table.autoincrement_column
    options["autoincrement"] = number is not None and number.primary_key
    for column in table.columns:
        type_ = database_type(column.type, "sqlite")
        check = check_of(column, type_)
        if check is not None:
            # SQLite names the constraint in its errors, and so they name the field.
            table.append_constraint(sqlalchemy.CheckConstraint(check, name=column.name))
        if isinstance(column.server_default, sqlalchemy.Identity):
            # AUTOINCREMENT does it here. Alembic would take it for a default that has changed.
            column.server_default = column.identity = None
        default = changed_default(column)
        if default is not None:
            column.server_default = schema.DefaultClause(sqlalchemy.text(default))
    return table


def changed_default(column: sqlalchemy.Column[Any]) -> str | None:
    """Return the default of a column on SQLite where its own text would be another there."""
    type_ = database_type(column.type, "sqlite")
    default = column.server_default
    text = str(default.arg) if isinstance(default, schema.DefaultClause) else ""
    if isinstance(type_, types.DateTime) and text.upper() in _NOW_OF_OTHERS:
        return _NOW
    return _BOOLEANS.get(text.lower()) if isinstance(type_, types.Boolean) else None


def default_text(column: sqlalchemy.Column[Any]) -> str:
    """Return the default of a column as SQL of SQLite."""
    default = column.server_default
    if not isinstance(default, schema.DefaultClause):
        return "null"
    text = changed_default(column) or default.arg
    if isinstance(text, str) and text is default.arg:
        return "'" + text.replace("'", "''") + "'"
    return f"({text})"
