"""How names of tables and columns enter the text of a statement: quoted, here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

__all__ = ["RESERVED", "Dialect", "check_names", "quoted", "quoted_column"]

Dialect: TypeAlias = Literal["postgresql", "sqlite"]

RESERVED: Final = "alula_"
"""How every name begins that a statement itself gives: to a subquery, a list, or their columns.

No table or column of the application begins so (`check_names`), so neither hides the other and a
column without its table in front is never ambiguous."""

_FUNCTIONS: Final = {"postgresql": frozenset[str](), "sqlite": frozenset({"json_each"})}
"""What statements select from that a table of the same name would hide."""


def check_names(table: str, columns: Iterable[str], dialect: Dialect) -> None:
    """Refuse names of a table and its columns that statements give or need themselves.

    Raises:
        ValueError: One is reserved; the message says which.

    Examples:
        >>> check_names("notes", ["id", "alula_page"], "sqlite")
        Traceback (most recent call last):
        ValueError: the column 'alula_page' of the table 'notes' cannot have this name: names that
        begin with 'alula_' are reserved for parts of statements; rename it
    """
    if table.lower() in _FUNCTIONS[dialect]:
        raise ValueError(
            f"the table {table!r} cannot have this name: statements use the function of that name;"
            " rename it"
        )
    named = {f"the table {table!r}": table}
    named |= {f"the column {column!r} of the table {table!r}": column for column in columns}
    for what, name in named.items():
        # SQLite compares names without regard to case, even in quotes.
        if name.lower().startswith(RESERVED):
            raise ValueError(
                f"{what} cannot have this name: names that begin with {RESERVED!r} are reserved for"
                " parts of statements; rename it"
            )


def quoted(name: str) -> str:
    """Return the name of a table, column or constraint as SQL, in double quotes.

    Args:
        name: A name that the application knows, never one that a client sent.

    Raises:
        ValueError: The name is empty, holds a NUL, or is not valid Unicode.

    Examples:
        >>> quoted("order")
        '"order"'
    """
    name.encode()  # a UnicodeEncodeError is a ValueError
    # A NUL ends the text of a statement in both drivers.
    if not name or "\x00" in name:
        raise ValueError(f"{name!r} is not a name of a table or column: it is empty or has a NUL")
    return '"' + name.replace('"', '""') + '"'


def quoted_column(name: str, dialect: Dialect) -> str:
    """Return the name of a column as SQL.

    SQLite takes a name in double quotes that it does not know for text: a column that a migration
    has not made yet would have its own name as the value of each record. It never takes one in
    backticks for anything but a name.

    Raises:
        ValueError: As `quoted`.

    Examples:
        >>> quoted_column("room", "sqlite")
        '`room`'
    """
    if dialect == "postgresql":
        return quoted(name)
    return "`" + quoted(name)[1:-1].replace('""', '"').replace("`", "``") + "`"
