"""Which records in memory a query selects: `predicate` compiles criteria into a function.

- Each element of a list is tested, and the list itself. A dotted name leads through objects and
  lists.
- ``$ne``, ``$nin`` and ``$not`` negate the whole test on a field: they match records without the
  field, and lists without a matching element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from operator import eq, ge, gt, le, lt
from typing import Any, Final, TypeAlias

from alula.errors import BadRequest, shown_name
from alula.query._operators import VALUE_TESTS, Test, pattern_of, truth_of
from alula.query._order import ARRAYS, MISSING, element_index, is_nan, is_number
from alula.query._query import MANY_CONDITIONS, And, Budget, Criterion, Or, Where
from alula.types import JSONValue, is_array

__all__ = ["SUPPORTED_OPERATORS", "predicate"]

SUPPORTED_OPERATORS: Final = frozenset(
    {"$eq", "$exists", "$size", "$all", "$regex", "$options", "$not", "$elemMatch", "$mod"}
)
"""The operators that `predicate` knows in addition to the common ones."""

Record: TypeAlias = Mapping[str, Any]
Builder: TypeAlias = Callable[[str, Any], Test]
"""Makes the test for an operator and its value."""

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$eq": eq,
    "$lt": lt,
    "$lte": le,
    "$gt": gt,
    "$gte": ge,
}
"""Operators that compare two values of one of the `_COMPARED` types as Python does."""

_COMPARED: Final = frozenset({str, int, float, bool})

_WITH_WEIGHT: Final = frozenset({"$in", "$elemMatch"})
"""Operators that may take more than one test of an element."""

_LOOKED_UP: Final = frozenset({str, int, float})
"""Types of values that a set finds."""

_WHOLE_LIST: Final = frozenset({"$exists", "$size", "$elemMatch"})
"""Operators that test a list itself, not its elements."""


def predicate(criteria: And, max_steps: int | Budget | None = None) -> Callable[[Record], bool]:
    """Return a function that tells whether a record meets the criteria, as in MongoDB.

    Args:
        criteria: Those of a `Query`.
        max_steps: The largest number of list elements to test, over all records; None for any
            number; or the budget of a call. A list counts once for each condition; for the first
            `FREE_TESTS` conditions, short lists do not. With more than `MANY_CONDITIONS`, each
            record counts as well, as often as there are conditions.

    Raises:
        BadRequest: The value of an operator is not valid, such as a broken ``$regex``, or the
            operator does not exist in memory. By the function: there are too many conditions for
            the records and their lists.

    Examples:
        >>> is_adult = predicate(And((Where("age", (("$gte", 18),)),)))
        >>> is_adult({"age": 20}), is_adult({"age": 7})
        (True, False)
    """
    budget = max_steps if isinstance(max_steps, Budget) else Budget(max_steps)
    conditions = 0 if budget.steps_left == inf else _tests_in(criteria)
    if conditions <= MANY_CONDITIONS:
        return _criterion(criteria, budget)
    budget.free_tests = 0
    meets = _criterion(criteria, budget)

    def counted(record: Record) -> bool:
        budget.spend(conditions)
        return meets(record)

    return counted


def _weight_of(name: str, wanted: Any) -> int:
    """Return how many tests of one element an operator takes."""
    if name == "$in":  # strings and numbers take one lookup in a set, however many they are
        if _LOOKED_UP.issuperset(map(type, wanted)):
            return 1
        return 1 + sum(not (isinstance(item, str) or is_number(item)) for item in wanted)
    return _tests_in(wanted) if name == "$elemMatch" else 1


def _tests_in(wanted: Any) -> int:
    if isinstance(wanted, (And, Or)):
        return sum(map(_tests_in, wanted.parts))
    tests = wanted.tests if isinstance(wanted, Where) else wanted
    count = len(tests)
    for name, value in tests:
        if name in _WITH_WEIGHT:
            count += _weight_of(name, value) - 1
    return count


def _criterion(criterion: Criterion, budget: Budget) -> Test:
    if isinstance(criterion, Where):
        field, tests = criterion.field, criterion.tests
        if len(tests) == 1 and tests[0][0] in _COMPARISONS:
            return _on_field(field, budget, *tests[0])
        return _all(_tests(tests, partial(_on_field, field, budget)))
    parts = [_criterion(part, budget) for part in criterion.parts]
    return _all(parts) if isinstance(criterion, And) else _any(parts)


def _all(tests: Sequence[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    # Most queries have one or two tests: 14 % less time than the loop below.
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) and second(value)

    def all_of(value: object) -> bool:
        for test in tests:  # noqa: SIM110  # a generator costs more than most tests
            if not test(value):
                return False
        return True

    return all_of


def _any(tests: Sequence[Test]) -> Test:
    def any_of(value: object) -> bool:
        for test in tests:  # noqa: SIM110  # as above
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
        build: Makes the tests that do not combine others.
    """
    compiled: list[Test] = []
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
            compiled.append(build(name, pattern_of(value, dict(tests).get("$options", ""))))
        elif name != "$options":
            compiled.append(build(name, value))
        elif "$regex" not in dict(tests):
            raise BadRequest("Invalid query parameter $options: it needs a $regex beside it")
    return compiled


_OPPOSITES = {"$ne": "$eq", "$nin": "$in"}


def _on_value(name: str, wanted: Any) -> Test:
    """Return the test of one value itself."""
    if name != "$elemMatch":
        make = VALUE_TESTS.get(name)
        if make is None:
            raise BadRequest(
                f"Invalid query parameter {shown_name(name)}: it is not supported in memory"
            )
        return make(wanted)
    if not isinstance(wanted, And):  # tests for the elements themselves, not for their fields
        passes = _all(_tests(wanted, _on_value))
        return lambda value: is_array(value) and any(map(passes, value))
    # Without a limit here: `_weight_of` counts each element once for each of these tests.
    test = _criterion(wanted, Budget())

    def meets(item: JSONValue) -> bool:
        if isinstance(item, ARRAYS):  # here, a list in a list is an object with index keys
            item = {str(index): inner for index, inner in enumerate(item)}
        return isinstance(item, Mapping) and test(item)

    return lambda value: is_array(value) and any(map(meets, value))


def _on_field(field: str, budget: Budget, name: str, wanted: Any) -> Test:
    """Return the test of a field, whose name has dots or not."""
    if "." in field:
        return _on_path(field, name, wanted, budget)
    test, uncounted = _on_value(name, wanted), budget.uncounted()
    compare, kind = _COMPARISONS.get(name), wanted.__class__
    if compare is not None and kind in _COMPARED and not (kind is float and is_nan(wanted)):
        is_equality_of_text = compare is eq and kind is str

        def compares(record: Record) -> bool:
            value: JSONValue = record.get(field)
            # Values of one type without a second call for each record: half the time of
            # `on_field` (1,000 records, CPython 3.11).
            if value.__class__ is kind:
                return compare(value, wanted)
            if isinstance(value, ARRAYS):
                _count(value, budget, uncounted)
                return wanted in value if is_equality_of_text else any(map(test, value))
            return test(value)

        return compares
    weight, expand = _weight_of(name, wanted), name not in _WHOLE_LIST

    def on_field(record: Record) -> bool:
        value: JSONValue = record.get(field, MISSING)
        if isinstance(value, ARRAYS):
            _count(value, budget, uncounted, weight)
            return test(value) or (expand and any(map(test, value)))
        return test(value)

    return on_field


def _count(items: Sequence[Any], budget: Budget, uncounted: int, weight: int = 1) -> None:
    if len(items) * weight > uncounted:
        budget.spend(len(items) * weight)


def _on_path(field: str, name: str, wanted: object, budget: Budget) -> Test:
    test, uncounted = _on_value(name, wanted), budget.uncounted()
    path = field.split(".")
    weight, expand = _weight_of(name, wanted), name not in _WHOLE_LIST

    def on_path(record: Record) -> bool:
        value: Any = record
        for at, part in enumerate(path):
            if value.__class__ is not dict:  # a list on the path, or the path ends early
                walk = _Walk()
                reached = _reach(value, path, at, walk, expand=expand)
                steps = walk.steps + len(reached) * weight
                if steps > uncounted:
                    budget.spend(steps)
                return any(map(test, reached))
            value = value.get(part, MISSING)
        end: JSONValue = value
        if isinstance(end, ARRAYS):
            _count(end, budget, uncounted, weight)
            return test(end) or (expand and any(map(test, end)))
        return test(end)

    return on_path


class _Walk:
    """The lists of a record on the way along a dotted name.

    Attributes:
        seen: The lists, each with the index of the part of the name.
        steps: How many elements they have.
    """

    __slots__ = ("seen", "steps")

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()
        self.steps = 0


def _reach(value: JSONValue, path: list[str], at: int, walk: _Walk, *, expand: bool) -> list[Any]:
    """Return all values that the rest of a dotted name leads to.

    Args:
        value: The value to start from.
        path: The parts of the name.
        at: The index of the next part.
        walk: The lists seen so far.
        expand: Whether a list at the end also gives each of its elements.
    """
    while at < len(path):
        if isinstance(value, ARRAYS):
            # An index and the objects next to it can lead to the same inner list. Each list is
            # visited once for each part of the name; otherwise the work would double per level.
            if (id(value), at) in walk.seen:
                return []
            walk.seen.add((id(value), at))
            walk.steps += len(value)
            reached: list[Any] = []
            item: JSONValue
            for item in value:
                if isinstance(item, Mapping):
                    reached += _reach(item, path, at, walk, expand=expand)
            index = element_index(path[at], value)
            if index is not None:
                item = value[index]
                if at + 1 == len(path):
                    reached.append(item)
                elif isinstance(item, (Mapping, *ARRAYS)):
                    reached += _reach(item, path, at + 1, walk, expand=expand)
            return reached
        if not isinstance(value, Mapping):
            return [MISSING]
        value = value.get(path[at], MISSING)
        at += 1
    return [*value, value] if expand and isinstance(value, ARRAYS) else [value]
