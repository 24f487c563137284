"""SQL of the application itself: statements, and the condition that ``params.sql`` may have.

Both may be SQLAlchemy's. A statement may also be text, which means the same on either database:
``$1`` is the first parameter. SQLite alone would take ``$1`` for a name, and count names in the
order in which they occur.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Executable, TextClause, types
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect as SQLAlchemyDialect
from sqlalchemy.sql import ClauseElement

from alula.adapters.sql._columns._date_types import utc_moment
from alula.adapters.sql._columns._sqlalchemy_types import (
    ENGINE_DIALECTS,
    column_type,
    database_type,
    driver_value,
)
from alula.adapters.sql._names import Dialect
from alula.adapters.sql._statement import Row, Statement
from alula.adapters.sql._tables._tables import made_in_python
from alula.errors import BadRequest
from alula.types import is_mapping

__all__ = ["Condition", "OwnSQL", "Records", "compiled_condition", "own_statement", "records_of"]

OwnSQL: TypeAlias = str | Executable
"""A statement of the application: SQL, or a statement of SQLAlchemy."""

Records: TypeAlias = Callable[[Sequence[str], Sequence[Row]], list[dict[str, Any]]]
"""Makes a dict of each row, from the names of the columns and the rows."""

_SQLITE_TOKENS: Final = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] | --[^\n]* | /\*.*?\*/
    | (?P<number>(?<![\w$])\$\d+\b) | (?P<mark>\?\d*) | (?P<name>(?<![\w$:])[:@$][A-Za-z_]\w*)""",
    re.DOTALL | re.VERBOSE,
)
"""What parameters may look like, and the texts, names and comments in which they are none."""

# NUL cannot occur in the text of a statement: neither in a name nor in a literal.
_PLACE: Final = "\0%(name)s\0"


def own_statement(
    sql: OwnSQL, parameters: Sequence[object], dialect: Dialect
) -> tuple[Statement, Records]:
    """Return a statement of the application for the driver, and what reads its rows.

    Args:
        sql: The statement.
        parameters: What a text refers to by ``$1``, ``$2``. For a statement of SQLAlchemy, at most
            one mapping with values of its ``bindparam``.
        dialect: The dialect of the database.

    Raises:
        TypeError: It is not a statement, or has other parameters.
        ValueError: The text names its parameters, or mixes two ways to number them, or a value is
            not of the type of its column.
    """
    if isinstance(sql, str):
        text = sqlite_text(sql) if dialect == "sqlite" else sql
        values = tuple(driver_value(value, dialect) for value in parameters)
        return Statement(text, values), records_of
    if not isinstance(sql, Executable) or not isinstance(sql, ClauseElement):
        raise TypeError(
            f"{sql!r} is not a statement; give SQL as text, or a statement of SQLAlchemy such as"
            " select(messages)"
        )
    given: object = parameters[0] if parameters else {}
    if len(parameters) > 1 or not is_mapping(given):
        raise TypeError(
            "a statement of SQLAlchemy has its parameters in it; give at most one mapping, with the"
            ' values of its bindparam(): {"room": 1}'
        )
    return _compiled_statement(sql, given, dialect)


def records_of(columns: Sequence[str], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a dict for each row, with the values of the driver."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


def sqlite_text(sql: str) -> str:
    """Return SQL in which ``$1`` is the first parameter as SQL of SQLite.

    Raises:
        ValueError: A parameter has a name, or some are numbered and some are not.
    """
    forms: set[str] = set()

    def replaced(token: re.Match[str]) -> str:
        if name := token["name"]:
            raise ValueError(f"the parameter {name} has a name; write $1 for the first parameter")
        if number := token["number"]:
            forms.add("$1")
            return f"?{number[1:]}"
        if mark := token["mark"]:
            forms.add("?" if mark == "?" else "$1")
        return token[0]

    text = _SQLITE_TOKENS.sub(replaced, sql)
    if len(forms) > 1:
        raise ValueError("the statement has both ? and $1 as parameters; write $1, $2 everywhere")
    return text


# -- statements of SQLAlchemy ----------------------------------------------------------------------


def _compiled_statement(
    statement: Any, given: Mapping[str, object], dialect: Dialect
) -> tuple[Statement, Records]:
    compiler, pieces = _pieces_of(statement, dialect)
    values = compiler.construct_params(dict(given))
    for column in compiler.insert_prefetch:
        make = made_in_python(column, column.default)
        values[column.key] = None if make is None else make()
    for column in compiler.update_prefetch:
        make = made_in_python(column, column.onupdate)
        values[column.key] = None if make is None else make()
    sign = "$" if dialect == "postgresql" else "?"
    parts = [pieces[0]]
    parameters: list[object] = []
    for name, text in zip(pieces[1::2], pieces[2::2], strict=True):
        parameters.append(_bound(values[name], _type_of(name, compiler.binds), dialect))
        parts += (f"{sign}{len(parameters)}", text)
    return Statement("".join(parts), tuple(parameters)), _reader(statement, dialect)


def _type_of(name: str, binds: Mapping[str, Any]) -> types.TypeEngine[Any]:
    # Of a list, each value has a name of its own: that of the list and a number.
    while name not in binds:
        name = name.rpartition("_")[0]
    type_: types.TypeEngine[Any] = binds[name].type
    return type_


def _bound(value: Any, type_: types.TypeEngine[Any], dialect: Dialect) -> object:
    """Return the driver's value for a parameter of a type of SQLAlchemy."""
    if isinstance(type_, types.TypeDecorator):
        with suppress(NotImplementedError):  # it changes results alone
            value = type_.process_bind_param(value, ENGINE_DIALECTS[dialect])
    if value is None:
        return None
    native = type_ if isinstance(type_, types.Interval) else database_type(type_, dialect)
    if isinstance(native, types.NullType):
        return driver_value(value, dialect)
    if isinstance(native, types.Enum | types.JSON) or dialect == "sqlite":
        try:
            return column_type(native, dialect).store(value, "a parameter")
        except BadRequest as error:
            # The statement is the application's: this is not a mistake of a client.
            raise ValueError(str(error)) from None
    if isinstance(native, types.DateTime) and isinstance(value, datetime):
        # asyncpg would take one without a zone for the time of this machine.
        moment = utc_moment(value)
        return moment if native.timezone else moment.replace(tzinfo=None)
    return value


def _reader(statement: Any, dialect: Dialect) -> Records:
    columns: Any = getattr(statement, "exported_columns", None)
    if columns is None:  # it returns no rows, or is text
        return records_of
    names: list[str] = [str(name) for name in columns.keys()]  # noqa: SIM118  # not a mapping
    convert = [
        None
        if isinstance(column.type, types.NullType)
        else column_type(column.type, dialect).from_driver
        for column in columns
    ]

    def read(_columns: Sequence[str], rows: Sequence[Row]) -> list[dict[str, Any]]:
        return [
            {
                name: value if value is None or from_driver is None else from_driver(value)
                for name, from_driver, value in zip(names, convert, row, strict=True)
            }
            for row in rows
        ]

    return read


# -- conditions ------------------------------------------------------------------------------------


class Condition(NamedTuple):
    """A condition without the numbers of its parameters, which depend on the statement around it.

    Attributes:
        parts: The text before, between and after the parameters: one more than there are of these.
        parameters: The values, as the driver takes them.
    """

    parts: tuple[str, ...]
    parameters: tuple[object, ...]


def compiled_condition(condition: ColumnElement[bool] | TextClause, dialect: Dialect) -> Condition:
    """Return a condition as text; its values are never part of it.

    Examples:
        >>> from sqlalchemy import column
        >>> compiled_condition(column("room") == 5, "sqlite")
        Condition(parts=('room = ', ''), parameters=(5,))

    Raises:
        sqlalchemy.exc.CompileError: The dialect cannot express it.
    """
    compiler, pieces = _pieces_of(condition, dialect)
    values = compiler.construct_params()
    parameters = (driver_value(values[name], dialect) for name in pieces[1::2])
    return Condition(tuple(pieces[0::2]), tuple(parameters))


# -- SQLAlchemy as text ----------------------------------------------------------------------------


def _pieces_of(element: ClauseElement, dialect: Dialect) -> tuple[Any, list[str]]:
    """Return a compiled element of SQLAlchemy, and its text: parameters' names at odd places.

    Raises:
        sqlalchemy.exc.CompileError: The dialect cannot express it.
    """
    compiler: Any = element.compile(
        dialect=_dialect(dialect), compile_kwargs={"render_postcompile": True}
    )
    return compiler, str(compiler.string).split("\0")


@cache
def _dialect(name: Dialect) -> SQLAlchemyDialect:
    dialect: Any = postgresql.asyncpg.dialect if name == "postgresql" else sqlite.dialect
    dialect = dialect(paramstyle="named")

    class Compiler(dialect.statement_compiler):  # type: ignore[misc]  # of the dialect
        """Writes each parameter as its name between two NULs, those of expanded lists too."""

        bindtemplate = property(lambda _self: _PLACE, lambda _self, _template: None)
        compilation_bindtemplate = bindtemplate

    dialect.statement_compiler = Compiler
    result: SQLAlchemyDialect = dialect
    return result
