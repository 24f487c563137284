"""Pieces of statements: places for parameters, conditions, and lists as one parameter.

Text has known names and constant words only. Each value has a place, which is a NUL until the
whole statement is known (`Shapes` numbers them then): no name can have one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from alula.adapters.sql._columns._column_types import ColumnType
from alula.adapters.sql._tables._tables import Column
from alula.types import JSONValue

__all__ = [
    "PLACE",
    "all_of",
    "any_of",
    "array_text",
    "json_list",
    "json_rows",
    "json_value",
    "literal",
    "negated",
    "place_of",
    "where_of",
]

PLACE: Final = "\0"
"""A place for a parameter, until the places of a statement are numbered."""


def place_of(column: Column) -> str:
    """Return the place for a value of a column."""
    return f"{PLACE}::{column.type.cast}" if column.type.cast else PLACE


def literal(text: str) -> str:
    """Return a text of the application as a literal of SQL; values of calls are parameters."""
    return "'" + text.replace("'", "''") + "'"


# -- conditions ------------------------------------------------------------------------------------


def all_of(conditions: Sequence[str]) -> str:
    """Return one condition that holds if all of these do."""
    if not conditions:
        return "true"
    return conditions[0] if len(conditions) == 1 else f"({' and '.join(conditions)})"


def any_of(conditions: Sequence[str]) -> str:
    """Return one condition that holds if one of these does."""
    return conditions[0] if len(conditions) == 1 else f"({' or '.join(conditions)})"


def negated(condition: str) -> str:
    """Return the condition that holds where the other does not, also where that is null."""
    return f"({condition}) is not true"


def where_of(conditions: Sequence[str]) -> str:
    """Return the clause for conditions that must all hold, an empty one without any."""
    return f" where {' and '.join(conditions)}" if conditions else ""


# -- lists as one parameter ------------------------------------------------------------------------
# So they have no bound: JSON for SQLite, arrays for PostgreSQL.


def json_list(values: Sequence[object]) -> str:
    """Return driver's values as the JSON text that `json_value` reads; for SQLite."""
    return json.dumps([*map(_json_item, values)], ensure_ascii=False)


def json_rows(rows: Sequence[Sequence[object]]) -> str:
    """Return lists of driver's values as JSON text."""
    # Rows as lists: names in each object would be most of the text.
    return json.dumps([[*map(_json_item, row)] for row in rows], ensure_ascii=False)


def _json_item(value: object) -> object:
    # As text, so that Python reads it: SQLite may miss the nearest float by a bit.
    if type(value) is float:
        return repr(value)
    return value.hex() if type(value) is bytes else value


def json_value(type: ColumnType, value: str = "value") -> str:
    """Return the text that reads an item of `json_list` as a value of a type."""
    reader = {"number": "alula_float", "bytes": "alula_bytes"}.get(type.name)
    return f"{reader}({value})" if reader else value


def array_text(values: JSONValue) -> str | None:
    r"""Return a list of driver's values as text that PostgreSQL reads as an array.

    Examples:
        >>> array_text(["a", None, 'b "c"'])
        '{"a",NULL,"b \\"c\\""}'
    """
    if not isinstance(values, list):
        return None
    return "{" + ",".join(map(_element_text, values)) + "}"


def _element_text(value: JSONValue) -> str:
    """Return a driver's value as an element of `array_text`."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return array_text(value) or ""
    text = rf"\x{value.hex()}" if isinstance(value, bytes) else str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
