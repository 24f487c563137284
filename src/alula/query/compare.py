"""How two values compare, as MongoDB does it: first by type, then by value.

`sort_key` turns any value into a pair of Python values that compare the right way, so that order
and equality of every type come from one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any, Final

__all__ = ["ARRAYS", "MISSING", "Rank", "is_nan", "is_number", "sort_key"]


class _Missing:
    """The type of `MISSING`."""


MISSING: Final = _Missing()
"""Stands where a record has no such field."""

ARRAYS = (list, tuple)
"""The types of a list in a record."""


class Rank(IntEnum):
    """The types in their order; a missing field counts as null, an empty list sorts before it."""

    NOTHING = 0
    NULL = 1
    NUMBER = 2
    STRING = 3
    OBJECT = 4
    ARRAY = 5
    BYTES = 6
    OTHER = 7
    BOOLEAN = 8
    DATE = 9


class _NotANumber:
    """NaN as a sort key: below every number and equal to itself only."""

    def __lt__(self, other: object) -> bool:
        return other is not self

    def __gt__(self, other: object) -> bool:
        return False


class _Own:
    """A value of a type that we do not know (an ObjectId, a UUID), in the order of that type."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Own) and bool(self.value == other.value)

    def __lt__(self, other: _Own) -> bool:
        try:
            return bool(self.value < other.value)
        except TypeError:  # a type without an order: what is not equal stays as it stands
            return False

    __hash__ = None  # type: ignore[assignment]


_NAN = _NotANumber()
_EPOCH = datetime(1970, 1, 1)
_ZERO = timedelta()
_MAX_DEPTH = 100
"""MongoDB stores no more levels; what lies deeper counts as equal here."""


def is_number(value: Any) -> bool:
    """Say whether this is a number; a bool is none."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def is_nan(value: Any) -> bool:
    """Say whether this is the number that is none."""
    return value.is_nan() if isinstance(value, Decimal) else bool(value != value)  # noqa: PLR0124


def sort_key(value: Any, depth: int = 0) -> tuple[int, Any]:
    """Return a pair of rank and payload; pairs compare as MongoDB compares the values.

    Args:
        value: Any value, `MISSING` included.
        depth: How many levels this value lies below the first one.
    """
    if isinstance(value, str):
        return Rank.STRING, value
    if isinstance(value, bool):
        return Rank.BOOLEAN, value
    if isinstance(value, (int, float, Decimal)):
        return Rank.NUMBER, _NAN if is_nan(value) else value
    if value is None or value is MISSING:
        return Rank.NULL, None
    if isinstance(value, Mapping):
        return Rank.OBJECT, _object_key(value, depth + 1)
    if isinstance(value, ARRAYS):
        if depth >= _MAX_DEPTH:
            return Rank.ARRAY, ()
        return Rank.ARRAY, tuple([sort_key(item, depth + 1) for item in value])
    if isinstance(value, (bytes, bytearray)):
        return Rank.BYTES, (len(value), bytes(value))
    if isinstance(value, date):
        return Rank.DATE, _instant(value)
    kind = type(value)
    return Rank.OTHER, (f"{kind.__module__}.{kind.__qualname__}", _Own(value))


def _object_key(value: Mapping[str, Any], depth: int) -> tuple[tuple[int, str, Any], ...]:
    # MongoDB compares field by field, and of each field the type, then the name, then the value.
    if depth > _MAX_DEPTH:
        return ()
    fields = []
    for name, inner in value.items():
        rank, payload = sort_key(inner, depth)
        fields.append((rank, name, payload))
    return tuple(fields)


def _instant(value: date) -> timedelta:
    """Return the time since 1970; a time without a zone is UTC, a day its midnight there."""
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day) - _EPOCH
    return value.replace(tzinfo=None) - _EPOCH - (value.utcoffset() or _ZERO)
