"""Criteria -> MongoDB's filter, built anew: nothing of it is what a client sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from alula.query import And, Query, Where
from alula.query.criteria import Criterion
from alula.query.operators import truth_of

__all__ = ["Convert", "Filter", "all_of", "filter_of"]

Filter: TypeAlias = dict[str, Any]
Convert: TypeAlias = Callable[[str, Any], Any]

_COMPARING: Final = frozenset({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"})
_LISTS: Final = frozenset({"$in", "$nin", "$all"})


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
    return {operator: _value(operator, value, convert) for operator, value in tests}


def _value(operator: str, value: Any, convert: Callable[[Any], Any]) -> Any:
    if operator in _COMPARING:
        return convert(value)
    if operator in _LISTS:
        return [convert(item) for item in value]
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
