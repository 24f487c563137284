"""Equality of JSON values, for ``const``, ``enum`` and ``uniqueItems``.

``1`` and ``1.0`` are equal, ``1`` and ``True`` are not, and the order of an object's names does not
count.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

__all__ = ["key_of"]


def key_of(value: Any) -> Hashable:
    """Return what is equal for equal values and can be looked up in a set."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, Mapping):
        return ("object", frozenset((name, key_of(item)) for name, item in value.items()))
    if isinstance(value, list | tuple):
        return ("array", *map(key_of, value))
    return value if isinstance(value, Hashable) else (type(value), repr(value))
