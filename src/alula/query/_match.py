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
from math import inf
from typing import Any

from alula.errors import BadRequest
from alula.query._budget import MANY, Budget, Walk
from alula.query._compare import ARRAYS, MISSING, element_index, is_nan, is_number
from alula.query._criteria import And, Criterion, Or, Where
from alula.query._operators import VALUE_TESTS, Test, pattern_of, truth_of

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


def predicate(criteria: And, max_steps: int | Budget | None = None) -> Callable[[Record], bool]:
    """Return a function that says whether a record meets the criteria, as MongoDB means them.

    Args:
        criteria: Those of a `Query`.
        max_steps: How many elements of lists it may look at, over all records; None for any
            number; or the budget of a call. A list counts once for each condition; short ones do
            not for the first `FREE_TESTS`. Where there are more than fifty conditions, each record
            counts, too, as much as there are conditions.

    Raises:
        BadRequest: The value of an opened operator makes no sense (an invalid ``$regex``), or
            records in memory can not be tested for the operator. By the function: there are too
            many conditions for the records and their lists.
    """
    budget = max_steps if isinstance(max_steps, Budget) else Budget(max_steps)
    conditions = 0 if budget.left == inf else _tests_in(criteria)
    if conditions <= MANY:
        return _criterion(criteria, budget)
    budget.free_tests = 0
    meets = _criterion(criteria, budget)

    def counted(record: Record) -> bool:
        budget.spend(conditions)
        return meets(record)

    return counted


def _weight_of(name: str, wanted: Any) -> int:
    """Return how many tests of one element an operator stands for."""
    if name == "$in":  # strings and numbers are one look, whatever their number
        return 1 + sum(not (isinstance(item, str) or is_number(item)) for item in wanted)
    return _tests_in(wanted) if name == "$elemMatch" else 1


def _tests_in(wanted: Any) -> int:
    if isinstance(wanted, And | Or):
        return sum(map(_tests_in, wanted.parts))
    tests = wanted.tests if isinstance(wanted, Where) else wanted
    return sum(_weight_of(name, value) for name, value in tests)


def _criterion(criterion: Criterion, budget: Budget) -> Test:
    if isinstance(criterion, Where):
        return _all(_tests(criterion.tests, _on_field(criterion.field, budget)))
    parts = [_criterion(part, budget) for part in criterion.parts]
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
        # Without a limit of its own: `_weight_of` counts every element once for each test in here.
        meets = _on_fields_of_element(_criterion(wanted, Budget()))
    else:
        meets = _all(_tests(wanted, _on_value))
    return lambda value: isinstance(value, ARRAYS) and any(map(meets, value))


def _on_fields_of_element(test: Test) -> Test:
    def meets(item: Any) -> bool:
        if isinstance(item, ARRAYS):  # a list in a list counts as an object with index keys here
            item = {str(index): inner for index, inner in enumerate(item)}
        return isinstance(item, Mapping) and test(item)

    return meets


def _on_field(field: str, budget: Budget) -> Builder:
    """Return what makes the tests of a field of a record."""

    def build(name: str, wanted: Any) -> Test:
        if "." in field:
            return _on_path(field, name, wanted, budget)
        if name == "$eq" and isinstance(wanted, str):
            return _equals_string(field, wanted, budget)
        if name == "$eq" and is_number(wanted) and not is_nan(wanted):
            return _equals_number(field, wanted, budget)
        test, uncounted = _on_value(name, wanted), budget.uncounted()
        weight, expand = _weight_of(name, wanted), name not in _WHOLE_LIST

        def on_field(record: Record) -> bool:
            value = record.get(field, MISSING)
            if isinstance(value, ARRAYS):
                _count(value, budget, uncounted, weight)
                return test(value) or (expand and any(map(test, value)))
            return test(value)

        return on_field

    return build


def _count(items: Sequence[Any], budget: Budget, uncounted: int, weight: int = 1) -> None:
    if len(items) * weight > uncounted:
        budget.spend(len(items) * weight)


# The two most frequent tests once more, without a second call for each record.


def _equals_string(field: str, wanted: str, budget: Budget) -> Test:
    uncounted = budget.uncounted()

    def equals(record: Record) -> bool:
        value = record.get(field)
        if isinstance(value, ARRAYS):
            _count(value, budget, uncounted)
            return wanted in value
        return bool(value == wanted)

    return equals


def _equals_number(field: str, wanted: Any, budget: Budget) -> Test:
    uncounted = budget.uncounted()

    def equals(record: Record) -> bool:
        value = record.get(field)
        if value == wanted:
            return value.__class__ is not bool
        if not isinstance(value, ARRAYS):
            return False
        _count(value, budget, uncounted)
        return any(item == wanted and item.__class__ is not bool for item in value)

    return equals


def _on_path(field: str, name: str, wanted: Any, budget: Budget) -> Test:
    test, uncounted = _on_value(name, wanted), budget.uncounted()
    path = field.split(".")
    weight, expand = _weight_of(name, wanted), name not in _WHOLE_LIST

    def on_path(record: Record) -> bool:
        value: Any = record
        for at, part in enumerate(path):
            if value.__class__ is not dict:  # a list on the way, or the end of the way
                walk = Walk()
                found = _reach(value, path, at, walk, expand=expand)
                steps = walk.steps + len(found) * weight
                if steps > uncounted:
                    budget.spend(steps)
                return any(map(test, found))
            value = value.get(part, MISSING)
        if isinstance(value, ARRAYS):
            _count(value, budget, uncounted, weight)
            return test(value) or (expand and any(map(test, value)))
        return test(value)

    return on_path


def _reach(value: Any, path: list[str], at: int, walk: Walk, *, expand: bool) -> list[Any]:
    """Return all values that the rest of a dotted name leads to.

    Args:
        value: Where it starts.
        path: The parts of the name.
        at: Index of the next part.
        walk: What was gone through.
        expand: Whether a list at the end also gives each of its elements.
    """
    while at < len(path):
        if isinstance(value, ARRAYS):
            return _reach_through(value, path, at, walk, expand=expand)
        if not isinstance(value, Mapping):
            return [MISSING]
        value = value.get(path[at], MISSING)
        at += 1
    return [*value, value] if expand and isinstance(value, ARRAYS) else [value]


def _reach_through(
    items: Sequence[Any], path: list[str], at: int, walk: Walk, *, expand: bool
) -> list[Any]:
    """Do the same for a list on the way: each object in it, and the element a number names."""
    # An index and the objects beside it can lead to the same inner list. Each list is gone through
    # once for each part of the name; else the ways to it would double with every level.
    if (id(items), at) in walk.seen:
        return []
    walk.seen.add((id(items), at))
    walk.steps += len(items)
    found = []
    for item in items:
        if isinstance(item, Mapping):
            found += _reach(item, path, at, walk, expand=expand)
    index = element_index(path[at], items)
    if index is not None:
        item = items[index]
        if at + 1 == len(path):
            found.append(item)
        elif isinstance(item, (Mapping, *ARRAYS)):
            found += _reach(item, path, at + 1, walk, expand=expand)
    return found
