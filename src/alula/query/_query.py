"""A parsed query: a small tree of frozen objects, and what it may cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from alula.errors import BadRequest

__all__ = [
    "EMPTY",
    "EMPTY_QUERY",
    "FREE_TESTS",
    "MANY_CONDITIONS",
    "MAX_STEPS",
    "SHORT_LIST",
    "And",
    "Budget",
    "Criterion",
    "Or",
    "Query",
    "ValidatedQuery",
    "Where",
    "query_of",
]

EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})
"""A mapping without entries that cannot be changed."""

MAX_STEPS: Final = 1_000_000
"""How many steps a call of a client may take in memory. A step is a look at one value and takes
about 0.25 µs, so that all steps take about 0.25 seconds."""

SHORT_LIST: Final = 100
"""Up to so many elements times tests, a list is not counted for the first `FREE_TESTS` conditions:
counting costs time, and a look at each element of a stored list is to be expected."""

FREE_TESTS: Final = 4
"""For so many conditions of a query, short lists are not counted; for the others, all are."""

MANY_CONDITIONS: Final = 50
"""With more conditions, each condition is counted for each record, and so are all lists."""

_TOO_EXPENSIVE: Final = (
    "The query has too many conditions for these records and their lists, or too many fields in"
    " $sort; send fewer, or conditions that lead to fewer records"
)


@dataclass(frozen=True, slots=True)
class Where:
    """One field and all tests on it, all of which must hold.

    Attributes:
        field: Name of the field; dots lead into objects and lists.
        tests: Pairs of operator and value; plain equality is ``("$eq", value)``. The value of
            ``$not`` is again a tuple of tests. The value of ``$elemMatch`` is a tuple of tests for
            an element itself, or an `And` with criteria for the fields of an element.
    """

    field: str
    tests: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class And:
    """All parts must hold; without parts it matches everything."""

    parts: tuple[Criterion, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part must hold."""

    parts: tuple[Criterion, ...]


Criterion = Where | And | Or


# A tuple: it is made for every `find` (bench rest: -5 % instructions of one from memory, compared
# to a frozen dataclass).
class Query(NamedTuple):
    """A valid query, which does not change.

    Attributes:
        criteria: What a record must meet.
        limit: The largest number of records, None without ``$limit``.
        skip: How many records to leave out at the start.
        sort: Pairs of field and 1 (ascending) or -1 (descending), the first counts most.
        select: Fields to return, None for all.
        filters: Values of the additional filters that the service opened.
        budget: The work limit of the call; None for internal calls, and for queries that neither
            test nor sort.
    """

    criteria: And = And(())
    limit: int | None = None
    skip: int = 0
    sort: tuple[tuple[str, int], ...] = ()
    select: tuple[str, ...] | None = None
    filters: Mapping[str, Any] = EMPTY
    budget: Budget | None = None


_Parts: TypeAlias = tuple[
    And,
    int | None,
    int,
    tuple[tuple[str, int], ...],
    tuple[str, ...] | None,
    Mapping[str, Any],
    "Budget | None",
]

query_of: Final[Callable[[_Parts], Query]] = partial(tuple.__new__, Query)  # pyright: ignore[reportUnknownMemberType]  # of any tuple
"""Makes a query of all its attributes in their order, without the Python function that named tuples
call for it."""

EMPTY_QUERY: Final = Query()
"""The query that selects everything."""


class ValidatedQuery(dict[str, Any]):
    """A query that a schema has checked, with the operators and filters that the schema opens.

    A plain mapping made of it loses them. Page limits apply to it as to every query.

    Args:
        query: The query with its values converted.
        operators: Operators in the schema, in addition to the common ones.
        filters: Names at the top level of the schema, in addition to the common ones.

    Attributes:
        operators: As given.
        filters: As given.
    """

    __slots__ = ("filters", "operators")

    def __init__(
        self, query: Mapping[str, Any], operators: Iterable[str], filters: Iterable[str]
    ) -> None:
        super().__init__(query)
        self.operators = frozenset(operators)
        self.filters = frozenset(filters)

    def __copy__(self) -> ValidatedQuery:
        """Return a copy that opens the same; without this, it takes three times as long."""
        return ValidatedQuery(self, self.operators, self.filters)


class Budget:
    """A work limit for in-memory queries, which block the event loop.

    Conditions times elements of lists can be very many, from one short request to one large
    record; so can conditions times records, and fields in ``$sort`` times elements. All of it
    counts against one budget for each call of a client.

    Args:
        steps: The largest number of steps; None for any number.

    Attributes:
        steps_left: How many steps are left.
        free_tests: For how many more conditions short lists are not counted.
    """

    __slots__ = ("free_tests", "steps_left")

    def __init__(self, steps: int | None = None) -> None:
        self.steps_left: float = inf if steps is None else steps
        self.free_tests = FREE_TESTS

    def uncounted(self) -> int:
        """Return up to which length the next condition does not count a list."""
        self.free_tests -= 1
        return SHORT_LIST if self.free_tests >= 0 else 0

    def spend(self, steps: int, what: str = "") -> None:
        """Count steps.

        Args:
            steps: How many.
            what: What there is too much of, for the message; without it, conditions or fields to
                sort by.

        Raises:
            BadRequest: The budget is exceeded.
        """
        self.steps_left -= steps
        if self.steps_left < 0:
            raise BadRequest(
                f"{what} for these records; send fewer, or conditions that lead to fewer records"
                if what
                else _TOO_EXPENSIVE
            )
