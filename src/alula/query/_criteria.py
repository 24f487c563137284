"""What a query says once it was read: a small tree of frozen objects, for every adapter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from alula.query._budget import Budget

__all__ = ["EMPTY", "EMPTY_QUERY", "And", "Criterion", "Or", "Query", "Where"]

EMPTY: Mapping[str, Any] = MappingProxyType({})
"""A mapping with nothing in it that nobody can change."""


@dataclass(frozen=True, slots=True)
class Where:
    """One field and all tests on it, all of which must hold.

    Attributes:
        field: Name of the field; dots lead into objects and lists.
        tests: Pairs of operator and value; plain equality is ``("$eq", value)``. The value of an
            opened ``$not`` is again a tuple of tests. That of an opened ``$elemMatch`` is either
            a tuple of tests, which one element itself passes, or an `And`, whose criteria the
            fields of one element meet.
    """

    field: str
    tests: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class And:
    """All parts must hold; no parts match everything."""

    parts: tuple[Criterion, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part must hold."""

    parts: tuple[Criterion, ...]


Criterion = Where | And | Or


@dataclass(frozen=True, slots=True)
class Query:
    """A query that was read and found in order.

    Attributes:
        criteria: What a record must meet.
        limit: How many records at most, None where the query does not say.
        skip: How many records are left out at the start.
        sort: Pairs of field and 1 (ascending) or -1 (descending), the first counts most.
        select: Fields to return, None for all.
        filters: Values of the additional filters that the service opened.
        budget: What the call may still make the process do, None where that is not counted.
    """

    criteria: And = And(())
    limit: int | None = None
    skip: int = 0
    sort: tuple[tuple[str, int], ...] = ()
    select: tuple[str, ...] | None = None
    filters: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    budget: Budget | None = field(default=None, compare=False, repr=False)


EMPTY_QUERY = Query()
"""The query that asks for everything."""
