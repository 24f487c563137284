"""The query of a call as hooks see and change it, and which fields it wants."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from alula._context import HookContext
from alula.query import Grammar, ValidatedQuery

__all__ = ["query_like", "query_of", "selected_by", "set_query", "with_select", "without_select"]

_GRAMMAR = Grammar()


def query_of(context: HookContext) -> Mapping[str, Any]:
    """Return the query of a call."""
    return context.params.query


def set_query(context: HookContext, query: Any) -> None:
    """Let a call have another query."""
    context.params.query = query


def query_like(query: Mapping[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    """Return a changed query with the mark of the one that it was made of."""
    if isinstance(query, ValidatedQuery):
        return ValidatedQuery(changed, query.operators, query.filters)
    return changed


def without_select(query: Mapping[str, Any]) -> dict[str, Any]:
    """Return a query for whole records."""
    return query_like(query, {name: query[name] for name in query if name != "$select"})


def with_select(query: Mapping[str, Any], select: Any) -> dict[str, Any]:
    """Return a query with a ``$select``."""
    return query_like(query, {**query, "$select": select})


def selected_by(context: HookContext) -> Collection[str] | None:
    """Return the properties that a call wants, None for all.

    Of a dotted name that is the property that it begins with. The id is always among them where
    the service says how it is called.

    Raises:
        BadRequest: ``$select`` is no list of names.
    """
    names = _GRAMMAR.read_select(query_of(context))
    if names is None:
        return None
    chosen = dict.fromkeys(name.partition(".")[0] for name in names)
    key = getattr(context.service.service, "id", None)
    if isinstance(key, str):
        chosen[key] = None
    return chosen.keys()
