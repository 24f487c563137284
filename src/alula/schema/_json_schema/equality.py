"""Equality of JSON values, for ``const``, ``enum`` and ``uniqueItems``.

``1`` and ``1.0`` are equal, ``1`` and ``True`` are not, and the order of an object's names does not
count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from math import isfinite
from typing import Any, Final
from uuid import UUID

from alula.errors import BadRequest

__all__ = ["check_hashes", "key_of"]

MANY: Final = 1000
"""Entries of a list or an object from which on the numbers in its texts are looked at."""

MOST_OF_ONE_HASH: Final = 100
"""How many different texts in it may stand for numbers or UUIDs of one hash."""

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


def check_hashes(value: Any) -> None:
    """Raise where very many texts stand for numbers or UUIDs that have one hash.

    A model may make a set or the keys of a dict of them. Python looks through all of one hash for
    each, so that some ten thousand hold the process for seconds.

    Raises:
        BadRequest: There are more than `MOST_OF_ONE_HASH` in one list or object.
    """
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if len(value) > MANY:
            _check_texts(value)
        inner = value.values() if type(value) is dict else value
        waiting += [each for each in inner if type(each) is dict or type(each) is list]


def _check_texts(texts: Iterable[Any]) -> None:
    same: defaultdict[int, set[str]] = defaultdict(set)
    for text in texts:
        number = _number_of(text) if type(text) is str and len(text) > 9 else None
        if number is not None:
            found = same[hash(number)]
            found.add(text)
            if len(found) > MOST_OF_ONE_HASH:
                raise BadRequest("The data has too many numbers of one hash; send fewer of them")


def _number_of(text: str) -> Decimal | UUID | None:
    for kind in (Decimal, UUID):
        with suppress(ValueError, ArithmeticError):
            number = kind(text)
            return None if isinstance(number, Decimal) and number.is_nan() else number
    return None
