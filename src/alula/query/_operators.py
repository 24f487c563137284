"""The tests of operators on one value, as in MongoDB.

- A test is made once for a query, then called with single values, or with `MISSING`. Lists and
  dotted names are the matter of ``_match.py``.
- Values of different types are never equal, and never less or greater than each other.
- A value that an operator cannot use is a `BadRequest` when the test is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any, TypeAlias

from alula.errors import BadRequest
from alula.query._order import (
    ARRAY,
    ARRAYS,
    DATE,
    MISSING,
    OBJECT,
    OTHER,
    is_finite,
    is_nan,
    is_number,
    sort_key,
    trimmed,
)
from alula.types import SCALAR_TYPES, JSONValue, is_array

__all__ = ["VALUE_TESTS", "Test", "pattern_of", "truth_of"]

Test: TypeAlias = Callable[[Any], bool]


def _equal(wanted: JSONValue | re.Pattern[Any]) -> Test:
    if type(wanted) is str:
        return lambda value: bool(value == wanted)
    if wanted is None:
        return lambda value: value is None or value is MISSING
    if isinstance(wanted, bool):
        return lambda value: value is wanted
    if is_number(wanted):
        if is_nan(wanted):
            return lambda value: is_number(value) and is_nan(value)
        return lambda value: value == wanted and value.__class__ is not bool
    if isinstance(wanted, re.Pattern):
        if not isinstance(wanted.pattern, str):
            raise BadRequest(
                "Invalid query: a pattern of bytes matches no text; compile one of text"
            )
        matches = _matches(wanted)
        return lambda value: value == wanted or matches(value)
    key = sort_key(wanted)
    if key[0] in (OBJECT, ARRAY):
        return _same_container(wanted, key)
    if key[0] == DATE:
        return lambda value: isinstance(value, date) and sort_key(value) == key
    return lambda value: bool(value == wanted)


def _same_container(wanted: Any, key: tuple[int, Any]) -> Test:
    """Return the test for equality with an object or list; it reads only those of equal size."""
    container: Any = Mapping if key[0] == OBJECT else ARRAYS
    size = len(wanted)

    def equals(value: Any) -> bool:
        if not isinstance(value, container) or len(value) != size:
            return False
        for inner in value.values() if container is Mapping else value:
            if inner.__class__ not in SCALAR_TYPES:  # it may be far larger than the wanted value
                value = trimmed(value, wanted)
                break
        return sort_key(value) == key

    return equals


def among(wanted: list[Any]) -> Test:
    """Return the test of ``$in``: one lookup if all values are strings or all are numbers."""
    if all(isinstance(item, str) for item in wanted):
        strings = frozenset(wanted)
        return lambda value: isinstance(value, str) and value in strings
    if all(is_number(item) and not is_nan(item) for item in wanted):
        numbers = frozenset(wanted)
        return lambda value: is_number(value) and value in numbers
    tests = [_equal(item) for item in wanted]

    return lambda value: any(test(value) for test in tests)


def _range(compare: Callable[[Any, Any], bool]) -> Callable[[Any], Test]:
    """Return the function that makes the tests of ``$lt``, ``$lte``, ``$gt`` or ``$gte``."""
    with_equal = compare in (le, ge)

    def make(bound: JSONValue | re.Pattern[Any]) -> Test:
        if isinstance(bound, re.Pattern):
            raise BadRequest("Invalid query: a pattern has no order; compare with a value")
        if bound is None or (is_number(bound) and is_nan(bound)):
            # Nothing is less or greater than null or NaN; in MongoDB, both equal themselves.
            return _equal(bound) if with_equal else lambda _value: False
        if isinstance(bound, str):
            return lambda value: isinstance(value, str) and compare(value, bound)
        if is_number(bound):

            def in_number_range(value: object) -> bool:
                # The exact type first: most numbers are plain ints, which cannot be NaN.
                if value.__class__ is not int and (not is_number(value) or is_nan(value)):
                    return False
                return compare(value, bound)

            return in_number_range
        type_rank, payload = sort_key(bound)

        def in_range(value: JSONValue) -> bool:
            other_type, other = sort_key(trimmed(value, bound))
            return other_type == type_rank and compare(other, payload)

        def in_range_of_its_type(value: object) -> bool:
            try:
                return type(value) is type(bound) and bool(compare(value, bound))
            except TypeError:  # a type without an order
                return False

        # A type with an order of its own, such as ObjectId: its values compare best themselves.
        return in_range_of_its_type if type_rank == OTHER else in_range

    return make


def truth_of(value: object, operator: str = "$exists") -> bool:
    """Return the value of an operator such as ``$exists`` as a bool; over REST it is a string.

    Raises:
        BadRequest: It is neither true nor false.
    """
    if isinstance(value, str):
        if value in ("true", "1"):
            return True
        if value in ("false", "0"):
            return False
    elif value is None or isinstance(value, (bool, int, float)):
        return bool(value)
    raise BadRequest(f"Invalid value for {operator}: expected true or false")


def has_size(wanted: object) -> Test:
    size = _number("$size", wanted)
    if size < 0 or size % 1:
        raise BadRequest("Invalid value for $size: expected a whole number, 0 or more")
    return lambda value: is_array(value) and len(value) == size


def has_remainder(wanted: JSONValue) -> Test:
    if not isinstance(wanted, list) or len(wanted) != 2:
        raise BadRequest("Invalid value for $mod: expected a list of divisor and remainder")
    divisor, remainder = (int(_number("$mod", item)) for item in wanted)
    if divisor == 0:
        raise BadRequest("Invalid value for $mod: the divisor cannot be 0")

    def leaves_remainder(value: object) -> bool:
        if not is_number(value) or not is_finite(value):
            return False
        whole = int(value)
        rest = abs(whole) % abs(divisor)
        return (-rest if whole < 0 else rest) == remainder  # the sign is that of the value

    return leaves_remainder


def _number(name: str, value: object) -> int | float | Decimal:
    """Return a value as a number; over REST it is a string of digits."""
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,18}", value):
        return int(value)
    if is_number(value) and is_finite(value):
        return value
    raise BadRequest(f"Invalid value for {name}: expected a number")


def _matches(pattern: re.Pattern[str]) -> Test:
    search = pattern.search
    return lambda value: isinstance(value, str) and search(value) is not None


_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


def pattern_of(given: JSONValue | re.Pattern[Any], options: object) -> re.Pattern[str]:
    """Return the compiled pattern of ``$regex`` with its ``$options``.

    Raises:
        BadRequest: One of them is not valid.
    """
    if not isinstance(options, str) or not set(options) <= _FLAGS.keys():
        raise BadRequest("Invalid value for $options: expected letters out of i, m, s and x")
    flags = 0
    for letter in options:
        flags |= _FLAGS[letter]
    if isinstance(given, re.Pattern):
        flags |= given.flags
        given = given.pattern
    if not isinstance(given, str):
        raise BadRequest("Invalid value for $regex: expected a string")
    try:
        return re.compile(given, flags)
    except (re.error, RecursionError, OverflowError, ValueError, FutureWarning) as error:
        raise BadRequest(f"Invalid value for $regex: {error}") from error


VALUE_TESTS: dict[str, Callable[[Any], Test]] = {
    "$eq": _equal,
    "$in": among,
    "$lt": _range(lt),
    "$lte": _range(le),
    "$gt": _range(gt),
    "$gte": _range(ge),
    "$exists": lambda _wanted: lambda value: value is not MISSING,
    "$size": has_size,
    "$mod": has_remainder,
    "$regex": _matches,
}
"""By operator: the function that makes its test from its value."""
