"""The grammar of the common query syntax: a raw mapping goes in, a frozen `Query` comes out.

What holds in this file:

- The grammar is closed: a name that starts with ``$`` is one of those listed here, or one that a
  service opened, or an error that names it. Nothing passes through unread.
- It is recursive: the same rules hold at every level, through objects and lists alike.
- All that can go wrong with a query is a `BadRequest`; all that can go wrong with what a service
  opens is a `ValueError` when the service is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from alula.query._budget import Budget
from alula.query._criteria import EMPTY, EMPTY_QUERY, And, Criterion, Or, Query, Where
from alula.query._validated import ValidatedQuery
from alula.query._values import (
    FORBIDDEN,
    as_list,
    check_depth,
    check_name,
    check_open_name,
    copy_value,
    is_mapping,
    read_list,
    read_number,
    read_select,
    read_sort,
    refused,
)
from alula.types import SCALAR_TYPES

__all__ = [
    "COMMON_FILTERS",
    "COMMON_OPERATORS",
    "EMPTY_QUERY",
    "FORBIDDEN",
    "And",
    "Criterion",
    "FilterOption",
    "Grammar",
    "Or",
    "Query",
    "Where",
]

COMMON_FILTERS = frozenset({"$limit", "$skip", "$sort", "$select", "$or", "$and"})
"""Names at the top level that every adapter knows."""
COMMON_OPERATORS = frozenset({"$in", "$nin", "$lt", "$lte", "$gt", "$gte", "$ne"})
"""Names below a field that every adapter knows."""

FilterOption = bool | Callable[[Any], Any]
"""True passes a filter's value on, False accepts and drops it, a callable converts it."""

Reader = Callable[[str, Any, int], Any]
"""Reads the value of one operator: its name, the value, the level at which it stands."""


class Grammar:
    """Reads the queries of one service.

    It knows ``$limit``, ``$skip``, ``$sort``, ``$select``, ``$or`` and ``$and``, and below a field
    ``$in``, ``$nin``, ``$lt``, ``$lte``, ``$gt``, ``$gte`` and ``$ne``.

    Args:
        operators: Further operators below a field, such as ``$regex``.
        filters: Further names at the top level. True passes the value on in `Query.filters`,
            False accepts and drops it, a callable gets the value and returns what is passed on
            (a value that it can not convert, such as ``int("x")``, is a 400).

    Raises:
        ValueError: A name does not start with ``$``, is part of the common syntax already, or
            never passes from a query.
    """

    def __init__(
        self,
        *,
        operators: Iterable[str] = (),
        filters: Mapping[str, FilterOption] | None = None,
    ) -> None:
        # Operators whose values have a form of their own; the values of others are free.
        known: dict[str, Reader] = {
            "$eq": _read_value,
            "$all": read_list,
            "$not": self._read_not,
            "$elemMatch": self._read_element,
        }
        self._operators: dict[str, Reader] = dict.fromkeys(COMMON_OPERATORS, _read_value)
        self._operators.update({"$in": read_list, "$nin": read_list})
        for name in operators:
            _check_opened(name, "operators")
            self._operators[name] = known.get(name, _read_open)
        self._filters = dict(filters or {})
        self._wider: dict[tuple[frozenset[str], frozenset[str]], Grammar] = {}
        for name, option in self._filters.items():
            _check_opened(name, "filters")
            if not (isinstance(option, bool) or callable(option)):
                raise ValueError(
                    f"filters: the option of {name!r} is {option!r}; give True (pass the value on),"
                    " False (drop it) or a function that converts it"
                )

    def read(self, raw: Mapping[str, Any], budget: Budget | None = None) -> Query:
        """Return the query that a raw mapping describes.

        Args:
            raw: What came in as ``params.query``. It is not changed. For a `ValidatedQuery` the
                grammar is open for what its schema names, too.
            budget: What the call may make the process do; for `Query.budget`.

        Returns:
            A frozen query; `EMPTY_QUERY` itself where the mapping is empty.

        Raises:
            BadRequest: The query breaks the grammar; the message names the part.
            TypeError: It is None, which the code of the application has set.
        """
        if type(raw) is not dict and not is_mapping(raw):
            raise _no_mapping(raw)
        if not raw:
            return EMPTY_QUERY
        if type(raw) is ValidatedQuery and (raw.operators or raw.filters):
            return self._opened_for(raw).read(dict(raw), budget)
        parts: list[Criterion] = []
        limit: int | None = None
        skip = 0
        sort: tuple[tuple[str, int], ...] = ()
        select: tuple[str, ...] | None = None
        filters: Mapping[str, Any] = EMPTY
        for name, value in raw.items():
            if not isinstance(name, str) or name[:1] != "$":
                self._read_field(parts, name, value, raw, 1)
            elif name == "$limit":
                limit = read_number(name, value)
            elif name == "$skip":
                skip = read_number(name, value)
            elif name == "$sort":
                sort = read_sort(value)
            elif name == "$select":
                select = read_select(value)
            elif name in ("$or", "$and"):
                parts.append(self._read_branches(name, value, 1))
            else:
                filters = self._read_filter(filters, name, value)
        criteria = And(tuple(parts)) if parts else EMPTY_QUERY.criteria
        return Query(criteria, limit, skip, sort, select, filters, budget)

    def opened(
        self,
        operators: Iterable[str] | None = None,
        filters: Mapping[str, FilterOption] | None = None,
    ) -> Grammar:
        """Return a grammar with other operators or filters opened; None leaves them as they are.

        Raises:
            ValueError: As for a new one.
        """
        return Grammar(
            operators=self._operators.keys() - COMMON_OPERATORS if operators is None else operators,
            filters=self._filters if filters is None else filters,
        )

    def read_select(self, raw: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the fields that ``$select`` names, None where it is not there.

        Nothing else in the mapping is looked at: ``create`` ignores the rest of a query.

        Raises:
            BadRequest: ``$select`` is not a list of names.
        """
        return read_select(raw["$select"]) if raw and "$select" in raw else None

    def _opened_for(self, raw: ValidatedQuery) -> Grammar:
        """Return this grammar, open for what the schema of a query names; one for each schema."""
        key = raw.operators, raw.filters
        wider = self._wider.get(key)
        if wider is None:
            wider = self._wider[key] = Grammar(
                operators=self._operators.keys() - COMMON_OPERATORS | raw.operators,
                filters={**dict.fromkeys(raw.filters, True), **self._filters},
            )
        return wider

    def _read_filter(self, filters: Mapping[str, Any], name: str, value: Any) -> Mapping[str, Any]:
        """Return the filters with the one that this name opens."""
        option = self._filters.get(name)
        if option is None:
            raise refused(f"Invalid filter value {name}")
        if option is False:
            return filters
        value = copy_value(value, 1, check_open_name)
        if option is not True:
            try:
                value = option(value)
            except (TypeError, ValueError, ArithmeticError, LookupError) as error:
                raise refused(f"Invalid value for {name}") from error
        return MappingProxyType({**filters, name: value})

    def _read_branches(self, name: str, value: Any, depth: int) -> And | Or:
        """Return what ``$or`` or ``$and`` holds."""
        entries = as_list(value)
        if not entries or not all(map(is_mapping, entries)):
            raise refused(
                f"Invalid value for {name}: expected a list of objects with at least one entry"
            )
        parts = []
        for entry in entries:
            found = self._read_criteria(entry, depth + 1)
            parts.append(found[0] if len(found) == 1 else And(tuple(found)))
        return Or(tuple(parts)) if name == "$or" else And(tuple(parts))

    def _read_criteria(self, raw: Mapping[str, Any], depth: int) -> list[Criterion]:
        """Return the criteria in an object below the top level, where filters have no meaning."""
        check_depth(depth)
        parts: list[Criterion] = []
        for name, value in raw.items():
            if name in ("$or", "$and"):
                parts.append(self._read_branches(name, value, depth))
            else:
                self._read_field(parts, name, value, raw, depth)
        return parts

    def _read_field(
        self, parts: list[Criterion], name: str, value: Any, holder: Mapping[str, Any], depth: int
    ) -> None:
        """Append what one entry of `holder` asks for; a nested one may ask for several fields."""
        if type(name) is not str or not name.isidentifier():
            check_name(name, holder)
        if type(value) in SCALAR_TYPES:
            parts.append(Where(name, (("$eq", value),)))
        elif not is_mapping(value):
            parts.append(Where(name, (("$eq", copy_value(value, depth)),)))
        elif _is_operators(value):
            parts.append(Where(name, self._read_tests(value, depth + 1)))
        elif _holds_operators(value, depth + 1):
            for key, inner in value.items():
                check_name(key, value)
                self._read_field(parts, f"{name}.{key}", inner, value, depth + 1)
        else:
            parts.append(Where(name, (("$eq", copy_value(value, depth)),)))

    def _read_tests(self, raw: Mapping[str, Any], depth: int) -> tuple[tuple[str, Any], ...]:
        """Return the tests in an object of operators."""
        check_depth(depth)
        tests = []
        for name, value in raw.items():
            reader = self._operators.get(name)
            if reader is None:
                check_name(name, raw)
                raise refused(f"Invalid query parameter {name}: expected an operator", raw)
            tests.append((name, reader(name, value, depth)))
        return tuple(tests)

    def _read_not(self, name: str, value: Any, depth: int) -> tuple[tuple[str, Any], ...]:
        if not is_mapping(value) or not value:
            raise refused(f"Invalid value for {name}: expected an object of operators")
        return self._read_tests(value, depth + 1)

    def _read_element(self, name: str, value: Any, depth: int) -> And | tuple[tuple[str, Any], ...]:
        if not is_mapping(value):
            raise refused(f"Invalid value for {name}: expected an object")
        if _is_operators(value) and "$or" not in value and "$and" not in value:
            return self._read_tests(value, depth + 1)
        return And(tuple(self._read_criteria(value, depth + 1)))


def _check_opened(name: Any, where: str) -> None:
    """Raise ValueError unless a service may open this name."""
    if not isinstance(name, str) or len(name) < 2 or name[0] != "$":
        raise ValueError(f"{where}: {name!r} is no name of the query syntax; those start with '$'")
    if name in FORBIDDEN:
        raise ValueError(f"{where}: {name!r} runs code or expressions and never passes; remove it")
    if name in COMMON_OPERATORS or name in COMMON_FILTERS:
        raise ValueError(f"{where}: {name!r} is part of the common syntax already; remove it")


def _read_value(_name: str, value: Any, depth: int) -> Any:
    return value if type(value) in SCALAR_TYPES else copy_value(value, depth)


def _read_open(_name: str, value: Any, depth: int) -> Any:
    return copy_value(value, depth, check_open_name)


def _is_operators(value: Mapping[str, Any]) -> bool:
    """Say whether an object holds operators: one name of them is enough."""
    for name in value:  # noqa: SIM110 - a generator costs more than the loop
        if isinstance(name, str) and name[:1] == "$":
            return True
    return False


def _holds_operators(value: Mapping[str, Any], depth: int) -> bool:
    """Say whether operators stand somewhere in the objects inside this one."""
    check_depth(depth)
    inside = filter(is_mapping, value.values())
    return any(_is_operators(inner) or _holds_operators(inner, depth + 1) for inner in inside)


def _no_mapping(raw: object) -> Exception:
    if raw is None:  # such as from a function of a hook that forgot to return one
        return TypeError("params.query is None; a query is a mapping, and {} selects everything")
    return refused("Invalid query: expected an object")
