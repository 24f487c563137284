"""The table of a service, from every kind of model: what its columns are and how ids are made."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from uuid import UUID

import sqlalchemy
from sqlalchemy.exc import CompileError
from sqlalchemy.sql import functions, schema

from alula.adapters.sql._columns._column_types import BooleanType, ColumnType, TextType
from alula.adapters.sql._columns._number_types import DecimalType, NumberType
from alula.adapters.sql._columns._sqlalchemy_types import column_type
from alula.adapters.sql._names import Dialect, check_names, quoted, quoted_column
from alula.adapters.sql._tables._catalogue import read_same, read_sequence, read_table
from alula.adapters.sql._tables._constraints import (
    Catalogue,
    Constraint,
    Constraints,
    read_constraints,
)
from alula.adapters.sql._tables._foreign_keys import (
    columns_between,
    foreign_keys_of,
    names_to_compare,
)
from alula.adapters.sql._tables._pydantic_models import is_pydantic_model, pydantic_table
from alula.outgoing._text import now_as_in_json

if TYPE_CHECKING:
    from sqlalchemy.orm import Mapper

__all__ = [
    "Column",
    "Model",
    "Table",
    "TableSource",
    "column_name_of",
    "keys_between",
    "made_in_python",
    "new_uuid",
    "table_of",
]

StaticModel: TypeAlias = sqlalchemy.Table | type[Any] | tuple[type[Any], str]
Model: TypeAlias = (
    StaticModel
    | str
    | Awaitable[StaticModel | str]
    | Callable[[], StaticModel | str | Awaitable[StaticModel | str]]
)
"""What a `SQLService` takes as its table."""

_CLOCK: Final = (functions.now, functions.current_timestamp)
"""SQL functions that SQLAlchemy users give as defaults, which Python can make as well."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        name: The property of records.
        sql: The column, quoted.
        type: How its values are compared, stored and read.
        nullable: Whether it may be null.
        has_default: Whether a value is made for records that bring none.
        default: Makes that value in Python; None: the database does, or nobody.
        on_update: Makes the value that a write without this property sets; None: nothing is set.
        writable: Whether statements may set it; False for generated columns.
    """

    name: str
    sql: str
    type: ColumnType
    nullable: bool
    has_default: bool
    default: Callable[[], object] | None
    on_update: Callable[[], object] | None
    writable: bool


@dataclass(frozen=True, eq=False)
class Table:
    """The table of a service in one dialect.

    Attributes:
        name: The table's name, without schema.
        sql: The table, quoted, with its schema.
        dialect: The dialect of all its texts.
        columns: Columns by the property of records, in the order of the table.
        id: The column of the id.
        new_ids: What makes the id of a new record that has none.
        sequence: PostgreSQL: the argument of ``nextval()`` for new ids, as SQL; None without one.
        extra: The JSON column of all properties without a column, None without one.
        scalars: The types of values in JSON, by ``str``, ``bool``, ``int`` and ``float``.
        constraints: Its constraints, for errors.
        source: The table as SQLAlchemy sees it.
        keeps_ids: Whether no trigger can give a new row another id than the statement does.
    """

    name: str
    sql: str
    dialect: Dialect
    columns: Mapping[str, Column]
    id: Column
    new_ids: Literal["database", "uuid7", "brought"]
    sequence: str | None
    extra: Column | None
    scalars: Mapping[type, ColumnType]
    constraints: Constraints
    source: sqlalchemy.Table
    keeps_ids: bool = True


class TableSource:
    """The model of a service, and the table once it is resolved.

    Concurrent callers share one attempt. If it fails, it fails for all of them, and the next caller
    tries again.

    Args:
        model: The model.
        dialect: The dialect of the database.
        id: Name of the id property, None for the primary key.
        extra: Name of the JSON column of all properties without a column.

    Attributes:
        table: The table. None until it is resolved, if the model needs the database; otherwise
            what the model says about it, until the database's catalogue was read as well.
        is_resolved: Whether `table` is final.

    Raises:
        ValueError: The model has no such id or extra column.
    """

    def __init__(
        self, model: Model, dialect: Dialect, *, id: str | None = None, extra: str | None = None
    ) -> None:
        self._model: object = model
        self._id, self._extra = id, extra
        self._attempt: asyncio.Task[Table] | None = None
        self.is_resolved = False
        self.table: Table | None = None
        if is_static(model):
            self.table = static_table(model, dialect, id, extra, code_point_order=False)

    async def resolve(self, database: Catalogue) -> Table:
        """Return the table.

        Raises:
            Exception: Whatever the model or the database raises.
            TypeError: The model is not a table.
            LookupError: The database has no table of that name.
            ValueError: The table has no such id or extra column.
        """
        if self.is_resolved and self.table is not None:
            return self.table
        if self._attempt is None:
            model = self._model
            if inspect.isawaitable(model) and not isinstance(model, asyncio.Future):
                # A coroutine can be awaited once, a task any number of times.
                async def awaited() -> object:
                    return await model

                self._model = _task(awaited())
            given = table_of(self._model, database, id=self._id, extra=self._extra)
            self._attempt = _task(given)
            self._attempt.add_done_callback(self._keep)
        # Shielded: a caller that gives up must not end the attempt for the others.
        return await asyncio.shield(self._attempt)

    def _keep(self, attempt: asyncio.Task[Table]) -> None:
        self._attempt = None
        if not attempt.cancelled() and attempt.exception() is None:
            self.table = attempt.result()
            self.is_resolved = True


def _task(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    # A new context: the time limit of the call that began it must not end it for others.
    return asyncio.get_running_loop().create_task(work, context=Context())


def is_static(model: object) -> bool:
    """Tell whether a model says by itself what its columns are."""
    return isinstance(model, sqlalchemy.Table | type | tuple)


async def table_of(
    model: object, database: Catalogue, *, id: str | None = None, extra: str | None = None
) -> Table:
    """Return the table of a model, with what the database's catalogue says about it.

    Raises:
        Exception: As in `TableSource.resolve`.
    """
    if not is_static(model) and callable(model):
        model = model()
    if inspect.isawaitable(model):
        model = await model
    if isinstance(model, str):
        model = await read_table(database, model)
    is_postgresql = database.dialect == "postgresql"
    order = is_postgresql and database.code_point_order
    table = static_table(model, database.dialect, id, extra, code_point_order=order)
    if not is_postgresql:
        return table
    table_sql = table.sql
    table.constraints.read_by(lambda: read_constraints(database, table_sql))
    await table.constraints.load()
    is_there, sequence, has_trigger = await read_sequence(
        database, table.sql, column_name_of(table.id.name, table)
    )
    if not is_there:
        return table
    if table.sequence is not None:
        sequence = None if sequence is None else f"{_literal(sequence)}::regclass"
        table = replace(table, sequence=sequence)
    return replace(table, keeps_ids=not has_trigger)


def static_table(
    model: Any, dialect: Dialect, id: str | None, extra: str | None, *, code_point_order: bool
) -> Table:
    """Return the table of a model as the model itself describes it."""
    source, properties = source_of(model, id)
    check_names(source.name, (column.name for column in source.columns), dialect)
    source_columns = {
        properties[column.name]: column for column in source.columns if column.name in properties
    }
    columns = {
        name: column_of(name, column, dialect, code_point_order)
        for name, column in source_columns.items()
    }
    id_column = columns[id_name_of(source, source_columns, id)]
    if extra is not None and (extra not in columns or columns[extra].type.name != "json"):
        raise ValueError(f"extra={extra!r} is not a JSON column of the table {source.name!r}")
    sql = ".".join(quoted(part) for part in (source.schema, source.name) if part)
    new_ids, id_column = who_makes_ids(source, source_columns[id_column.name], id_column)
    columns[id_column.name] = id_column
    sequence = None
    if dialect == "postgresql" and new_ids == "database" and id_column.type.name == "integer":
        # For a table that is not there yet; the catalogue knows the name of the sequence.
        name = source_columns[id_column.name].name
        sequence = f"pg_get_serial_sequence({_literal(sql)}, {_literal(name)})::regclass"
    return Table(
        name=str(source.name),
        sql=sql,
        dialect=dialect,
        columns=MappingProxyType(columns),
        id=id_column,
        new_ids=new_ids,
        sequence=sequence,
        extra=None if extra is None else columns[extra],
        scalars=scalar_types(dialect, code_point_order=code_point_order),
        constraints=constraints_of(source, properties),
        source=source,
    )


def source_of(
    model: sqlalchemy.Table | tuple[Any, ...] | type | str | None, id: str | None
) -> tuple[sqlalchemy.Table, dict[str, str]]:
    """Return the table of SQLAlchemy, and the property of records for each of its columns."""
    if isinstance(model, sqlalchemy.Table):
        return model, names_of(model)
    if isinstance(model, tuple) and len(model) == 2 and is_pydantic_model(model[0]):
        table = pydantic_table(model[0], str(model[1]), id)
        return table, names_of(table)
    # Late: it takes 0.2 s to load, and who has a mapped class has it loaded.
    from sqlalchemy.orm import Mapper  # noqa: PLC0415  # as said above

    mapper = sqlalchemy.inspect(model, raiseerr=False)
    if isinstance(mapper, Mapper) and isinstance(mapper.local_table, sqlalchemy.Table):
        local: sqlalchemy.Table = mapper.local_table  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # after `isinstance`, its columns are unknown
        return local, names_of_mapped(mapper, local)  # pyright: ignore[reportUnknownArgumentType]  # of any class
    # A string is not shown: it may be the address of a database, with its password.
    shown = "a string" if isinstance(model, str) else repr(model)
    raise TypeError(
        f"the model of a SQLService is {shown}; give a Table of SQLAlchemy, a mapped class, the"
        ' name of a table, (PydanticModel, "table name"), or a function that returns one of these'
    )


def names_of_mapped(mapper: Mapper[Any], local: sqlalchemy.Table) -> dict[str, str]:
    """Return the property of records by the name of each column of a mapped class.

    Raises:
        TypeError: An attribute is not a column of the table.
    """
    names: dict[str, str] = {}
    for attribute in mapper.column_attrs:
        columns = [
            column
            for column in attribute.columns
            if isinstance(column, sqlalchemy.Column) and column.table is local
        ]
        if not columns:
            raise TypeError(
                f"{mapper.class_.__name__}.{attribute.key} is not a column of the table"
                f" {local.name!r}, so records would lack it; make it a Computed column, a view, or"
                " a virtual property (with_schema(..., result=resolve(...)))"
            )
        names[str(columns[0].name)] = attribute.key
    return names


def names_of(table: sqlalchemy.Table) -> dict[str, str]:
    """Return the property of records by each column's name."""
    # orjson refuses SQLAlchemy's own class of names (JSON of a page of ten: 199 us in place of 6).
    return {str(column.name): str(column.key) for column in table.columns}


def id_name_of(
    source: sqlalchemy.Table, columns: Mapping[str, sqlalchemy.Column[Any]], id: str | None
) -> str:
    if id is not None:
        if id not in columns:
            raise ValueError(f"id={id!r} is not a column of the table {source.name!r}")
        return id
    names = [name for name, column in columns.items() if column.primary_key]
    if len(names) != 1:
        problem = (
            f"the primary key of the table {source.name!r} has the columns"
            f" {', '.join(map(repr, names))}, and an id is one value"
            if names
            else f"the table {source.name!r} has no primary key"
        )
        raise ValueError(
            f"{problem}; name a column whose values are unique by themselves, such as"
            f" id={(names or ['id'])[-1]!r}"
        )
    return names[0]


def column_of(
    name: str, column: sqlalchemy.Column[Any], dialect: Dialect, code_point_order: bool
) -> Column:
    try:
        type_ = column_type(column.type, dialect, code_point_order=code_point_order)
    except (TypeError, CompileError) as error:
        raise TypeError(f"the column {column} has a type that cannot be used: {error}") from error
    default = made_in_python(column, column.default)
    is_always = isinstance(column.identity, sqlalchemy.Identity) and column.identity.always
    return Column(
        name=name,
        sql=quoted_column(column.name, dialect),
        type=type_,
        nullable=bool(column.nullable),
        has_default=default is not None
        or column.default is not None
        or column.server_default is not None
        or column.identity is not None,
        default=default,
        on_update=made_in_python(column, column.onupdate),
        writable=column.computed is None and not is_always,
    )


def made_in_python(
    column: sqlalchemy.Column[Any], default: schema.DefaultGenerator | None
) -> Callable[[], object] | None:
    """Return what makes the default of a column, None if the database does or nobody.

    Raises:
        TypeError: The default is an expression of SQL, which only the database can compute.
    """
    if default is None or isinstance(default, sqlalchemy.Sequence):
        return None
    argument: Any = getattr(default, "arg", None)
    if isinstance(default, schema.ScalarElementColumnDefault):
        return lambda: argument
    if isinstance(default, schema.CallableColumnDefault):
        return lambda: argument(None)  # SQLAlchemy has wrapped functions without arguments
    if isinstance(argument, _CLOCK):
        return now_as_in_json
    raise TypeError(
        f"the column {column} has the SQL expression {argument} as its default; give it as"
        " server_default, or a function of Python"
    )


def who_makes_ids(
    source: sqlalchemy.Table, column: sqlalchemy.Column[Any], id_column: Column
) -> tuple[Literal["database", "uuid7", "brought"], Column]:
    constant = constant_default(column)
    if constant is not None:
        raise ValueError(
            f"the id {column.name!r} of the table {source.name!r} has the default {constant!r}, so"
            " every new record would have this id; leave it out, or give a function"
        )
    is_made = column.server_default is not None or column.identity is not None
    if (
        is_made
        or source.autoincrement_column is column
        or isinstance(column.default, sqlalchemy.Sequence)
    ):
        return "database", replace(id_column, has_default=True)
    # Made here, a list of new records needs no round trip for its ids.
    if id_column.type.name == "uuid" and id_column.default is None:
        return "uuid7", replace(id_column, has_default=True, default=new_uuid)
    return "brought", id_column


def constant_default(column: sqlalchemy.Column[Any]) -> object:
    """Return the default of a column that is a value, None without one."""
    for default in (column.default, column.server_default):
        if isinstance(default, schema.ScalarElementColumnDefault):
            return default.arg
        if isinstance(default, schema.DefaultClause) and isinstance(default.arg, str):
            return default.arg
    return None


def constraints_of(source: sqlalchemy.Table, properties: Mapping[str, str]) -> Constraints:
    by_name = {name: Constraint("check", (name,)) for name in properties}
    for constraint in source.constraints:
        kinds: dict[type, str] = {
            sqlalchemy.CheckConstraint: "check",
            sqlalchemy.UniqueConstraint: "unique",
        }
        kind = kinds.get(type(constraint))
        if isinstance(constraint, sqlalchemy.schema.ColumnCollectionConstraint) and kind:
            names = tuple(column.name for column in constraint.columns)
            by_name[str(constraint.name)] = Constraint(kind, names)
    keys = tuple(key.columns for key in foreign_keys_of(source))
    return Constraints(properties, by_name, keys)


def scalar_types(dialect: Dialect, *, code_point_order: bool) -> Mapping[type, ColumnType]:
    number = DecimalType(dialect) if dialect == "postgresql" else NumberType(dialect)
    return MappingProxyType(
        {
            str: TextType(dialect, code_point_order=code_point_order),
            bool: BooleanType(dialect),
            int: number,
            float: number,
        }
    )


async def keys_between(table: Table, target: Table, database: Catalogue) -> tuple[str, ...]:
    """Return the properties of a table whose foreign keys refer to the id of another one.

    Raises:
        Exception: The database's catalogue could not be read.
    """
    id_column = column_name_of(target.id.name, target)
    names: Sequence[str] = ()
    if table.dialect == "postgresql":
        names = names_to_compare(table.source, target.source)
    if names:
        names = await read_same(database, names, target.source.fullname)
    columns = columns_between(table.source, target.source, id_column, table.dialect, names)
    return table.constraints.fields(columns)


def column_name_of(name: str, table: Table) -> str:
    """Return the name of the column of a property."""
    return next(column for column, of in table.constraints.properties.items() if of == name)


def _literal(text: str) -> str:
    # Only for names of tables and columns that the application or the catalogue has given.
    return "'" + text.replace("'", "''") + "'"


def new_uuid() -> UUID:
    """Return a UUID of version 7 (RFC 9562): ids made later come later in indexes.

    Examples:
        >>> new_uuid().version
        7
    """
    # The 12 bits after the milliseconds are their fraction (RFC 9562, section 6.2, method 3).
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = nanoseconds * 4096 // 1_000_000
    random = int.from_bytes(os.urandom(8), "big") >> 2
    return UUID(int=milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | random)
