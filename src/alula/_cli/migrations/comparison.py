"""The changes that Alembic does not see: checks, defaults, and the types of enums on PostgreSQL.

A database keeps checks and defaults in its own words. So those of a model are compared in the words
that the same database has for them, which an empty scratch database tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy
from alembic.autogenerate import renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations import Operations, ops
from sqlalchemy.schema import CreateTable

from alula.adapters.sql._names import Dialect, quoted
from alula.adapters.sql._tables._ddl import checks_of, create_enum, enums_of, existing_enum, literal

__all__ = [
    "TypeOp",
    "Words",
    "add_unseen_changes",
    "create_tables",
    "read_words",
    "separate_types",
]

_TYPE_COLUMNS: Final = """
select c.oid::regclass::text, quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
  pg_get_expr(d.adbin, d.adrelid)
from pg_attribute a join pg_class c on c.oid = a.attrelid
join pg_type t on t.oid = a.atttypid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where c.relkind in ('r', 'p') and not a.attisdropped
and (t.oid = to_regtype(:name) or t.typelem = to_regtype(:name) and t.typcategory = 'A')
order by 1, 2"""


# -- operations ------------------------------------------------------------------------------------


class CreateCheckOp(ops.CreateCheckConstraintOp):
    """Adds a check to a table; older versions of Alembic cannot write one into a file."""

    def reverse(self) -> DropCheckOp:
        """Return the operation that removes the check."""
        return DropCheckOp(str(self.constraint_name), self.table_name, str(self.condition))


class DropCheckOp(ops.DropConstraintOp):
    """Removes a check from a table.

    Args:
        name: The name of the check.
        table_name: The name of the table.
        condition: Its condition, for the way back.
    """

    def __init__(self, name: str, table_name: str, condition: str) -> None:
        super().__init__(sqlalchemy.schema.conv(name), table_name, type_="check")
        self.condition = condition

    def reverse(self) -> CreateCheckOp:
        """Return the operation that adds the check again."""
        return create_check(str(self.constraint_name), self.table_name, self.condition)


class TypeOp(ops.MigrateOperation):
    """Creates, changes or removes the type of an enum.

    Args:
        words: What it does, such as "Create type mood".
        forth: The statements.
        back: The statements of the way back.
    """

    def __init__(self, words: str, forth: Sequence[str], back: Sequence[str]) -> None:
        self.words, self.forth, self.back = words, forth, back

    def reverse(self) -> TypeOp:
        """Return the operation of the way back."""
        return TypeOp(f"Undo: {self.words}", self.back, self.forth)


def create_check(name: str, table: str, condition: str) -> CreateCheckOp:
    return CreateCheckOp(sqlalchemy.schema.conv(name), table, sqlalchemy.text(escaped(condition)))


def escaped(sql: str) -> str:
    """Return SQL for SQLAlchemy's ``text``, where a colon begins a parameter."""
    return sql.replace("\\", "\\\\").replace(":", "\\:")


@renderers.dispatch_for(CreateCheckOp)
def _render_check(_context: AutogenContext, op: CreateCheckOp) -> str:
    # In a block of changes of a table, whatever the database, see ``render_as_batch``.
    name, text = str(op.constraint_name), escaped(str(op.condition))
    return f"batch_op.create_check_constraint(batch_op.f({name!r}), sa.text({text!r}))"


@renderers.dispatch_for(TypeOp)
def _render_type(_context: AutogenContext, op: TypeOp) -> list[str]:
    return [f"op.execute({escaped(statement)!r})" for statement in op.forth]


@Operations.implementation_for(TypeOp)
def _change_type(operations: Operations, op: TypeOp) -> None:
    for statement in op.forth:
        operations.execute(sqlalchemy.text(escaped(statement)))


# -- what a database has ---------------------------------------------------------------------------


class Words(NamedTuple):
    """The words that a database has for the checks and defaults of tables.

    Attributes:
        checks: By table, with its schema: the checks by name.
        defaults: By table: the defaults by column, None for a column without one.
    """

    checks: dict[str, dict[str, str]]
    defaults: dict[str, dict[str, str | None]]


def read_words(connection: sqlalchemy.Connection, tables: Iterable[sqlalchemy.Table]) -> Words:
    """Return what a database has of some tables; nothing of a missing table."""
    inspector = sqlalchemy.inspect(connection)
    words = Words({}, {})
    for table in tables:
        if inspector.has_table(table.name, schema=table.schema):
            checks = inspector.get_check_constraints(table.name, schema=table.schema)
            columns = inspector.get_columns(table.name, schema=table.schema)
            words.checks[table.fullname] = {
                str(each["name"]): str(each["sqltext"]) for each in checks
            }
            words.defaults[table.fullname] = {each["name"]: each["default"] for each in columns}
    return words


def create_tables(connection: sqlalchemy.Connection, target: sqlalchemy.MetaData) -> Words:
    """Create tables in an empty database, and return its words for them."""
    with connection.begin():
        for name, labels in _wanted_types(target).items():
            connection.execute(
                sqlalchemy.text(escaped(create_enum(name.name, labels, name.schema)))
            )
        for table in target.sorted_tables:  # `create_all` would create the types once more
            connection.execute(CreateTable(table))
        return read_words(connection, target.sorted_tables)


def separate_types(target: sqlalchemy.MetaData) -> None:
    """Change tables that were read from a database so that they do not create types of enums."""
    for table in target.tables.values():
        for column in table.columns:
            type_: Any = column.type
            if isinstance(getattr(type_, "item_type", None), sqlalchemy.Enum):
                type_.item_type = existing_enum(type_.item_type)
            elif isinstance(type_, sqlalchemy.Enum):
                column.type = existing_enum(type_)


# -- differences -----------------------------------------------------------------------------------


def add_unseen_changes(
    changes: ops.UpgradeOps,
    connection: sqlalchemy.Connection,
    target: sqlalchemy.MetaData,
    words: Words,
    *,
    keeps_types: bool = False,
) -> None:
    """Add what Alembic does not see to the changes that it has found.

    Args:
        changes: The changes from the database to the target.
        connection: To the database.
        target: The tables that are wanted.
        words: The words of the database for these tables.
        keeps_types: Whether types that no table of the target has stay as they are.
    """
    existing = read_words(connection, target.sorted_tables)
    for table in target.sorted_tables:
        if table.fullname in existing.checks:
            _add_changed_defaults(changes, table, existing, words)
            dropped, created = _changed_checks(
                table, existing.checks[table.fullname], words.checks[table.fullname]
            )
            if dropped or created:
                # First and last: a column may be new, or change in between.
                of_table = _changes_of(changes, table)
                of_table.ops[:] = [*dropped, *of_table.ops, *created]
    if connection.dialect.name == "postgresql":
        before, after = _changed_types(connection, target, keeps=keeps_types)
        changes.ops[:] = [*before, *changes.ops, *after]


def _changed_checks(
    table: sqlalchemy.Table, existing: Mapping[str, str], wanted: Mapping[str, str]
) -> tuple[list[DropCheckOp], list[CreateCheckOp]]:
    # The words of the model are easier to read than those of the database.
    dialect: Dialect = "sqlite" if table.dialect_options["sqlite"]["strict"] else "postgresql"
    texts = {str(check.name): literal(check.sqltext, dialect) for check in checks_of(table)}
    return (
        [
            DropCheckOp(name, table.name, text)
            for name, text in sorted(existing.items())
            if wanted.get(name) != text
        ],
        [
            create_check(name, table.name, texts[name])
            for name, text in sorted(wanted.items())
            if existing.get(name) != text
        ],
    )


def _add_changed_defaults(
    changes: ops.UpgradeOps, table: sqlalchemy.Table, existing: Words, wanted: Words
) -> None:
    old, new = existing.defaults[table.fullname], wanted.defaults[table.fullname]
    for column in table.columns:
        name = str(column.name)
        is_number = column.identity is not None or table.autoincrement_column is column
        if name not in old or old[name] == new[name] or is_number or column.computed is not None:
            continue
        text = old[name]
        if text is not None and table.dialect_options["sqlite"]["strict"]:
            text = f"({text})"  # SQLite shows an expression without the brackets that it needs
        of_table = _changes_of(changes, table)
        change = next(
            (
                each
                for each in of_table.ops
                if isinstance(each, ops.AlterColumnOp) and each.column_name == name
            ),
            None,
        )
        if change is None:
            change = ops.AlterColumnOp(
                table.name, name, existing_type=column.type, existing_nullable=column.nullable
            )
            of_table.ops.append(change)
        change.existing_server_default = (
            None if text is None else sqlalchemy.DefaultClause(sqlalchemy.text(escaped(text)))
        )
        change.modify_server_default = column.server_default


def _changes_of(changes: ops.UpgradeOps, table: sqlalchemy.Table) -> ops.ModifyTableOps:
    for change in changes.ops:
        if isinstance(change, ops.ModifyTableOps) and (change.table_name, change.schema) == (
            table.name,
            table.schema,
        ):
            return change
    of_table = ops.ModifyTableOps(table.name, [], schema=table.schema)
    changes.ops.append(of_table)
    return of_table


class _TypeName(NamedTuple):
    name: str
    schema: str | None

    def __str__(self) -> str:
        return ".".join(quoted(part) for part in (self.schema, self.name) if part)


def _wanted_types(target: sqlalchemy.MetaData) -> dict[_TypeName, list[str]]:
    enums: list[Any] = [type_ for table in target.sorted_tables for type_ in enums_of(table)]
    return {_TypeName(str(type_.name), type_.schema): [*type_.enums] for type_ in enums}


def _changed_types(
    connection: sqlalchemy.Connection, target: sqlalchemy.MetaData, *, keeps: bool
) -> tuple[list[TypeOp], list[TypeOp]]:
    """Return the changes of types that come before those of tables, and those that come after."""
    wanted = _wanted_types(target)
    default_schema = connection.dialect.default_schema_name
    inspector: Any = sqlalchemy.inspect(connection)
    existing: dict[_TypeName, list[str]] = {}
    for each in inspector.get_enums(schema="*"):
        schema = None if each["schema"] == default_schema else each["schema"]
        existing[_TypeName(each["name"], schema)] = each["labels"]
    before: list[TypeOp] = []
    for name, labels in wanted.items():
        create = create_enum(name.name, labels, name.schema)
        if name not in existing:
            # `Database.create` may have created it in development.
            safe = f"do $$ begin {create}; exception when duplicate_object then null; end $$"
            before.append(TypeOp(f"Create type {name}", [safe], [f"drop type {name}"]))
        elif existing[name] != labels:
            before.append(_changed_type(connection, name, existing[name], labels, target))
    after = [
        TypeOp(f"Drop type {name}", [f"drop type {name}"],
               [create_enum(name.name, labels, name.schema)])
        for name, labels in existing.items()
        if name not in wanted and not keeps
    ]  # fmt: skip
    return before, after


def _changed_type(
    connection: sqlalchemy.Connection,
    name: _TypeName,
    old: Sequence[str],
    new: Sequence[str],
    target: sqlalchemy.MetaData,
) -> TypeOp:
    columns = connection.execute(sqlalchemy.text(_TYPE_COLUMNS), {"name": str(name)}).all()
    added = [label for label in new if label not in old]
    removed = [label for label in old if label not in new]
    back = _made_anew(name, old, columns, added)
    defaults = {
        str(getattr(column.server_default, "arg", ""))
        for table in target.sorted_tables
        for column in table.columns
    }
    if [label for label in new if label in old] == [*old] and defaults.isdisjoint(added):
        # This changes no table. A default needs a value that an earlier transaction has added.
        forth: list[str] = []
        for at, label in enumerate(new):
            if label in added:
                place = f" after {_text(new[at - 1])}" if at else f" before {_text(old[0])}"
                forth.append(f"alter type {name} add value if not exists {_text(label)}{place}")
        return TypeOp(f"Change type {name}", forth, back)
    return TypeOp(f"Change type {name}", _made_anew(name, new, columns, removed), back)


def _made_anew(
    name: _TypeName, labels: Sequence[str], columns: Iterable[Any], removed: Iterable[str]
) -> list[str]:
    """Return the statements that replace a type by another one of the same name."""
    # The type has no value for these; Alembic sees that the default has changed.
    lost = tuple(f"{_text(label)}::" for label in removed)
    old = _TypeName(f"{name.name}_before", name.schema)
    statements = [
        f"alter type {name} rename to {quoted(old.name)}",
        create_enum(name.name, labels, name.schema),
    ]
    for table, column, type_, default in columns:
        alter = f"alter table {table} alter column {column}"
        array = "[]" if type_.endswith("[]") else ""
        if default is not None:
            statements.append(f"{alter} drop default")
        statements.append(f"{alter} type {name}{array} using {column}::text{array}::{name}{array}")
        if default is not None and not default.startswith(lost):
            statements.append(f"{alter} set default {default}")
    return [*statements, f"drop type {old}"]


def _text(label: str) -> str:
    return "'" + label.replace("'", "''") + "'"
