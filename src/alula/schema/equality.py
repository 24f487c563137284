"""Equality of JSON values, for ``const``, ``enum`` and ``uniqueItems``.

``1`` and ``1.0`` are equal, ``1`` and ``True`` are not, and the order of an object's names does not
count.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, Final

__all__ = ["key_of"]

_LARGEST: Final[int] = 10**400
"""Larger numbers are Decimals alone; to write one out would take its exponent in digits."""


def key_of(value: Any) -> Hashable:
    """Return what is equal for equal values and can be looked up in a set.

    Numbers become text: the hashes of strings cannot be foreseen, those of numbers can, and a set
    of numbers that clients chose so that all have one hash takes the square of their count.
    """
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int):
        return ("number", f"{value:x}")
    if isinstance(value, float | Decimal):
        whole = isfinite(value) and -_LARGEST < value < _LARGEST and value % 1 == 0
        return ("number", f"{int(value):x}" if whole else str(value))
    if isinstance(value, Mapping):
        return ("object", frozenset((name, key_of(item)) for name, item in value.items()))
    if isinstance(value, list | tuple):
        return ("array", *map(key_of, value))
    return value if isinstance(value, Hashable) else (type(value), repr(value))
