"""Translates errors of the databases and their drivers into errors that clients may see.

The driver's text stays in the log: it holds statements and the values of other records.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import sys
from types import TracebackType
from typing import Any, Final

from alula.adapters._errors import (
    changed_meanwhile,
    missing_reference,
    not_valid,
    timed_out,
    unavailable,
    unknown_error,
    value_taken,
)
from alula.adapters.sql._tables._constraints import Constraints
from alula.adapters.sql._tables._tables import Table
from alula.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    FrameworkError,
    GeneralError,
    Unavailable,
)

__all__ = [
    "is_of_asyncpg",
    "is_outage",
    "is_serialization_failure",
    "raise_translated",
    "translated",
    "was_undone",
]

_log = logging.getLogger("alula.sql")

_NO_CONSTRAINTS: Final = Constraints({}, {})
_SERIALIZATION: Final = frozenset({"40001", "40P01"})
_REFUSED: Final = frozenset({"22", "23", "54", "P0"})
"""The first two characters of SQLSTATEs for values and rows that are not valid; with 54, they are
too large: for an index, for a search."""

_UNAVAILABLE: Final = frozenset({"08", "53", "57"})
_CANCELED: Final = "57014"
_NULL: Final = "23502"
_FOREIGN: Final = frozenset({"23503", "23001"})
_UNIQUE: Final = frozenset({"23505", "23P01"})
_CHECK: Final = "23514"
_UNDEFINED: Final = frozenset({"42P01", "42703"})  # a table, a column
_UNDEFINED_IN_SQLITE: Final = re.compile(r"no such (table|column): |table .* has no column named ")
_BEHIND_THE_MODEL: Final = (
    "; the tables are not as the models: run `alula migrate`, or in development make the missing"
    " ones by `await database.create()`"
)


class translated:  # noqa: N801  # used like a function
    """Raises errors of `alula.errors` for those of the database and its driver.

    Args:
        table: The table that a statement is about, for the names of fields.
        removes: Whether the statement removes records, so that a foreign key that fails is that of
            others, which refer to them.

    Raises:
        Conflict: A unique value is taken, other records refer to this one, or another write was
            faster.
        BadRequest: The database refuses the data or the query.
        Forbidden: The user of the database, or its row-level security, does not allow it.
        Timeout: The time limit was exceeded.
        Unavailable: The database cannot be reached, or has no free connection.
        GeneralError: Anything else; the log names it.

    Examples:
        >>> with translated():
        ...     raise TimeoutError
        Traceback (most recent call last):
        ...
        alula.errors.Timeout: The database took too long
    """

    __slots__ = ("_removes", "_table")

    def __init__(self, table: Table | None = None, *, removes: bool = False) -> None:
        self._table, self._removes = table, removes

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            raise_translated(error, self._table, removes=self._removes)


def raise_translated(error: BaseException, table: Table | None, *, removes: bool = False) -> None:
    """Raise what `translated` raises for an error, nothing if it leaves that one as it is.

    It is for calls that are made all the time: without an error, an ``except`` costs nothing.
    """
    translation = translation_of(error, table, removes=removes)
    if translation is not None:
        raise translation from error


def is_outage(error: BaseException) -> bool:
    """Tell whether the database is away or takes no more work, so every statement fails now."""
    if isinstance(error, TimeoutError):  # which is an OSError
        return False
    if isinstance(error, sqlite3.Error):
        return primary_name(error) in _SQLITE_UNAVAILABLE
    if is_of_asyncpg(error):
        state = _sqlstate(error)
        return not state or (state != _CANCELED and state[:2] in _UNAVAILABLE)
    return isinstance(error, OSError)


def was_undone(error: BaseException) -> bool:
    """Tell whether PostgreSQL itself reported an error, so the statement had no effect.

    After a time limit or a lost connection nobody knows. An error of the driver while it reads the
    rows comes after the effect.
    """
    return bool(_sqlstate(error)) and not is_outage(error)


def is_serialization_failure(error: BaseException) -> bool:
    """Tell whether an error, or what caused it, asks to begin the transaction anew."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if _sqlstate(cause) in _SERIALIZATION or _is_of_changed_table(cause):
            return True
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False


def translation_of(
    error: BaseException, table: Table | None, *, removes: bool
) -> FrameworkError | None:
    if isinstance(error, FrameworkError):
        return None
    # Before OSError, whose subclass it is.
    if isinstance(error, TimeoutError):
        return timed_out(_log)
    if isinstance(error, sqlite3.Error):
        return of_sqlite(error, table, removes)
    if is_of_asyncpg(error):
        return of_postgresql(error, table, removes)
    if isinstance(error, OSError):
        return of_outage(error)
    if isinstance(error, OverflowError | UnicodeEncodeError):
        return of_refused_value(error)
    return None


def is_of_asyncpg(error: BaseException) -> bool:
    """Tell whether PostgreSQL or its driver has raised an error."""
    # Without an import: SQLite needs no asyncpg, and what is not loaded has not raised.
    asyncpg: Any = sys.modules.get("asyncpg")
    return asyncpg is not None and isinstance(
        error,
        asyncpg.PostgresError | asyncpg.InterfaceError | asyncpg.InternalClientError,
    )


def _sqlstate(error: BaseException) -> str:
    return (getattr(error, "sqlstate", None) or "") if is_of_asyncpg(error) else ""


# -- PostgreSQL ------------------------------------------------------------------------------------


def _is_of_changed_table(error: BaseException) -> bool:
    """Tell whether a prepared statement met a table whose columns are others now.

    asyncpg prepares it anew by itself, except in a transaction, which has failed by then.
    """
    return is_of_asyncpg(error) and isinstance(
        error, sys.modules["asyncpg"].InvalidCachedStatementError
    )


def of_postgresql(error: Any, table: Table | None, removes: bool) -> FrameworkError:
    state = _sqlstate(error)
    if state == _CANCELED:
        return timed_out(_log)
    if not state or state[:2] in _UNAVAILABLE:  # errors without a state are those of a connection
        return of_outage(error)
    if state in _SERIALIZATION or state == "55P03":
        return changed_meanwhile()
    if _is_of_changed_table(error):
        return Unavailable("The tables of the database have just been changed; try again")
    if state == "42501":
        _log.warning("the database does not allow this: %.1000s", error)
        return Forbidden("The database does not allow this")
    if state in _UNIQUE:
        return value_taken(fields(error, table))
    if state in _FOREIGN:
        is_own = table is not None and error.table_name == table.name
        if removes or not is_own:
            return referred_to()
        return missing_reference(fields(error, table))
    if state == _NULL:
        return null((error.column_name,) if error.column_name else (), table)
    if state == _CHECK:
        return check(fields(error, table))
    if state[:2] in _REFUSED:
        return of_refused_value(error)
    return unknown(error, _BEHIND_THE_MODEL if state in _UNDEFINED and table is not None else "")


def fields(error: Any, table: Table | None) -> tuple[str, ...]:
    """Return the fields of the constraint that an error of PostgreSQL names."""
    if table is None or not error.constraint_name or error.table_name != table.name:
        return ()
    constraint = table.constraints.get(error.constraint_name)
    return () if constraint is None else table.constraints.fields(constraint.columns)


# -- SQLite ----------------------------------------------------------------------------------------


def of_sqlite(error: sqlite3.Error, table: Table | None, removes: bool) -> FrameworkError:
    name: str = getattr(error, "sqlite_errorname", None) or ""
    constraints = _NO_CONSTRAINTS if table is None else table.constraints
    # The text says which columns after the colon: "UNIQUE constraint failed: users.email".
    prefix = "" if table is None else f"{table.name}."
    columns = [column.removeprefix(prefix) for column in str(error).partition(": ")[2].split(", ")]
    fields = constraints.fields(tuple(columns))
    if name in {"SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"}:
        return value_taken(fields)
    if name == "SQLITE_CONSTRAINT_ROWID":
        return value_taken(() if table is None else (table.id.name,))
    if name == "SQLITE_CONSTRAINT_FOREIGNKEY":
        if removes:
            return referred_to()
        keys = constraints.foreign_keys  # the text names none
        return missing_reference(constraints.fields(keys[0]) if len(keys) == 1 else ())
    if name == "SQLITE_CONSTRAINT_NOTNULL":
        return null(tuple(columns), table)
    if name == "SQLITE_CONSTRAINT_CHECK":
        constraint = constraints.get(columns[0])
        return check(() if constraint is None else constraints.fields(constraint.columns))
    if name == "SQLITE_INTERRUPT":
        return timed_out(_log)
    if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError):
        # Of a strict table: "cannot store TEXT value in INTEGER column users.age".
        column = str(error).rpartition(" column ")[2].removeprefix(prefix)
        return of_refused_value(error, constraints.fields((column,)))
    if primary_name(error) in _SQLITE_UNAVAILABLE:
        return of_outage(error)
    # SQLite has one code for all mistakes in statements; only the text says which.
    is_behind = table is not None and _UNDEFINED_IN_SQLITE.match(str(error))
    return unknown(error, _BEHIND_THE_MODEL if is_behind else "")


def primary_name(error: sqlite3.Error) -> str:
    """Return the name of an error without its details: SQLITE_IOERR for SQLITE_IOERR_READ."""
    name: str = getattr(error, "sqlite_errorname", None) or ""
    return "_".join(name.split("_")[:2])


_SQLITE_UNAVAILABLE: Final = frozenset(
    {"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN"}
)


# -- one function for each sort of error -----------------------------------------------------------


def referred_to() -> Conflict:
    return Conflict("Other records refer to this one")


def null(columns: tuple[str, ...], table: Table | None) -> FrameworkError:
    fields = () if table is None else table.constraints.fields(columns)
    if table is not None and columns and not fields:
        # No client can send what the model does not have.
        _log.error(
            "the table %r needs a value for %s, which the model of its service does not have",
            table.name,
            ", ".join(map(repr, columns)),
        )
        return unknown_error()
    named = " and ".join(fields) or "A property"
    return BadRequest(f"{named} is missing", errors=dict.fromkeys(fields, "is missing") or None)


def check(fields: tuple[str, ...]) -> BadRequest:
    named = " and ".join(fields) or "A property"
    return BadRequest(
        f"{named} has a value that is not allowed",
        errors=dict.fromkeys(fields, "is not allowed") or None,
    )


def of_refused_value(error: BaseException, fields: tuple[str, ...] = ()) -> BadRequest:
    return not_valid(_log, str(error), fields)


def of_outage(error: BaseException) -> Unavailable:
    notes: list[str] = getattr(error, "__notes__", [])
    return unavailable(": ".join([*notes, _reason(error)]))


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)  # shorter than asyncio's, which repeats the address
    return str(error) or type(error).__name__


def unknown(error: BaseException, hint: str) -> GeneralError:
    _log.error("the database reported an error: %.1000r%s", error, hint)
    return unknown_error()
