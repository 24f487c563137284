"""Statements that create missing tables, for development and tests."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import Any, Final

import sqlalchemy
from sqlalchemy import schema, types
from sqlalchemy.dialects import postgresql
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

__all__ = [
    "AllQuoted",
    "StrictTypes",
    "checks_of",
    "copies",
    "create_enum",
    "create_statements",
    "default_text",
    "enums_of",
    "existing_enum",
    "literal",
]

_MAX_FLOAT: Final = sys.float_info.max

_STORAGE: Final = {"integer": "INTEGER", "boolean": "INTEGER", "number": "REAL", "bytes": "BLOB"}
"""By name of a column type: what SQLite keeps; all others are TEXT."""

_NOW_OF_OTHERS: Final = frozenset({"CURRENT_TIMESTAMP", "NOW()"})
_NOW: Final[dict[Dialect, str]] = {
    # In the form of timestamps on SQLite; CURRENT_TIMESTAMP lacks the fraction.
    "sqlite": "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))",
    "postgresql": "date_trunc('milliseconds', now())",
}
"""The time as JSON has it. With more digits, no client could name the time of a record."""

_NAMES: Final[dict[str, str]] = {
    "uq": "%(table_name)s_%(column_0_N_name)s_key",
    "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
}
"""The names that PostgreSQL gives to constraints without one, also for SQLite, which gives none."""

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
    metadata = copies(ordered, dialect)
    made = [metadata.tables[table.key] for table in ordered]
    if dialect == "sqlite":
        return _of_tables(made, _StrictDialect())
    types_ = dict.fromkeys(text for table in made for text in enum_types(table))
    return [*types_, *_of_tables(made, ENGINE_DIALECTS[dialect])]


def copies(tables: Sequence[sqlalchemy.Table], dialect: Dialect) -> sqlalchemy.MetaData:
    """Return copies of tables as they are created on a database.

    All constraints have names, by which a migration can drop them. On PostgreSQL the types of enums
    are not part of their tables, so that a migration can create them before and drop them after.
    """
    # Copies get the names of their constraints from the new `MetaData`. The table of a Pydantic
    # model has none to give.
    plain = sqlalchemy.MetaData().naming_convention
    conventions = (table.metadata.naming_convention for table in tables)
    given: Any = next((each for each in conventions if each != plain), plain)
    metadata = sqlalchemy.MetaData(naming_convention={**_NAMES, **given})
    for table in tables:
        copy = table.to_metadata(metadata)
        checked = drop_checks_of_types(copy, dialect)
        if dialect == "sqlite":
            strict_copy(copy)
        else:
            separate_enums(copy, checked)
        for column in copy.columns:
            default = changed_default(column, dialect)
            if default is not None:
                column.server_default = schema.DefaultClause(sqlalchemy.text(default))
        name_checks(copy)
    return metadata


def drop_checks_of_types(copy: sqlalchemy.Table, dialect: Dialect) -> set[str]:
    """Remove the checks that types of SQLAlchemy make by themselves.

    Returns:
        The names of their columns.
    """
    checked: set[str] = set()
    for column in copy.columns:
        # SQLAlchemy makes them of the type itself, not of a variant.
        if not isinstance(column.type, types.Enum | types.Boolean):
            continue
        if column.type.create_constraint:
            values = column.type.enums if isinstance(column.type, types.Enum) else [0, 1]
            plain = types.String() if isinstance(column.type, types.Enum) else types.Integer()
            text = literal(sqlalchemy.type_coerce(column, plain).in_(values), dialect)
            for check in checks_of(copy):
                if literal(check.sqltext, dialect) == text:
                    copy.constraints.discard(check)
            # The type is written into migrations, where it must not make another one.
            column.type.create_constraint = False
            checked.add(column.name)
    return checked


def name_checks(copy: sqlalchemy.Table) -> None:
    """Give the checks without a name the one that PostgreSQL would give them."""
    taken = {str(check.name) for check in checks_of(copy)}
    for check in checks_of(copy):
        if not isinstance(check.name, str):
            columns = [str(column.name) for column in check.columns]
            base = "_".join([str(copy.name), *(columns if len(columns) == 1 else ()), "check"])
            names = (f"{base}{number or ''}" for number in count())
            name = next(name for name in names if name not in taken)
            taken.add(name)
            check.name = sqlalchemy.schema.conv(name)


def checks_of(table: sqlalchemy.Table) -> list[sqlalchemy.CheckConstraint]:
    """Return the checks of a table, each time in the same order."""
    checks = [each for each in table.constraints if isinstance(each, sqlalchemy.CheckConstraint)]
    return sorted(checks, key=lambda check: (str(check.name), str(check.sqltext)))


def literal(
    condition: sqlalchemy.ColumnElement[Any] | sqlalchemy.TextClause, dialect: Dialect
) -> str:
    """Return a condition as SQL, with its values."""
    options = {"literal_binds": True, "include_table": False}
    used = _StrictDialect() if dialect == "sqlite" else ENGINE_DIALECTS[dialect]
    return str(condition.compile(dialect=used, compile_kwargs=options))


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
    for type_ in enums_of(table):
        of_schema: str | None = type_.schema  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # of SQLAlchemy
        create = create_enum(str(type_.name), type_.enums, of_schema)  # pyright: ignore[reportUnknownArgumentType]  # as above
        # CREATE TYPE has no IF NOT EXISTS.
        yield f"do $alula$ begin {create}; exception when duplicate_object then null; end $alula$"


def create_enum(name: str, labels: Sequence[str], schema_name: str | None) -> str:
    """Return the statement that creates the type of an enum."""
    type_ = postgresql.ENUM(*labels, name=name, schema=schema_name)
    return str(CreateEnumType(type_).compile(dialect=ENGINE_DIALECTS["postgresql"])).strip()


def enums_of(table: sqlalchemy.Table) -> list[postgresql.ENUM]:
    """Return the enums that are types of PostgreSQL, of a copy of a table."""
    # `Any`: Pyright calls the items of arrays unknown.
    array: Any = types.ARRAY
    given: list[Any] = [column.type for column in table.columns]
    items = (each.item_type if isinstance(each, array) else each for each in given)
    return [item for item in items if isinstance(item, postgresql.ENUM)]


def separate_enums(copy: sqlalchemy.Table, checked: Collection[str]) -> None:
    """Change the columns of a copy so that its enums are types which exist beside the table.

    Args:
        copy: The copy.
        checked: The columns whose types had checks; those of enums without a type get them back.
    """
    for column in copy.columns:
        type_ = database_type(column.type, "postgresql")
        if isinstance(type_, types.ARRAY):
            # Pyright calls the items unknown after `isinstance`, and mypy a cast redundant.
            item: Any = type_.item_type  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # as above
            if isinstance(item, types.Enum) and item.native_enum:
                dimensions: Any = type_.dimensions  # pyright: ignore[reportUnknownMemberType]  # as above
                column.type = postgresql.ARRAY(existing_enum(item), dimensions=dimensions)
        elif isinstance(type_, types.Enum):
            if type_.native_enum:
                column.type = existing_enum(type_)
            elif column.name in checked:
                text = sqlalchemy.type_coerce(column, types.Text())
                copy.append_constraint(sqlalchemy.CheckConstraint(text.in_(type_.enums)))


def existing_enum(type_: types.Enum) -> postgresql.ENUM:
    """Return an enum as a type of PostgreSQL that exists before the tables with it."""
    of_schema: Any = type_.schema  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # of SQLAlchemy
    return postgresql.ENUM(*type_.enums, name=type_.name, schema=of_schema, create_type=False)


# -- SQLite ----------------------------------------------------------------------------------------


class StrictTypes(SQLiteTypeCompiler):
    """Writes the types that strict tables have."""

    def process(self, type_: types.TypeEngine[Any], **_options: object) -> str:
        """Return the type that a strict table has for a type of SQLAlchemy."""
        return _STORAGE.get(column_type(type_, "sqlite").name, "TEXT")


class AllQuoted(SQLiteIdentifierPreparer):
    def quote(self, ident: str, _force: object = None) -> str:
        """Quote a name, whether it is a reserved word or not.

        SQLAlchemy's own list of reserved words lacks some, such as "nothing".
        """
        return self.quote_identifier(ident)


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
            name = schema.conv(str(column.name))  # not to be changed by a naming convention
            table.append_constraint(sqlalchemy.CheckConstraint(check, name=name))
        if isinstance(column.server_default, sqlalchemy.Identity):
            # AUTOINCREMENT does it here. Alembic would take it for a default that has changed.
            column.server_default = column.identity = None
    return table


def changed_default(column: sqlalchemy.Column[Any], dialect: Dialect) -> str | None:
    """Return the default of a column where its own text would be another on a database."""
    type_ = database_type(column.type, dialect)
    default = column.server_default
    text = str(default.arg) if isinstance(default, schema.DefaultClause) else ""
    if isinstance(type_, types.DateTime) and text.upper() in _NOW_OF_OTHERS:
        return _NOW[dialect]
    is_kept = dialect == "postgresql" or not isinstance(type_, types.Boolean)
    return None if is_kept else _BOOLEANS.get(text.lower())


def default_text(column: sqlalchemy.Column[Any]) -> str:
    """Return the default of a column as SQL of SQLite."""
    default = column.server_default
    if not isinstance(default, schema.DefaultClause):
        return "null"
    text = changed_default(column, "sqlite") or default.arg
    if isinstance(text, str) and text is default.arg:
        return "'" + text.replace("'", "''") + "'"
    return f"({text})"
