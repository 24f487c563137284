"""The order of values and of records, as in MongoDB.

`sort_key` turns any value into a pair of Python values: first its type, then its value. Order and
equality of all types come from these pairs. `ordered` sorts records.

A list sorts by its smallest element, or by its largest in descending order. If several sort fields
lead into one list (``a.b`` and ``a.c``), each element of the list gives one row of keys, and the
row that comes first counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from math import isfinite
from operator import itemgetter
from typing import Any, Final, TypeAlias, TypeGuard

from alula.query._query import Budget
from alula.types import SCALAR_TYPES, JSONValue

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
    "ordered",
    "sort_key",
    "trimmed",
]

Record: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[int, Any]
Path: TypeAlias = tuple[str, ...] | None
"""The parts of a dotted name that are left to follow; None if a value counts as a whole."""
Spend: TypeAlias = Callable[[int], object]
Row: TypeAlias = dict[int, Key]
"""Keys of one record, by the position of their field in the sort."""

# The types in order. A missing field counts as null; only an empty list comes before it.
NOTHING, NULL, NUMBER, STRING, OBJECT, ARRAY, BYTES, OTHER, BOOLEAN, DATE = range(10)

ARRAYS: Final = (list, tuple)
"""The types of lists in records."""

_STEPS_OF_A_KEY: Final = 4
"""The cost of making and comparing the key of one value, in looks at a value (measured)."""

_STEPS_IN_A_ROW: Final = 16
"""The same for a key in a row of keys."""


def ordered(
    records: Iterable[Record], sort: Sequence[tuple[str, int]], budget: Budget | None = None
) -> list[Any]:
    """Return the records in the order that MongoDB gives them.

    Records that are equal in all fields keep their order, also in descending order.

    Args:
        records: The records; they are not changed.
        sort: Pairs of field and 1 or -1, the first counts most.
        budget: The work limit of the call; each value that a field leads to counts.

    Raises:
        BadRequest: The fields lead to more values than the budget has steps.

    Examples:
        >>> ordered([{"n": 1}, {"n": 3}, {"n": 2}], [("n", -1)])
        [{'n': 3}, {'n': 2}, {'n': 1}]
    """
    result = list(records)
    if not sort:
        return result
    spend: Spend = (budget or Budget()).spend
    spend(len(result) * len(sort))
    if len({field.partition(".")[0] for field, _ in sort}) < len(sort):
        # Some fields lead into one list: an element gives the keys for all of them, or for none.
        paths = [tuple(field.split(".")) for field, _ in sort]
        directions = [direction for _, direction in sort]
        rows = [
            (_row({at: (record, path) for at, path in enumerate(paths)}, directions, spend), record)
            for record in result
        ]
        for at in reversed(range(len(sort))):
            rows.sort(key=lambda pair, at=at: pair[0][at], reverse=directions[at] < 0)  # type: ignore[misc]  # mypy counts the default as an argument
        return [record for _, record in rows]
    # Sorting is stable, so sorting by the last field first makes the first field count most.
    for field, direction in reversed(sort):
        result.sort(key=_key_function(result, field, direction, spend), reverse=direction < 0)
    return result


def _count_key(value: JSONValue, spend: Spend) -> None:
    """Count the work for the sort key of a value."""
    waiting: list[Any] = [value]
    while waiting:
        value = waiting.pop()
        if value.__class__ not in SCALAR_TYPES and isinstance(value, (Mapping, *ARRAYS)):
            spend((1 + len(value)) * _STEPS_OF_A_KEY)
            inner = value.values() if isinstance(value, Mapping) else value
            waiting += [item for item in inner if item.__class__ not in SCALAR_TYPES]


def _key_function(
    records: list[Record], field: str, direction: int, spend: Spend
) -> Callable[[Record], Any]:
    """Return the function that makes the sort key of one field."""
    if "." not in field:
        # Strings alone and numbers alone order themselves, compared in C. NaN does not: a list with
        # one would come out in no order at all.
        value_of = itemgetter(field)
        with suppress(KeyError):  # a record without the field
            types = set(map(type, map(value_of, records)))
            if types in ({int}, {str}) or (
                types <= {int, float} and not any(map(is_nan, map(value_of, records)))
            ):
                return value_of
    spend(len(records) * _STEPS_OF_A_KEY)
    path = tuple(field.split("."))
    choose = min if direction > 0 else max

    def key(record: Record) -> Key:
        value: JSONValue
        value, rest = _follow(record, path)
        if value.__class__ not in SCALAR_TYPES and not rest:
            _count_key(value, spend)
        if rest is None or not isinstance(value, ARRAYS):
            return sort_key(value)
        if rest:
            return _row({0: (value, rest)}, [direction], spend)[0]
        return choose(map(sort_key, value), default=(NOTHING, None))

    return key


def _follow(value: JSONValue, path: Path) -> tuple[Any, Path]:
    """Follow a path to its end, or to a list whose elements all count."""
    while path:
        if isinstance(value, Mapping):
            value = value.get(path[0], MISSING)
            path = path[1:]
        elif isinstance(value, ARRAYS):
            index = element_index(path[0], value)
            if index is None:
                return value, path
            value = value[index]
            # A list named by its index counts as a whole, except an empty one (as in MongoDB).
            path = path[1:] or (None if value else ())
        else:
            return MISSING, None
    return value, path


def _row(ends: dict[int, tuple[Any, Path]], directions: list[int], spend: Spend) -> Row:
    """Return the keys of several fields.

    Args:
        ends: By field: a value, and the path from there on.
        directions: 1 or -1 for each field.
        spend: Counts steps.
    """
    row: Row = {}
    lists: dict[int, tuple[Sequence[Any], dict[int, Path]]] = {}
    for at, end in ends.items():
        value: JSONValue
        value, path = _follow(*end)
        if path is None or not isinstance(value, ARRAYS):
            _count_key(value, spend)
            row[at] = sort_key(value)
        else:
            lists.setdefault(id(value), (value, {}))[1][at] = path
    for items, paths in lists.values():
        spend(len(items) * len(paths) * _STEPS_IN_A_ROW)
        rows = [
            _row(
                {
                    at: (item, path or None)
                    if not path or isinstance(item, Mapping)
                    else (MISSING, None)
                    for at, path in paths.items()
                },
                directions,
                spend,
            )
            for item in items
        ]
        if not rows:
            row |= {at: (NULL if path else NOTHING, None) for at, path in paths.items()}
            continue
        # The row that comes first counts, its keys together: the best `a.b` and the best `a.c` may
        # be those of different elements.
        for at in sorted(rows[0]):
            choose = min if directions[at] > 0 else max
            best = choose(candidate[at] for candidate in rows)
            rows = [candidate for candidate in rows if candidate[at] == best]
        row |= rows[0]
    return row


# -- values ----------------------------------------------------------------------------------------


class _Missing:
    """The type of `MISSING`."""


MISSING: Final = _Missing()
"""The value of a field that a record does not have."""


class _NotANumber:
    """NaN as a sort key: less than every number, equal only to itself."""

    def __lt__(self, other: object) -> bool:
        return other is not self

    def __gt__(self, other: object) -> bool:
        return False

    # Tuples use these only for elements that are not equal.
    __le__, __ge__ = __lt__, __gt__


class _Ordered:
    """A value of another type (an ObjectId, a UUID) as a sort key, in the order of its type."""

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]  # equal by order, so no key

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ordered) and bool(self.value == other.value)

    def __lt__(self, other: _Ordered) -> bool:
        try:
            return bool(self.value < other.value)
        except TypeError:  # a type without an order: its values keep their positions
            return False

    __le__ = __lt__  # as above


_NAN = _NotANumber()
_EPOCH = datetime(1970, 1, 1)
_ZERO = timedelta()
_MAX_DEPTH = 100
"""The most levels that MongoDB stores; deeper values count as equal."""


def element_index(part: str, items: Sequence[Any]) -> int | None:
    """Return the index in a list that a part of a dotted name means, None if it means none."""
    if not part.isdecimal() or not part.isascii() or len(part) > 9:
        return None
    index = int(part)
    return index if index < len(items) and str(index) == part else None


def is_number(value: object) -> TypeGuard[int | float | Decimal]:
    """Tell whether a value is a number; a bool is not."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def is_nan(number: float | Decimal) -> bool:
    """Tell whether a number is NaN."""
    if isinstance(number, Decimal):
        return number.is_nan()
    return bool(number != number)  # noqa: PLR0124  # NaN alone is not equal to itself


def is_finite(number: float | Decimal) -> bool:
    """Tell whether a number is neither NaN nor infinite."""
    if isinstance(number, Decimal):
        return number.is_finite()
    return isinstance(number, int) or isfinite(number)


def sort_key(value: JSONValue | _Missing, depth: int = 0) -> Key:
    """Return a pair of type and payload; pairs compare as MongoDB compares the values.

    Args:
        value: Any value, `MISSING` included.
        depth: Its level below the first value.
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
        fields: list[tuple[int, Any, Any]] = []
        for name, inner in value.items() if depth < _MAX_DEPTH else ():
            type_rank, payload = sort_key(inner, depth + 1)
            # As in MongoDB: the types of two fields count first, then their names, then values.
            fields.append((type_rank, name, payload))
        return OBJECT, tuple(fields)
    if isinstance(value, ARRAYS):
        items = value if depth < _MAX_DEPTH else ()
        return ARRAY, tuple([sort_key(item, depth + 1) for item in items])
    if isinstance(value, (bytes, bytearray)):
        return BYTES, (len(value), bytes(value))  # the shorter comes first
    if isinstance(value, date):
        if not isinstance(value, datetime):  # a date is its midnight
            return DATE, datetime(value.year, value.month, value.day) - _EPOCH
        # Without a time zone, it is in UTC, as drivers of MongoDB store it.
        return DATE, value.replace(tzinfo=None) - _EPOCH - (value.utcoffset() or _ZERO)
    type_ = type(value)
    return OTHER, (f"{type_.__module__}.{type_.__qualname__}", _Ordered(value))


def trimmed(value: JSONValue, like: JSONValue) -> JSONValue:
    """Return the part of a value that decides how it compares to another one.

    It is at most as large as the other, so a comparison costs what the query costs, and not what
    a stored value costs.

    Args:
        value: Any value.
        like: The value that it is compared to, by their sort keys.
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
