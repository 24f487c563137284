"""The types of columns for JSON and for lists."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from alula.adapters.sql._columns._column_types import SQL_OPERATORS, ColumnType, Comparison
from alula.adapters.sql._names import Dialect
from alula.errors import BadRequest
from alula.outgoing._text import iso_duration, javascript_date
from alula.types import JSONValue, is_array

__all__ = ["ArrayType", "JsonType"]

_NUL_IN_JSON: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

# Strings first, so that a number within one is not taken for one.
_LARGE_FLOAT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|(-?\d)(?:\.(\d+))?e\+(\d+)')


class JsonType(ColumnType):
    """Any JSON; text for both drivers."""

    name, expected, _casts = "json", "JSON", ("jsonb",)

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        # The type json, unlike jsonb, has neither equality nor an order.
        self.equality = self.collation = "::jsonb" if dialect == "postgresql" else ""
        self.from_driver = read_json

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        if operator not in ("$eq", "$ne"):
            raise BadRequest(f"Invalid operator {operator} for {field}: JSON has no order")
        return SQL_OPERATORS[operator], self.store(value, field)

    def store(self, value: object, field: str) -> object:
        try:
            text = json.dumps(
                value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
            )
            text.encode()  # halves of surrogate pairs
        except (TypeError, ValueError, RecursionError):
            raise self.refusal(field) from None
        if _NUL_IN_JSON.search(text):
            raise self.refusal(field, "JSON without the character NUL")
        if self.dialect == "postgresql" and "e+" in text:
            # jsonb keeps 1e+300 as an integer of 301 digits, but a fraction as it was written.
            # Python writes an exponent from 16 on, which is more than the digits after the point.
            text = _LARGE_FLOAT.sub(
                lambda match: (
                    f"{match[1]}{(match[2] or '').ljust(int(match[3]), '0')}.0"
                    if match[1]
                    else match[0]
                ),
                text,
            )
        return text


def _plain(value: object) -> object:
    """Return the JSON form of a value that JSON does not know, as responses have it."""
    for types, form in _JSON_FORMS:
        if isinstance(value, types):
            return form(value)
    raise TypeError


_JSON_FORMS: Final[tuple[tuple[Any, Callable[[Any], object]], ...]] = (
    (datetime, javascript_date),
    ((date, time), lambda value: value.isoformat()),
    (timedelta, iso_duration),
    ((Decimal, UUID), str),
    (bytes, lambda value: b64encode(value).decode()),
    (Enum, lambda member: member.value),
    (Mapping, dict),
    ((set, frozenset), list),
)


def read_json(value: Any) -> Any:
    # A column that is not strict may hold numbers, or text that is not JSON.
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


class ArrayType(ColumnType):
    """Lists of values of one type; SQLite has them as JSON.

    Args:
        dialect: The dialect.
        element: The type of the elements.
        depth: How many lists are within each other.
    """

    name = "array"

    def __init__(self, dialect: Dialect, element: ColumnType, depth: int = 1) -> None:
        # The elements as text first, then as what they are: asyncpg needs no codec for these.
        exact = (f"{element.exact}[]",) if element.exact else ()
        super().__init__(dialect, *element.array_cast.split("::"), *exact)
        self.element = self._element = element
        self._depth = depth
        self.expected = f"a list, each of {element.expected}"
        self.read_cast = f"{element.read_cast}[]" if element.read_cast else ""
        if dialect == "sqlite" or element.from_driver is not None:
            self.from_driver = lambda value: self._items(read_json(value))

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        if operator not in ("$eq", "$ne") or self._element.name == "json":
            raise BadRequest(f"Invalid operator {operator} for {field}: such lists have no order")
        return SQL_OPERATORS[operator], self.store(value, field)

    def store(self, value: object, field: str) -> object:
        items = self._stored(value, field, self._depth)
        if self.dialect == "postgresql":
            return items
        return json.dumps(items, ensure_ascii=False, separators=(",", ":"), default=_plain)

    def _stored(self, value: object, field: str, depth: int) -> list[object]:
        if not is_array(value):
            raise self.refusal(field)
        if depth > 1:
            return [self._stored(item, field, depth - 1) for item in value]
        store = self._element.store
        return [None if item is None else store(item, field) for item in value]

    def _items(self, value: JSONValue) -> object:
        if isinstance(value, list):
            return [self._items(item) for item in value]
        read = self._element.from_driver
        return value if value is None or read is None else read(value)
