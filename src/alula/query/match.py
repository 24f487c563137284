"""A query over plain records: `predicate` says which ones match, `ordered` puts them in order.

Both mean what MongoDB means by the same query. What holds in this file:

- A criterion is compiled once into closures; a record then costs only what it needs.
- A test looks at one value as it stands. What a field means for it (a list offers each of its
  elements and itself, dots lead through objects and lists) is decided around it, once.
- ``$ne``, ``$nin`` and ``$not`` are the opposite of the whole test on the field, so that they
  match records without the field, and lists in which no element matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import ge, gt, itemgetter, le, lt
from typing import Any

from alula.errors import BadRequest
from alula.query.compare import ARRAYS, MISSING, Rank, is_nan, is_number, sort_key
from alula.query.criteria import And, Criterion, Where

__all__ = ["SUPPORTED_OPERATORS", "ordered", "predicate"]

SUPPORTED_OPERATORS = frozenset(
    {"$eq", "$exists", "$size", "$all", "$regex", "$options", "$not", "$elemMatch", "$mod"}
)
"""The operators beyond the common syntax that `predicate` knows."""

Test = Callable[[Any], bool]
Record = Mapping[str, Any]
Builder = Callable[[str, Any], Test]

_WHOLE_LIST = frozenset({"$exists", "$size", "$elemMatch"})
"""Operators that look at a list itself and not at its elements."""


def predicate(criteria: And) -> Callable[[Record], bool]:
    """Return a function that says whether a record meets the criteria.

    Args:
        criteria: Those of a `Query`.

    Raises:
        BadRequest: The value of an opened operator makes no sense (an invalid ``$regex``), or
            the operator is none that records in memory can be tested for.
    """
    return _criterion(criteria)


def _criterion(criterion: Criterion) -> Test:
    if isinstance(criterion, Where):
        return _every(_tests(criterion.tests, _on_field(criterion.field)))
    parts = [_criterion(part) for part in criterion.parts]
    return _every(parts) if isinstance(criterion, And) else _any(parts)


def _every(tests: Sequence[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) and second(value)

    def every(value: Any) -> bool:
        for test in tests:
            if not test(value):
                return False
        return True

    return every


def _any(tests: Sequence[Test]) -> Test:
    def any_of(value: Any) -> bool:
        for test in tests:
            if test(value):
                return True
        return False

    return any_of


def _opposite(test: Test) -> Test:
    return lambda value: not test(value)


def _tests(tests: tuple[tuple[str, Any], ...], build: Builder) -> list[Test]:
    """Return one function for each test; `build` makes those that are no combination of others."""
    compiled = []
    for name, operand in tests:
        if name == "$ne":
            compiled.append(_opposite(build("$eq", operand)))
        elif name == "$nin":
            compiled.append(_opposite(build("$in", operand)))
        elif name == "$not":
            compiled.append(_opposite(_every(_tests(operand, build))))
        elif name == "$all":
            # Nothing has all of no values: MongoDB's rule.
            parts = [build("$eq", item) for item in operand]
            compiled.append(_every(parts) if parts else _any(()))
        elif name == "$exists":
            test = build("$exists", operand)
            compiled.append(test if _truth(operand) else _opposite(test))
        elif name == "$regex":
            compiled.append(build("$regex", _pattern(operand, dict(tests).get("$options", ""))))
        elif name != "$options":
            compiled.append(build(name, operand))
        elif "$regex" not in dict(tests):
            raise BadRequest("Invalid query parameter $options: it needs a $regex beside it")
    return compiled


def _value_test(name: str, operand: Any) -> Test:
    """Return the function that tests one value as it stands."""
    make = _VALUE_TESTS.get(name)
    if make is None:
        raise BadRequest(f"Invalid query parameter {name}: records in memory can not be tested so")
    return make(operand)


def _on_field(field: str) -> Builder:
    """Return what builds tests of the field of a record from tests of a value."""

    def build(name: str, operand: Any) -> Test:
        if "." in field:
            return _on_path(field, name, operand)
        if name == "$eq" and isinstance(operand, str):
            return _field_is_string(field, operand)
        test = _value_test(name, operand)
        if name in _WHOLE_LIST:
            return lambda record: test(record.get(field, MISSING))

        def on_field(record: Record) -> bool:
            value = record.get(field, MISSING)
            if test(value):
                return True
            if isinstance(value, ARRAYS):
                for item in value:
                    if test(item):
                        return True
            return False

        return on_field

    return build


def _field_is_string(field: str, wanted: str) -> Test:
    # The most frequent test of all, without a call for each record.
    def is_string(record: Record) -> bool:
        value = record.get(field)
        return value == wanted or (isinstance(value, ARRAYS) and wanted in value)

    return is_string


def _on_path(field: str, name: str, operand: Any) -> Test:
    test = _value_test(name, operand)
    path = field.split(".")
    expand = name not in _WHOLE_LIST

    def on_path(record: Record) -> bool:
        for value in _reach(record, path, 0, expand=expand):
            if test(value):
                return True
        return False

    return on_path


def _reach(value: Any, path: list[str], at: int, *, expand: bool) -> list[Any]:
    """Return all values that the rest of a dotted path leads to.

    Args:
        value: Where the path starts.
        path: The parts of the path.
        at: Index of the next part.
        expand: Whether a list at the end also gives each of its elements.
    """
    while at < len(path):
        if isinstance(value, ARRAYS):
            return _reach_through(value, path, at, expand=expand)
        if not isinstance(value, Mapping):
            return [MISSING]
        value = value.get(path[at], MISSING)
        at += 1
    return [*value, value] if expand and isinstance(value, ARRAYS) else [value]


def _reach_through(items: Sequence[Any], path: list[str], at: int, *, expand: bool) -> list[Any]:
    """Do the same for a list on the way: every object in it, and the element a number names."""
    found = []
    for item in items:
        if isinstance(item, Mapping):
            found += _reach(item, path, at, expand=expand)
    part = path[at]
    if part.isdecimal() and part.isascii() and len(part) < 10 and int(part) < len(items):
        item = items[int(part)]
        if at + 1 == len(path):
            found.append(item)
        elif isinstance(item, (Mapping, *ARRAYS)):
            found += _reach(item, path, at + 1, expand=expand)
    return found


def _equal(wanted: Any) -> Test:
    if wanted is None:
        return lambda value: value is None or value is MISSING
    if isinstance(wanted, bool):
        return lambda value: value is wanted
    if is_number(wanted):
        if is_nan(wanted):
            return lambda value: is_number(value) and is_nan(value)
        return lambda value: value == wanted and value.__class__ is not bool
    if isinstance(wanted, re.Pattern):
        return lambda value: value == wanted or _matches(wanted)(value)
    rank, key = sort_key(wanted)
    if rank in (Rank.OBJECT, Rank.ARRAY, Rank.DATE):
        return lambda value: sort_key(value) == (rank, key)
    return lambda value: bool(value == wanted)


def _among(wanted: list[Any]) -> Test:
    """Return the test of ``$in``: one lookup where all that is wanted is strings or numbers."""
    if all(isinstance(item, str) for item in wanted):
        strings = frozenset(wanted)
        return lambda value: isinstance(value, str) and value in strings
    return _any([_equal(item) for item in wanted])


def _range(compare: Callable[[Any, Any], bool]) -> Callable[[Any], Test]:
    """Return what makes the tests of one of ``$lt``, ``$lte``, ``$gt`` and ``$gte``.

    Values of different types are never less or greater than each other.
    """
    with_equal = compare in (le, ge)

    def make(bound: Any) -> Test:
        if bound is None or (is_number(bound) and is_nan(bound)):
            return _equal(bound) if with_equal else _any(())
        if isinstance(bound, str):
            return lambda value: isinstance(value, str) and compare(value, bound)
        if is_number(bound):
            return lambda value: is_number(value) and not is_nan(value) and compare(value, bound)
        rank, key = sort_key(bound)
        if rank == Rank.OTHER:
            return _own_range(compare, bound)

        def in_range(value: Any) -> bool:
            found_rank, found = sort_key(value)
            return found_rank == rank and compare(found, key)

        return in_range

    return make


def _own_range(compare: Callable[[Any, Any], bool], bound: Any) -> Test:
    """Return the test for a type with an order of its own, such as an ObjectId."""

    def in_range(value: Any) -> bool:
        try:
            return type(value) is type(bound) and bool(compare(value, bound))
        except TypeError:
            return False

    return in_range


def _has_size(wanted: Any) -> Test:
    size = _whole("$size", wanted)
    if size < 0:
        raise BadRequest("Invalid value for $size: expected a whole number from 0")
    return lambda value: isinstance(value, ARRAYS) and len(value) == size


def _has_element(wanted: And | tuple[tuple[str, Any], ...]) -> Test:
    if not isinstance(wanted, And):
        on_element = _every(_tests(wanted, _value_test))
        return lambda value: isinstance(value, ARRAYS) and any(map(on_element, value))
    meets = predicate(wanted)

    def has_element(value: Any) -> bool:
        if isinstance(value, ARRAYS):
            for item in value:
                if isinstance(item, Mapping):
                    if meets(item):
                        return True
                elif isinstance(item, ARRAYS) and meets(
                    {str(index): inner for index, inner in enumerate(item)}
                ):
                    return True
        return False

    return has_element


def _has_remainder(wanted: Any) -> Test:
    if not isinstance(wanted, list) or len(wanted) != 2:
        raise BadRequest("Invalid value for $mod: expected a list of divisor and remainder")
    divisor, remainder = (_whole("$mod", item) for item in wanted)
    if divisor == 0:
        raise BadRequest("Invalid value for $mod: the divisor can not be 0")

    def has_remainder(value: Any) -> bool:
        if not is_number(value) or is_nan(value) or value in (_INFINITY, -_INFINITY):
            return False
        whole = int(value)
        rest = abs(whole) % abs(divisor)
        return (-rest if whole < 0 else rest) == remainder

    return has_remainder


def _matches(pattern: re.Pattern[str]) -> Test:
    search = pattern.search
    return lambda value: isinstance(value, str) and search(value) is not None


def _pattern(given: Any, options: Any) -> re.Pattern[str]:
    """Return the compiled pattern of ``$regex`` with its ``$options``."""
    flags = 0
    if not isinstance(options, str) or not set(options) <= _FLAGS.keys():
        raise BadRequest("Invalid value for $options: expected letters out of i, m, s and x")
    for letter in options:
        flags |= _FLAGS[letter]
    if isinstance(given, re.Pattern):
        given, flags = given.pattern, flags | given.flags
    if not isinstance(given, str):
        raise BadRequest("Invalid value for $regex: expected a string")
    try:
        return re.compile(given, flags)
    except (re.error, RecursionError, OverflowError, ValueError, FutureWarning) as error:
        raise BadRequest(f"Invalid value for $regex: {error}") from error


def _truth(value: Any) -> bool:
    """Return the value of ``$exists``; over REST it is a string."""
    if isinstance(value, str):
        if value in ("true", "1"):
            return True
        if value in ("false", "0"):
            return False
    elif value is None or isinstance(value, (bool, int, float)):
        return bool(value)
    raise BadRequest("Invalid value for $exists: expected true or false")


def _whole(name: str, value: Any) -> int:
    """Return a whole number; over REST it is a string."""
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,18}", value):
        return int(value)
    if is_number(value) and not is_nan(value) and value % 1 == 0:
        return int(value)
    raise BadRequest(f"Invalid value for {name}: expected a whole number")


_INFINITY = float("inf")
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_VALUE_TESTS: dict[str, Callable[[Any], Test]] = {
    "$eq": _equal,
    "$in": _among,
    "$lt": _range(lt),
    "$lte": _range(le),
    "$gt": _range(gt),
    "$gte": _range(ge),
    "$exists": lambda _: lambda value: value is not MISSING,
    "$size": _has_size,
    "$elemMatch": _has_element,
    "$mod": _has_remainder,
    "$regex": _matches,
}


def ordered(records: Iterable[Record], sort: Sequence[tuple[str, int]]) -> list[Any]:
    """Return the records in the order that MongoDB gives them.

    Records that are equal in all fields stay in the order in which they came.

    Args:
        records: The records; they are not changed.
        sort: Pairs of field and 1 or -1, the first counts most.
    """
    result = list(records)
    # A stable sort by the last field first makes the first one count most.
    for field, direction in reversed(sort):
        descending = direction < 0
        key = _plain_key(result, field) or _field_key(field, descending)
        result.sort(key=key, reverse=descending)
    return result


def _plain_key(records: list[Record], field: str) -> Callable[[Record], Any] | None:
    """Return the value itself as key where all values are strings or all are numbers."""
    key = itemgetter(field)
    try:
        kinds = set(map(type, map(key, records)))
    except KeyError:
        return None
    if kinds == {str} or kinds == {int}:
        return key
    if kinds <= {int, float} and not any(map(is_nan, map(key, records))):
        return key
    return None


def _field_key(field: str, descending: bool) -> Callable[[Record], Any]:
    """Return the key of any field: a list counts by its smallest or its largest element."""
    path = field.split(".")
    choose = max if descending else min

    def key(record: Record) -> Any:
        values = _reach(record, path, 0, expand=False)
        keys = []
        for value in values:
            if isinstance(value, ARRAYS):
                keys += [sort_key(item) for item in value] or [(Rank.NOTHING, None)]
            else:
                keys.append(sort_key(value))
        return choose(keys) if keys else (Rank.NULL, None)

    return key
