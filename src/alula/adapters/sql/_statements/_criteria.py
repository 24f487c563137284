"""Translates the criteria of a query into conditions and their parameters.

A condition is text that holds known names and constant words. A place for a parameter in it is a
NUL, which no name can have; places get their numbers when the whole statement is known. So equal
lists of conditions are equal shapes, and the text of a shape is made once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from alula.adapters._database_options import check_conditions
from alula.adapters.sql._options import SQLOptions
from alula.adapters.sql._statements._named_operands import column_operand, path_operand
from alula.adapters.sql._statements._operands import (
    Operand,
    all_of,
    any_of,
)
from alula.adapters.sql._statements._search import search_condition
from alula.adapters.sql._tables._tables import Table
from alula.errors import BadRequest, shown_name
from alula.query import And, Query, Where
from alula.query._query import Budget, Criterion
from alula.types import JSONValue

__all__ = ["Criteria", "unknown_field"]

_COUNT_ONCE: Final = frozenset({"$eq", "$ne", "$lt", "$lte", "$gt", "$gte"})
"""Operators whose tests are one condition, whatever their value."""


def unknown_field(name: str) -> BadRequest:
    """Return the error for a name that is neither a column nor a declared path."""
    return BadRequest(f"Invalid query parameter {shown_name(name)}: there is no such field")


class Criteria:
    """Translates the criteria of queries for one table under the options of a service.

    Args:
        table: The table.
        options: ``paths`` names the JSON paths that queries may test; ``max_conditions`` bounds
            the conditions.
        joined: Operands of other tables, by the names that queries have for them.

    Raises:
        ValueError: A path does not begin with a JSON column.
    """

    def __init__(
        self, table: Table, options: SQLOptions, joined: Mapping[str, Operand] | None = None
    ) -> None:
        self._max_conditions = options.max_conditions
        self._search = search_condition(table, options.search) if options.search else None
        self._operands: dict[str, Operand] = {
            name: column_operand(column, table)
            for name, column in table.columns.items()
            if column is not table.extra
        }
        for path, type_ in options.paths.items():
            self._operands[path] = path_operand(path, type_, table)
        self._operands.update(joined or {})

    def operand(self, field: str) -> Operand:
        """Return what a query means by the name of a field.

        Raises:
            BadRequest: There is no such field.
        """
        operand = self._operands.get(field)
        if operand is None:
            raise unknown_field(field)
        return operand

    def conditions(self, query: Query, parameters: list[object]) -> tuple[str, ...]:
        """Return the conditions of a query, all of which must hold.

        Args:
            query: Its criteria and its filter ``$search``.
            parameters: Where to append the parameters, in the order of their places.

        Raises:
            BadRequest: A field does not exist, a value cannot be of its type, an operator does not
                go with it, or there are too many conditions.
        """
        parts = query.criteria.parts
        if not parts and not query.filters:
            return ()
        conditions: list[str] = []
        many = False
        for part in parts:
            if not isinstance(part, Where):
                many = True
                conditions.append(self._condition(part, parameters, query.budget))
                continue
            operand = self._operands.get(part.field)
            if operand is None:
                raise unknown_field(part.field)
            for operator, value in part.tests:
                if operator not in _COUNT_ONCE:
                    many = True
                    _spend(operator, value, query.budget)
                conditions.append(operand.test(operator, value, parameters))
        # Most queries have a few plain tests: counting them again would take as long as the rest.
        if self._max_conditions is not None and (many or len(conditions) > self._max_conditions):
            check_conditions(query.criteria, self._max_conditions)
        if "$search" in query.filters:
            if self._search is None:
                raise BadRequest("Invalid filter value $search: there is nothing to search in")
            conditions.append(self._search(query.filters["$search"], parameters))
        return tuple(conditions)

    def _condition(self, part: Criterion, parameters: list[object], budget: Budget | None) -> str:
        """Return a part of the criteria as one condition."""
        if isinstance(part, Where):
            operand = self.operand(part.field)
            inner: list[str] = []
            for operator, value in part.tests:
                _spend(operator, value, budget)
                inner.append(operand.test(operator, value, parameters))
            return all_of(inner)
        # Text in text: nested parts are rare, and the shape stays one flat list for a fast key.
        inner = [self._condition(each, parameters, budget) for each in part.parts]
        return all_of(inner) if isinstance(part, And) else any_of(inner)


def _spend(operator: str, value: JSONValue, budget: Budget | None) -> None:
    """Count the values of a list: each is converted, and nothing else runs meanwhile."""
    if budget is not None and isinstance(value, list):
        budget.spend(len(value), f"{operator} has too many values")
