"""How two values compare, as MongoDB does it: first by type, then by value.

`sort_key` turns any value into a pair of Python values that compare the right way, so that order
and equality of all types come from one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from math import isfinite
from typing import Any, Final

from alula.types import SCALAR_TYPES

__all__ = [
    "ARRAY",
    "ARRAYS",
    "DATE",
    "MISSING",
    "NOTHING",
    "NULL",
    "OBJECT",
    "OTHER",
    "element_index",
    "is_finite",
    "is_nan",
    "is_number",
    "sort_key",
    "trimmed",
]

# The types in their order. A missing field counts as null; only an empty list comes before it.
NOTHING, NULL, NUMBER, STRING, OBJECT, ARRAY, BYTES, OTHER, BOOLEAN, DATE = range(10)

ARRAYS = (list, tuple)
"""The types of a list in a record."""


class _Missing:
    """The type of `MISSING`."""


MISSING: Final = _Missing()
"""Stands where a record has no such field."""


class _NotANumber:
    """NaN as a sort key: below every number, and equal to itself only."""

    def __lt__(self, other: object) -> bool:
        return other is not self

    def __gt__(self, other: object) -> bool:
        return False

    # Pairs ask for these only where two values are not equal.
    __le__, __ge__ = __lt__, __gt__


class _Own:
    """A value of a type that we do not know (an ObjectId, a UUID), in the order of that type."""

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]  # equal by order, so no key

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Own) and bool(self.value == other.value)

    def __lt__(self, other: _Own) -> bool:
        try:
            return bool(self.value < other.value)
        except TypeError:  # a type without an order: its values stay as they stand
            return False

    __le__ = __lt__  # asked for only where two values are not equal


_NAN = _NotANumber()
_EPOCH = datetime(1970, 1, 1)
_ZERO = timedelta()
_MAX_DEPTH = 100
"""MongoDB stores no more levels than this; what lies deeper counts as equal."""


def element_index(part: str, items: Sequence[Any]) -> int | None:
    """Return the index that a part of a dotted name is for a list, None where it is none."""
    if not part.isdecimal() or not part.isascii() or len(part) > 9:
        return None
    index = int(part)
    return index if index < len(items) and str(index) == part else None


def is_number(value: Any) -> bool:
    """Say whether this is a number; a bool is none."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def is_nan(number: Any) -> bool:
    """Say whether this number is the one that is none."""
    if isinstance(number, Decimal):
        return number.is_nan()
    return bool(number != number)  # noqa: PLR0124 - NaN alone is not equal to itself


def is_finite(number: Any) -> bool:
    """Say whether this number is neither NaN nor infinite."""
    if isinstance(number, Decimal):
        return number.is_finite()
    return isinstance(number, int) or isfinite(number)


def sort_key(value: Any, depth: int = 0) -> tuple[int, Any]:
    """Return a pair of type and payload; pairs compare as MongoDB compares the values.

    Args:
        value: Any value, `MISSING` included.
        depth: How many levels this value lies below the first one.
    """
    if isinstance(value, str):
        return STRING, value
    if isinstance(value, bool):
        return BOOLEAN, value
    if isinstance(value, (int, float, Decimal)):
        return NUMBER, _NAN if is_nan(value) else value
    if value is None or value is MISSING:
        return NULL, None
    if isinstance(value, Mapping):
        return OBJECT, _object_payload(value, depth + 1)
    if isinstance(value, ARRAYS):
        if depth >= _MAX_DEPTH:
            return ARRAY, ()
        return ARRAY, tuple([sort_key(item, depth + 1) for item in value])
    if isinstance(value, (bytes, bytearray)):
        return BYTES, (len(value), bytes(value))  # the shorter one comes first
    if isinstance(value, date):
        return DATE, _instant(value)
    kind = type(value)
    return OTHER, (f"{kind.__module__}.{kind.__qualname__}", _Own(value))


def _object_payload(value: Mapping[str, Any], depth: int) -> tuple[tuple[int, str, Any], ...]:
    """Return the fields in their order; of each, the type counts first, then name and value."""
    if depth > _MAX_DEPTH:
        return ()
    fields = []
    for name, inner in value.items():
        kind, payload = sort_key(inner, depth)
        fields.append((kind, name, payload))
    return tuple(fields)


def _instant(value: date) -> timedelta:
    """Return the time since 1970; a time without a zone is UTC, a day its midnight there."""
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day) - _EPOCH
    return value.replace(tzinfo=None) - _EPOCH - (value.utcoffset() or _ZERO)


def trimmed(value: Any, like: Any) -> Any:
    """Return as much of a value as decides how it compares to another.

    Whatever its size, that is no more than the other has.

    Args:
        value: Any value.
        like: What it is going to be compared to, by their sort keys.
    """
    if value.__class__ in SCALAR_TYPES:
        return value
    if isinstance(value, ARRAYS):
        if not isinstance(like, ARRAYS):
            return ()  # the types decide
        return [*map(trimmed, value, like), *([None] if len(value) > len(like) else ())]
    if isinstance(value, Mapping):
        if not isinstance(like, Mapping):
            return {}
        fields = zip(value.items(), chain(like.values(), (None,)), strict=False)
        return {name: trimmed(inner, other) for (name, inner), other in fields}
    return value
