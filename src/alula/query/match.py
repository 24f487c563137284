"""Which plain records a query matches: `predicate` makes the function that says it.

What holds in this file:

- Criteria are compiled once into functions; a record then costs only what it needs.
- A list offers each of its elements and itself to a test, and a dotted name leads through
  objects and lists.
- ``$ne``, ``$nin`` and ``$not`` are the opposite of a whole test on a field, so that they match
  records without the field, and lists of which no element matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from alula.errors import BadRequest
from alula.query.compare import ARRAYS, MISSING, element_index, is_nan, is_number
from alula.query.criteria import And, Criterion, Where
from alula.query.operators import VALUE_TESTS, Test, pattern_of, truth_of

__all__ = ["SUPPORTED_OPERATORS", "predicate"]

SUPPORTED_OPERATORS = frozenset(
    {"$eq", "$exists", "$size", "$all", "$regex", "$options", "$not", "$elemMatch", "$mod"}
)
"""The operators beyond the common syntax that `predicate` knows."""

Record = Mapping[str, Any]
Builder = Callable[[str, Any], Test]
"""Makes the test for an operator and its value."""

_WHOLE_LIST = frozenset({"$exists", "$size", "$elemMatch"})
"""Operators that look at a list itself and not at its elements."""


def predicate(criteria: And) -> Callable[[Record], bool]:
    """Return a function that says whether a record meets the criteria, as MongoDB means them.

    Args:
        criteria: Those of a `Query`.

    Raises:
        BadRequest: The value of an opened operator makes no sense (an invalid ``$regex``), or
            records in memory can not be tested for the operator.
    """
    return _criterion(criteria)


def _criterion(criterion: Criterion) -> Test:
    if isinstance(criterion, Where):
        return _all(_tests(criterion.tests, _on_field(criterion.field)))
    parts = [_criterion(part) for part in criterion.parts]
    return _all(parts) if isinstance(criterion, And) else _any(parts)


def _all(tests: Sequence[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) and second(value)

    def all_of(value: Any) -> bool:
        for test in tests:  # noqa: SIM110 - a generator costs more than most tests
            if not test(value):
                return False
        return True

    return all_of


def _any(tests: Sequence[Test]) -> Test:
    def any_of(value: Any) -> bool:
        for test in tests:  # noqa: SIM110 - as above
            if test(value):
                return True
        return False

    return any_of


def _opposite(test: Test) -> Test:
    return lambda value: not test(value)


def _tests(tests: tuple[tuple[str, Any], ...], build: Builder) -> list[Test]:
    """Return one function for each test.

    Args:
        tests: Pairs of operator and value.
        build: Makes the tests that are no combination of others.
    """
    compiled = []
    named = dict(tests)
    for name, value in tests:
        if name in _OPPOSITES:
            compiled.append(_opposite(build(_OPPOSITES[name], value)))
        elif name == "$not":
            compiled.append(_opposite(_all(_tests(value, build))))
        elif name == "$all":
            parts = [build("$eq", item) for item in value]
            compiled.append(_all(parts) if parts else _any(()))  # nothing has all of no values
        elif name == "$exists":
            exists = build(name, value)
            compiled.append(exists if truth_of(value) else _opposite(exists))
        elif name == "$regex":
            compiled.append(build(name, pattern_of(value, named.get("$options", ""))))
        elif name != "$options":
            compiled.append(build(name, value))
        elif "$regex" not in named:
            raise BadRequest("Invalid query parameter $options: it needs a $regex beside it")
    return compiled


_OPPOSITES = {"$ne": "$eq", "$nin": "$in"}


def _on_value(name: str, wanted: Any) -> Test:
    """Return the test of one value as it stands."""
    if name == "$elemMatch":
        return _has_element(wanted)
    make = VALUE_TESTS.get(name)
    if make is None:
        raise BadRequest(f"Invalid query parameter {name}: records in memory know no such test")
    return make(wanted)


def _has_element(wanted: And | tuple[tuple[str, Any], ...]) -> Test:
    """Return the test of ``$elemMatch``: of elements themselves, or of the fields in them."""
    if isinstance(wanted, And):
        meets = _on_fields_of_element(_criterion(wanted))
    else:
        meets = _all(_tests(wanted, _on_value))
    return lambda value: isinstance(value, ARRAYS) and any(map(meets, value))


def _on_fields_of_element(test: Test) -> Test:
    def meets(item: Any) -> bool:
        if isinstance(item, ARRAYS):  # a list in a list counts as an object with index keys here
            item = {str(index): inner for index, inner in enumerate(item)}
        return isinstance(item, Mapping) and test(item)

    return meets


def _on_field(field: str) -> Builder:
    """Return what makes the tests of a field of a record."""

    def build(name: str, wanted: Any) -> Test:
        if "." in field:
            return _on_path(field, name, wanted)
        if name == "$eq" and isinstance(wanted, str):
            return _equals_string(field, wanted)
        if name == "$eq" and is_number(wanted) and not is_nan(wanted):
            return _equals_number(field, wanted)
        test = _on_value(name, wanted)
        if name in _WHOLE_LIST:
            return lambda record: test(record.get(field, MISSING))

        def on_field(record: Record) -> bool:
            value = record.get(field, MISSING)
            return test(value) or (isinstance(value, ARRAYS) and any(map(test, value)))

        return on_field

    return build


# The two most frequent tests once more, without a second call for each record.


def _equals_string(field: str, wanted: str) -> Test:
    def equals(record: Record) -> bool:
        value = record.get(field)
        return value == wanted or (isinstance(value, ARRAYS) and wanted in value)

    return equals


def _equals_number(field: str, wanted: Any) -> Test:
    def equals(record: Record) -> bool:
        value = record.get(field)
        if value == wanted:
            return value.__class__ is not bool
        return isinstance(value, ARRAYS) and any(
            item == wanted and item.__class__ is not bool for item in value
        )

    return equals


def _on_path(field: str, name: str, wanted: Any) -> Test:
    test = _on_value(name, wanted)
    path = field.split(".")
    expand = name not in _WHOLE_LIST

    def on_path(record: Record) -> bool:
        value: Any = record
        for at, part in enumerate(path):
            if value.__class__ is not dict:  # a list on the way, or the end of the way
                return any(map(test, _reach(value, path, at, set(), expand=expand)))
            value = value.get(part, MISSING)
        return test(value) or (expand and isinstance(value, ARRAYS) and any(map(test, value)))

    return on_path


def _reach(
    value: Any, path: list[str], at: int, seen: set[tuple[int, int]], *, expand: bool
) -> list[Any]:
    """Return all values that the rest of a dotted name leads to.

    Args:
        value: Where it starts.
        path: The parts of the name.
        at: Index of the next part.
        seen: The lists that were gone through, each with the index of the part.
        expand: Whether a list at the end also gives each of its elements.
    """
    while at < len(path):
        if isinstance(value, ARRAYS):
            return _reach_through(value, path, at, seen, expand=expand)
        if not isinstance(value, Mapping):
            return [MISSING]
        value = value.get(path[at], MISSING)
        at += 1
    return [*value, value] if expand and isinstance(value, ARRAYS) else [value]


def _reach_through(
    items: Sequence[Any], path: list[str], at: int, seen: set[tuple[int, int]], *, expand: bool
) -> list[Any]:
    """Do the same for a list on the way: each object in it, and the element a number names."""
    # Numbers lead to one list on several ways, whose number would grow with each level.
    if (id(items), at) in seen:
        return []
    seen.add((id(items), at))
    found = []
    for item in items:
        if isinstance(item, Mapping):
            found += _reach(item, path, at, seen, expand=expand)
    index = element_index(path[at], items)
    if index is not None:
        item = items[index]
        if at + 1 == len(path):
            found.append(item)
        elif isinstance(item, (Mapping, *ARRAYS)):
            found += _reach(item, path, at + 1, seen, expand=expand)
    return found
