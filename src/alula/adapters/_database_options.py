"""Options of adapters on a database: batched operations, totals, and limits of what a call costs.

An adapter on a database extends `DatabaseOptions` by options of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from re import Pattern
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar

from alula.adapters._options import Options
from alula.errors import BadRequest, Timeout
from alula.query import And, Or, Where
from alula.query._query import Criterion

__all__ = [
    "BATCHED",
    "MAX_CONDITIONS",
    "MAX_TIME_MS",
    "DatabaseOptions",
    "MaxTime",
    "check_conditions",
    "in_time",
    "read_max_time",
]

_T = TypeVar("_T")

MaxTime: TypeAlias = int | Literal[False] | None
"""A time limit in milliseconds, False for no limit, None if the option is not given."""

MAX_TIME_MS: Final = 10_000
"""The default time limit of an operation, in milliseconds."""

MAX_CONDITIONS: Final = 100
"""The default number of conditions that a query may have.

The database tests each condition on each record that no index rules out, and on each element of a
list: 990 of them, which fit into 24 kB, keep MongoDB busy for minutes on 100,000 records.
"""

BATCHED: Final = ("get", "create", "patch", "count")
"""The operations that an adapter batches unless it says otherwise."""

_LISTS: Final = frozenset({"$in", "$nin"})
_NESTED: Final = frozenset({"$not", "$elemMatch"})
_ONE_BY_ONE: Final = (Mapping, list, tuple, Pattern)


@dataclass(frozen=True)
class DatabaseOptions(Options):
    """The options of one call of an adapter on a database.

    Attributes:
        max_conditions: How many conditions a query may have, None for no limit.
        seconds: How long an operation may take, None for no limit.
        shared: The operations that this call may batch with concurrent ones.
    """

    max_conditions: int | None = MAX_CONDITIONS
    seconds: float | None = MAX_TIME_MS / 1000
    shared: frozenset[str] = frozenset(BATCHED)

    batched_operations: ClassVar[tuple[str, ...]] = BATCHED
    """The operations that concurrent calls can batch: names of the option ``share``."""

    ways_to_count: ClassVar[tuple[str, ...]] = ("exact", "estimated", "none")
    """What ``paginate["count"]`` may be."""

    @property
    def counting(self) -> str:
        """How a page gets its total: one of `ways_to_count`."""
        count: str = self.pagination.more.get("count", "exact") if self.pagination else "exact"
        return count

    def changed(self, given: Mapping[str, Any], paginate_names: Collection[str]) -> Self:
        """Return these options with others in their place; None leaves an option as it is.

        Raises:
            ValueError: An option is not valid.
        """
        options = super().changed(given, paginate_names)
        if options.counting not in self.ways_to_count:
            names = ", ".join(map(repr, self.ways_to_count))
            raise ValueError(f"paginate: 'count' is {options.counting!r}; give {names}")
        changes: dict[str, Any] = {}
        if "max_conditions" in given:
            changes["max_conditions"] = _read_max_conditions(given["max_conditions"])
        if given.get("max_time_ms") is not None:
            changes["seconds"] = read_max_time(given["max_time_ms"], "max_time_ms")
        if given.get("share") is not None:
            changes["shared"] = self._read_share(given["share"])
        return replace(options, **changes) if changes else options

    def _read_share(self, value: bool | Mapping[str, bool]) -> frozenset[str]:
        names = self.batched_operations
        if isinstance(value, bool):
            return frozenset(names) if value else frozenset()
        if not isinstance(value, Mapping):
            raise ValueError(f'share is {value!r}; give True, False or {{"get": False}}')
        for name, wanted in value.items():
            if name not in names or not isinstance(wanted, bool):
                raise ValueError(
                    f"share has {name!r}: {wanted!r}; it may have {', '.join(names)}, each of them"
                    " True or False"
                )
        return frozenset(name for name in names if value.get(name, True))


def _read_max_conditions(value: object) -> int | None:
    if value is False:
        return None
    if type(value) is not int or value < 1:
        raise ValueError(
            f"max_conditions is {value!r}; give a whole number from 1 on, or False for no limit"
        )
    return value


def check_conditions(
    criteria: Criterion, max_conditions: int, one_by_one: tuple[type, ...] = _ONE_BY_ONE
) -> None:
    """Refuse criteria with too many conditions.

    A list of `$in` or `$nin` counts once, however long it is: the database looks up its values.

    Args:
        criteria: The criteria of a query.
        max_conditions: How many conditions there may be.
        one_by_one: Types of values that the database tries one after the other: each value of these
            types in a list counts, too.

    Raises:
        BadRequest: There are more than ``max_conditions``.
    """
    number = _conditions_in(criteria, one_by_one)
    if number > max_conditions:
        raise BadRequest(
            f"The query has {number} conditions, and {max_conditions} are allowed; compare one"
            " field with many values by $in"
        )


def _conditions_in(
    part: Criterion | Iterable[tuple[str, Any]], one_by_one: tuple[type, ...]
) -> int:
    if isinstance(part, And | Or):
        return sum(_conditions_in(inner, one_by_one) for inner in part.parts)
    number = 0
    for operator, value in part.tests if isinstance(part, Where) else part:
        if operator == "$all":
            number += max(1, len(value))
        elif operator in _LISTS:
            number += 1 + sum(isinstance(item, one_by_one) for item in value)
        else:
            number += _conditions_in(value, one_by_one) if operator in _NESTED else 1
    return number


def read_max_time(value: object, where: str) -> float | None:
    """Return the seconds that an option allows, None for no limit.

    Args:
        value: Milliseconds from 1 on, False for no limit, None for `MAX_TIME_MS`.
        where: What to call the option in an error.

    Raises:
        ValueError: It is something else.
    """
    if value is False:
        return None
    if value is None:
        value = MAX_TIME_MS
    if type(value) is not int or value < 1:
        raise ValueError(
            f"{where} is {value!r}; give whole milliseconds from 1 on, or False for no limit"
        )
    return value / 1000


async def in_time(awaitable: Awaitable[_T], seconds: float | None, what: str) -> _T:
    """Await something that is not an operation of the driver, such as the model of a service.

    Args:
        awaitable: It is cancelled when the time is over; behind `asyncio.shield` it goes on.
        seconds: How long it may take, None for no limit.
        what: What was awaited, for the message of the error: "The database's collection".

    Raises:
        Timeout: It took longer.
        Exception: What it raises.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await awaitable
    except TimeoutError as error:
        # The model may raise a TimeoutError of its own, which is not ours to translate.
        if limit.expired():
            raise Timeout(f"{what} was not there in time") from error
        raise
