"""How names of tables and columns enter the text of a statement: quoted, here and nowhere else."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["Dialect", "quoted", "quoted_column"]

Dialect: TypeAlias = Literal["postgresql", "sqlite"]


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
