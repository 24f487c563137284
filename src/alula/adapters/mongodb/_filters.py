"""Criteria -> MongoDB's filter, built anew: nothing of it is what a client sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from re import DOTALL, IGNORECASE, MULTILINE, VERBOSE, Pattern
from typing import Any, Final, TypeAlias

from bson.regex import Regex

from alula.errors import BadRequest
from alula.query import And, Or, Query, Where
from alula.query._criteria import Criterion
from alula.query._operators import truth_of

__all__ = [
    "MAX_CONDITIONS",
    "Convert",
    "Filter",
    "all_of",
    "check_conditions",
    "filter_of",
    "read_max_conditions",
]

Filter: TypeAlias = dict[str, Any]
Convert: TypeAlias = Callable[[str, Any], Any]

MAX_CONDITIONS: Final = 100
"""How many conditions a query may have where the service does not say otherwise.

The database tests each condition on each record that no index rules out, and on each element of a
list: 990 of them, which fit into 24 kB, keep it busy for minutes on 100,000 records.
"""

_COMPARING: Final = frozenset({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"})
_FLAGS: Final = IGNORECASE | MULTILINE | DOTALL | VERBOSE
_NAME_WITH_PATTERN: Final = {"$eq": "$in", "$ne": "$nin"}
_LISTS: Final = frozenset({"$in", "$nin", "$all"})
_NESTED: Final = frozenset({"$not", "$elemMatch"})
_COMPARED_ONE_BY_ONE: Final = (Mapping, list, tuple, Pattern, Regex)


def read_max_conditions(value: Any) -> int | None:
    """Return how many conditions an option allows, None for any number.

    Raises:
        ValueError: It is neither a whole number from 1 on nor False.
    """
    if value is False:
        return None
    if type(value) is not int or value < 1:
        raise ValueError(
            f"max_conditions is {value!r}; give a whole number from 1 on, or False for no limit"
        )
    return value


def check_conditions(criteria: Criterion, most: int) -> None:
    """Refuse criteria with too many conditions.

    A list of `$in` or `$nin` counts once, however long it is, except for objects and patterns in
    it: the database looks plain values up, but tries those one after the other.

    Raises:
        BadRequest: There are more than ``most``.
    """
    number = _conditions_in(criteria)
    if number > most:
        raise BadRequest(
            f"The query has {number} conditions, and {most} are allowed; compare one field with"
            " many values by $in"
        )


def _conditions_in(part: Any) -> int:
    if isinstance(part, And | Or):
        return sum(map(_conditions_in, part.parts))
    tests = part.tests if isinstance(part, Where) else part
    return sum(_conditions_of(operator, value) for operator, value in tests)


def _conditions_of(operator: str, value: Any) -> int:
    if operator == "$all":
        return max(1, len(value))
    if operator in _LISTS:
        return 1 + sum(isinstance(item, _COMPARED_ONE_BY_ONE) for item in value)
    return _conditions_in(value) if operator in _NESTED else 1


def filter_of(query: Query, convert: Convert) -> Filter:
    """Return the filter for a query: its criteria, and the filters that the service opened.

    Args:
        query: As the grammar has read it.
        convert: Gets a field's name and a value to compare with; returns the value to send.
    """
    parts = [_part(part, convert) for part in query.criteria.parts]
    if query.filters:
        parts.append(_opened(query.filters))
    return all_of(parts)


def all_of(parts: list[Filter]) -> Filter:
    """Return one filter that stands for all of some."""
    merged: Filter = {}
    for part in parts:
        if any(name in merged for name in part):
            return {"$and": parts}
        merged.update(part)
    return merged


def _opened(filters: Mapping[str, Any]) -> Filter:
    """Return what the opened filters stand for; ``$search`` is the short form of ``$text``."""
    found = dict(filters)
    if "$search" in found:
        found["$text"] = {"$search": found.pop("$search")}
    return found


def _part(part: Criterion, convert: Convert) -> Filter:
    if isinstance(part, Where):
        return {part.field: _tests(part.tests, lambda value: convert(part.field, value))}
    parts = [_part(inner, convert) for inner in part.parts]
    return all_of(parts) if isinstance(part, And) else {"$or": parts}


def _tests(tests: Iterable[tuple[str, Any]], convert: Callable[[Any], Any]) -> Filter:
    given = dict(tests)
    found: Filter = {}
    for operator, value in given.items():
        if isinstance(value, Pattern) and operator in ("$eq", "$ne"):
            # The database would look for a stored pattern, where one in a list is matched.
            name = _NAME_WITH_PATTERN[operator]
            if name in given:
                name = "$regex" if operator == "$eq" else "$not"
            found[name] = _regex(value) if name not in _LISTS else [_regex(value)]
        else:
            found[operator] = _value(operator, value, convert)
    return found


def _regex(pattern: Pattern[str]) -> Regex[str]:
    """Return a compiled pattern as the database takes it.

    Raises:
        BadRequest: It is one of bytes.
    """
    if not isinstance(pattern.pattern, str):
        raise BadRequest("Invalid query: a pattern of bytes matches no text; compile one of text")
    return Regex(pattern.pattern, pattern.flags & _FLAGS)


def _value(operator: str, value: Any, convert: Callable[[Any], Any]) -> Any:
    if isinstance(value, Pattern):
        if operator in _COMPARING:
            raise BadRequest("Invalid query: a pattern has no order; compare with a value")
        return _regex(value)
    if operator in _COMPARING:
        return convert(value)
    if operator in _LISTS:
        return [_regex(item) if isinstance(item, Pattern) else convert(item) for item in value]
    if operator == "$not":
        return _tests(value, convert)
    if operator == "$elemMatch":
        return (
            all_of([_part(part, _as_it_is) for part in value.parts])
            if isinstance(value, And)
            else _tests(value, convert)
        )
    change = _FROM_TEXT.get(operator)
    return value if change is None else change(value)


def _as_it_is(_: str, value: Any) -> Any:
    return value


def _number(value: Any) -> Any:
    """Return the number that digits show: over HTTP every value is text."""
    digits = isinstance(value, str) and len(value) < 19 and value.removeprefix("-").isdecimal()
    return int(value) if digits else value


def _numbers(value: Any) -> Any:
    return [_number(item) for item in value] if isinstance(value, list) else value


_FROM_TEXT: Final[Mapping[str, Callable[[Any], Any]]] = {
    "$exists": truth_of,
    "$size": _number,
    "$mod": _numbers,
}
"""Operators whose value is no text, which is all that a query string can carry."""
