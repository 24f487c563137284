"""Conditions of SQLAlchemy (``params.sql["where"]``) as text with places for parameters."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, TextClause
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect as SQLAlchemyDialect
from sqlalchemy.sql import ClauseElement

from alula.adapters.sql._columns._sqlalchemy_types import driver_value
from alula.adapters.sql._names import Dialect

__all__ = ["Condition", "compiled", "pieces_of"]

# NUL cannot occur in the text of a statement: neither in a name nor in a literal.
_PLACE: Final = "\0%(name)s\0"


class Condition(NamedTuple):
    """A condition without the numbers of its parameters, which depend on the statement around it.

    Attributes:
        parts: The text before, between and after the parameters: one more than there are of these.
        parameters: The values, as the driver takes them.
    """

    parts: tuple[str, ...]
    parameters: tuple[object, ...]


def compiled(condition: ColumnElement[bool] | TextClause, dialect: Dialect) -> Condition:
    """Return a condition as text; its values are never part of it.

    Examples:
        >>> from sqlalchemy import column
        >>> compiled(column("room") == 5, "sqlite")
        Condition(parts=('room = ', ''), parameters=(5,))

    Raises:
        sqlalchemy.exc.CompileError: The dialect cannot express it.
    """
    compiler, pieces = pieces_of(condition, dialect)
    values = compiler.construct_params()
    parameters = (driver_value(values[name], dialect) for name in pieces[1::2])
    return Condition(tuple(pieces[0::2]), tuple(parameters))


def pieces_of(element: ClauseElement, dialect: Dialect) -> tuple[Any, list[str]]:
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
