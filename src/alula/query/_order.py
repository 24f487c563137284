"""The order of records: `ordered` sorts them as MongoDB does.

A list counts by its smallest element, or by its largest where the order is descending. Where
several sort fields lead into one list (``a.b`` and ``a.c``), each of its elements offers one row
of keys, and the row that comes first counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from alula.query._budget import Budget
from alula.query._compare import (
    ARRAYS,
    MISSING,
    NOTHING,
    NULL,
    element_index,
    is_nan,
    sort_key,
)
from alula.types import SCALAR_TYPES

__all__ = ["ordered"]

Record = Mapping[str, Any]
Key = tuple[int, Any]
Path = tuple[str, ...] | None
"""The parts of a dotted name that are still to go; None where a value counts as it stands."""
Spend = Callable[[int], None]
Row = dict[int, Key]
"""Keys of one record, by the position of their field in the sort."""

_STEPS_OF_A_KEY = 4
"""What it takes to make and compare the key of one value, against one look at a value."""

_STEPS_IN_A_ROW = 16
"""The same for a key in a row of keys."""


def ordered(
    records: Iterable[Record], sort: Sequence[tuple[str, int]], budget: Budget | None = None
) -> list[Any]:
    """Return the records in the order that MongoDB gives them.

    Records that are equal in all fields stay in the order in which they came, also where the
    order is descending.

    Args:
        records: The records; they are not changed.
        sort: Pairs of field and 1 or -1, the first counts most.
        budget: What the call may make the process do: every value that a field leads to counts.

    Raises:
        BadRequest: The fields lead to more values than the budget has steps.
    """
    result = list(records)
    if not sort:
        return result
    spend = budget.spend if budget is not None else _spend_nothing
    spend(len(result) * len(sort))
    if len({field.partition(".")[0] for field, _ in sort}) < len(sort):
        return _ordered_by_rows(result, sort, spend)
    # The sort is stable: done by the last field first, the first field counts most in the end.
    for field, direction in reversed(sort):
        key = _plain_key(result, field)
        if key is None:
            spend(len(result) * _STEPS_OF_A_KEY)
            key = _field_key(field, direction, spend)
        result.sort(key=key, reverse=direction < 0)
    return result


def _spend_nothing(_steps: int) -> None:
    pass


def _count(value: Any, spend: Spend) -> None:
    """Count what a sort key of this value is made of."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value.__class__ not in SCALAR_TYPES and isinstance(value, (Mapping, *ARRAYS)):
            spend((1 + len(value)) * _STEPS_OF_A_KEY)
            inner = value.values() if isinstance(value, Mapping) else value
            waiting += [item for item in inner if item.__class__ not in SCALAR_TYPES]


def _plain_key(records: list[Record], field: str) -> Callable[[Record], Any] | None:
    """Return what gives the value itself, where all values are strings or all are numbers."""
    if "." in field:
        return None
    value_of = itemgetter(field)
    try:
        kinds = set(map(type, map(value_of, records)))
    except KeyError:
        return None
    if kinds in ({int}, {str}):
        return value_of
    if kinds <= {int, float} and not any(map(is_nan, map(value_of, records))):
        return value_of
    return None


def _field_key(field: str, direction: int, spend: Spend) -> Callable[[Record], Key]:
    """Return what gives the key of one field, whatever its values are."""
    path = tuple(field.split("."))
    choose = min if direction > 0 else max

    def key(record: Record) -> Key:
        value, rest = _follow(record, path)
        if value.__class__ not in SCALAR_TYPES and not rest:
            _count(value, spend)
        if rest is None or not isinstance(value, ARRAYS):
            return sort_key(value)
        if rest:
            return _row({0: (value, rest)}, [direction], spend)[0]
        return choose(map(sort_key, value), default=(NOTHING, None))

    return key


def _ordered_by_rows(
    records: list[Record], sort: Sequence[tuple[str, int]], spend: Spend
) -> list[Any]:
    """Do it with the keys of all fields found together, because some depend on each other."""
    paths = [tuple(field.split(".")) for field, _ in sort]
    directions = [direction for _, direction in sort]
    rows = [
        (_row({at: (record, path) for at, path in enumerate(paths)}, directions, spend), record)
        for record in records
    ]
    for at in reversed(range(len(sort))):
        # Mypy takes the default of a lambda for a second argument.
        rows.sort(key=lambda pair, at=at: pair[0][at], reverse=directions[at] < 0)  # type: ignore[misc]
    return [record for _, record in rows]


def _follow(value: Any, path: Path) -> tuple[Any, Path]:
    """Go along a path until its end, or until a list of which all elements count."""
    while path:
        if isinstance(value, Mapping):
            value = value.get(path[0], MISSING)
            path = path[1:]
        elif isinstance(value, ARRAYS):
            index = element_index(path[0], value)
            if index is None:
                return value, path
            value = value[index]
            # A list named by its index counts as it stands; MongoDB excepts an empty one.
            path = path[1:] or (None if value else ())
        else:
            return MISSING, None
    return value, path


def _row(ends: dict[int, tuple[Any, Path]], directions: list[int], spend: Spend) -> Row:
    """Return the keys of several fields.

    Args:
        ends: Where each field has come to: a value, and the path from there on.
        directions: 1 or -1 for each field.
        spend: Counts what is looked at.
    """
    row: Row = {}
    lists: dict[int, tuple[Sequence[Any], dict[int, Path]]] = {}
    for at, end in ends.items():
        value, path = _follow(*end)
        if path is None or not isinstance(value, ARRAYS):
            _count(value, spend)
            row[at] = sort_key(value)
        else:
            lists.setdefault(id(value), (value, {}))[1][at] = path
    for items, paths in lists.values():
        spend(len(items) * len(paths) * _STEPS_IN_A_ROW)
        rows = [
            _row({at: _element_end(item, path) for at, path in paths.items()}, directions, spend)
            for item in items
        ]
        empty = {at: (NULL if path else NOTHING, None) for at, path in paths.items()}
        row |= _first(rows, directions) if rows else empty
    return row


def _element_end(item: Any, path: Path) -> tuple[Any, Path]:
    """Return where a field goes on in one element of a list."""
    if not path:
        return item, None
    return (item, path) if isinstance(item, Mapping) else (MISSING, None)


def _first(rows: list[Row], directions: list[int]) -> Row:
    """Return the row that comes first in the order."""
    for at in sorted(rows[0]):
        choose = min if directions[at] > 0 else max
        best = choose(row[at] for row in rows)
        rows = [row for row in rows if row[at] == best]
    return rows[0]
