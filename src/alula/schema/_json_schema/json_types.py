"""The types of JSON: which Python values have them, when two are equal, what coercion makes.

Coercion follows Ajv's ``coerceTypes``, with two differences. A number is written in decimal digits
(no hexadecimal, no surrounding blanks, no ``Infinity``). An object whose keys are the indexes of a
list becomes that list: in this form a query string carries more items than its array limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any, Final, TypeAlias, TypeGuard

from alula.query._grammar import as_list
from alula.types import UNSET, JSONValue, Unset, is_array, is_mapping

__all__ = ["TYPE_TESTS", "coercion", "is_number", "key_of", "type_test"]

Number: TypeAlias = int | float | Decimal
Convert: TypeAlias = Callable[[Any], object]
"""Returns `UNSET` for a value that cannot be converted."""

_NUMBERS: Final = (int, float, Decimal)
_ARRAYS: Final = (list, tuple)
_SCALARS: Final = (str, int, float, Decimal, type(None))
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# The largest float has 309 digits before the point.
_LONGEST_NUMBER: Final = 400
_EXACT_DIGITS: Final = 16
_INT64: Final = 2**63
_TEXTS: Final = {None: "", True: "true", False: "false"}
_WORDS: Final = {"true": True, "false": False}
_DIGITS: Final[Mapping[Any, bool]] = {1: True, 0: False}
_LARGEST: Final[int] = 10**400
"""Larger numbers are Decimals only; to write one out would take its exponent in digits."""


def is_number(value: object) -> TypeGuard[Number]:
    """Return whether this is a finite number; booleans are not numbers."""
    if type(value) is int:  # the quick test of most numbers
        return True
    return isinstance(value, _NUMBERS) and type(value) is not bool and isfinite(value)


TYPE_TESTS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": lambda value: type(value) is int or (is_number(value) and value % 1 == 0),
    "boolean": lambda value: value is True or value is False,
    "null": lambda value: value is None,
    "array": is_array,
    # Values that JSON has no type for, such as object ids and dates, are objects in JavaScript too.
    "object": lambda value: type(value) is dict or not isinstance(value, _SCALARS + _ARRAYS),
}


def type_test(names: Sequence[str]) -> Callable[[Any], bool]:
    """Return the test for any of these types."""
    tests = [TYPE_TESTS[name] for name in names]
    if len(tests) == 1:
        return tests[0]
    return lambda value: any(test(value) for test in tests)


def key_of(value: JSONValue) -> Hashable:
    """Return a key that is equal for values that are equal in JSON.

    ``1`` and ``1.0`` are equal, ``1`` and ``True`` are not, and the order of names does not count.
    """
    if isinstance(value, bool):
        return ("boolean", value)
    # Numbers become text. A client can choose numbers that all have one hash, and a set of those
    # takes quadratic time; it cannot choose such strings, whose hashes are randomized.
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


def coercion(names: Sequence[str]) -> Convert | None:
    """Return the function that converts a value to the first of these types that it can have.

    It is called with values that have none of them, and returns `UNSET` where none is possible.
    None if no value can be converted to any of the types.
    """
    converts = [_COERCIONS[name] for name in names if name in _COERCIONS]

    def coerce(value: object) -> object:
        tried = (convert(value) for convert in converts)
        return next((converted for converted in tried if converted is not UNSET), UNSET)

    return converts[0] if len(converts) == 1 else coerce if converts else None


def to_string(value: object) -> object:
    """Return a scalar as JavaScript writes it."""
    if value is None or isinstance(value, bool):
        return _TEXTS[value]
    if not is_number(value):
        return UNSET
    # JavaScript writes digits only below 1e21 and from 1e-6 on, Python below 1e16 and from 1e-4 on.
    if -(10**21) < value < 10**21 and value % 1 == 0:
        return str(int(value))
    if isinstance(value, float) and 1e-6 <= abs(value) < 1e-4:
        return format(Decimal(repr(value)), "f")
    # Python writes exponents of one digit with a zero (1e-07), JavaScript without one (1e-7).
    return re.sub(r"e([+-])0", r"e\1", repr(float(value)))


def to_number(value: object) -> Number | Unset:
    """Return the number that a text is; whole numbers are exact, also beyond 2**53."""
    if not isinstance(value, str):
        return int(value or 0) if value is None or isinstance(value, bool) else UNSET
    # Most are short and whole, and a float of so many digits has lost none.
    if len(value) < _EXACT_DIGITS and value.isdigit() and value.isascii():
        return int(value)
    # The length first: `int` takes quadratic time, and CPython refuses 4,300 digits.
    if len(value) > _LONGEST_NUMBER or _DECIMAL.fullmatch(value) is None:
        return UNSET
    number = float(value)
    if not isfinite(number):
        return UNSET
    # BSON has integers of 64 bits; larger ones are floats there, as all numbers in JavaScript.
    if number % 1 or not -_INT64 <= number < _INT64:
        return number
    # From the text: the float has lost digits beyond 2**53.
    return int(value) if value.lstrip("+-").isdigit() else int(number)


def to_integer(value: object) -> object:
    """Return the whole number that a text is."""
    number = to_number(value)
    return UNSET if number is UNSET or number % 1 else number


def to_boolean(value: object) -> object:
    """Return what ``true``, ``false``, 1, 0 and None mean."""
    if isinstance(value, str):
        return _WORDS.get(value, UNSET)
    numeric = value is None or is_number(value)
    return _DIGITS.get(value or 0, UNSET) if numeric else UNSET


def to_null(value: object) -> object:
    """Return None for an empty text, False and 0."""
    if isinstance(value, str | bool):
        return UNSET if value else None
    return None if is_number(value) and not value else UNSET


def to_array(value: object) -> object:
    """Return the list that an object with index keys means."""
    items = as_list(value) if is_mapping(value) and value else None
    return UNSET if items is None else items


_COERCIONS: Final[Mapping[str, Convert]] = {
    "string": to_string,
    "number": to_number,
    "integer": to_integer,
    "boolean": to_boolean,
    "null": to_null,
    "array": to_array,
}
