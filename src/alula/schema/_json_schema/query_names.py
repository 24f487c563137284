"""Which names of the query syntax a schema lists, so that the adapters' grammar opens them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from alula.query._grammar import COMMON_FILTERS, COMMON_OPERATORS

__all__ = ["beside_the_common", "names_opened"]

_IN_PLACE = ("allOf", "anyOf", "oneOf")
_COMMON = COMMON_FILTERS | COMMON_OPERATORS


def names_opened(schema: Any) -> tuple[frozenset[str], frozenset[str]]:
    """Return the operators and the filters that a query's schema names beside the common ones.

    A property whose name begins with ``$`` is a filter in the schema of the query itself, and an
    operator anywhere below.
    """
    operators = beside_the_common(_anywhere(_below_the_top(schema)))
    return operators, beside_the_common(_at_the_top(schema))


def beside_the_common(names: Iterable[str]) -> frozenset[str]:
    """Return those names that are no part of the common query syntax."""
    return frozenset(names) - _COMMON


def _at_the_top(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        yield from (name for name in schema.get("properties", ()) if name[:1] == "$")
        for branch in _branches(schema):
            yield from _at_the_top(branch)


def _below_the_top(schema: Any) -> Any:
    """Return the parts of a schema that are not about the query itself."""
    if not isinstance(schema, Mapping):
        return []
    rest = [value for name, value in schema.items() if name not in ("properties", *_IN_PLACE)]
    return [
        rest,
        list(map(_below_the_top, _branches(schema))),
        list(schema.get("properties", {}).values()),
    ]


def _branches(schema: Mapping[str, Any]) -> list[Any]:
    """Return the schemas that look at the same value."""
    return [branch for keyword in _IN_PLACE for branch in schema.get(keyword, ())]


def _anywhere(schema: Any) -> Iterator[str]:
    """Yield the names of all properties that begin with ``$`` in a schema and all below it."""
    if isinstance(schema, list):
        for each in schema:
            yield from _anywhere(each)
    elif isinstance(schema, Mapping):
        named = schema.get("properties")
        if isinstance(named, Mapping):
            yield from (name for name in named if name[:1] == "$")
        for below in schema.values():
            yield from _anywhere(below)
