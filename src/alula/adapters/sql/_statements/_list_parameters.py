"""Lists of values as one parameter, so that they have no bound: JSON for SQLite, arrays as text."""

from __future__ import annotations

import json
from collections.abc import Sequence

from alula.adapters.sql._columns._column_types import ColumnType
from alula.types import JSONValue

__all__ = ["array_text", "json_list", "json_rows", "json_value"]


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
    return "{" + ",".join(map(element_text, values)) + "}"


def element_text(value: JSONValue) -> str:
    """Return a driver's value as an element of `array_text`."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return array_text(value) or ""
    text = rf"\x{value.hex()}" if isinstance(value, bytes) else str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
