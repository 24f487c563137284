"""A query that a schema has checked: what the schema knows is open, at all adapters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["ValidatedQuery"]


class ValidatedQuery(dict[str, Any]):
    """The mapping of a query with the mark of what its schema opens.

    Page sizes hold for it as for every other query. Who makes a plain mapping of it loses the
    mark, and the query is then read as any other.

    Args:
        query: The query with its values converted.
        operators: Operators that the schema names, beside the common ones.
        filters: Names at the top level that the schema names, beside the common ones.

    Attributes:
        operators: As given.
        filters: As given.
    """

    def __init__(
        self, query: Mapping[str, Any], operators: Iterable[str], filters: Iterable[str]
    ) -> None:
        super().__init__(query)
        self.operators = frozenset(operators)
        self.filters = frozenset(filters)
