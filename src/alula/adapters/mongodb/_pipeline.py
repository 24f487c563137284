"""A query -> aggregation stages, and a caller's own stages around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

from alula.adapters.mongodb._filters import Filter
from alula.query import Query

__all__ = [
    "MARKER",
    "NOTHING",
    "Stage",
    "counting",
    "page_and_total",
    "projection_of",
    "sorts_by_index",
    "sorts_in_facet",
    "stages_of",
    "with_own_stages",
]

Stage: TypeAlias = dict[str, Any]

MARKER: Final = "$framework"
"""The stage that says where the query's stages go among a caller's own."""

NOTHING: Final[Filter] = {"_id": {"$in": []}}
"""The filter that no document meets: a limit of 0 means "no limit" to the database."""


def projection_of(select: Sequence[str] | None, id: str) -> dict[str, int] | None:
    """Return the projection for ``$select``; the id is kept, and None stands for all fields."""
    if select is None:
        return None
    chosen = dict.fromkeys((*select, id), 1)
    # A path below a field that is taken as a whole would collide with it.
    fields = {name: 1 for name in chosen if not any(path in chosen for path in _above(name))}
    own = any(name == "_id" or name.startswith("_id.") for name in fields)
    return fields if own else {**fields, "_id": 0}


def _above(name: str) -> Iterator[str]:
    """Yield the names that a dotted name lies below."""
    return accumulate(name.split(".")[:-1], "{}.{}".format)


def stages_of(query: Query, filter: Filter, projection: Mapping[str, Any] | None) -> list[Stage]:
    """Return match, sort, skip, limit and project, of which only those that do something."""
    match = NOTHING if query.limit == 0 else filter
    stages: list[Stage] = [{"$match": match}] if match else []
    if query.sort:
        stages.append({"$sort": dict(query.sort)})
    if query.skip:
        stages.append({"$skip": query.skip})
    if query.limit:
        stages.append({"$limit": query.limit})
    if projection:
        if sorts_by_index(query):
            # Else the database reads the named fields alone, and takes an index for a name there:
            # ``tags.0`` is in no document, so that nothing would be in order.
            stages.append({"$replaceWith": "$$ROOT"})
        stages.append({"$project": dict(projection)})
    return stages


def with_own_stages(stages: list[Stage], own: Sequence[Stage] | None) -> list[Stage]:
    """Return a caller's stages with the query's at the marker, without one at the start."""
    if not own:
        return stages
    at = next((index for index, stage in enumerate(own) if MARKER in stage), None)
    if at is None:
        return [*stages, *own]
    return [*own[:at], *stages, *own[at + 1 :]]


def counting(filter: Filter, own: Sequence[Stage] | None) -> list[Stage]:
    """Return the stages that count what a query gives without its page."""
    match: list[Stage] = [{"$match": filter}] if filter else []
    return [*with_own_stages(match, own), {"$count": "total"}]


def page_and_total(stages: list[Stage]) -> list[Stage]:
    """Return the stages that give one document, with the records of a page and the total.

    The database reads all that match for it, once: good where they are few.

    Args:
        stages: Those of a query that has a page size.
    """
    first = 1 if "$match" in stages[0] else 0
    parts = {"data": stages[first:], "total": [{"$count": "total"}]}
    return [*stages[:first], {"$facet": parts}]


def sorts_in_facet(query: Query) -> bool:
    """Tell whether the page can be asked for within `page_and_total`.

    With a ``$project`` behind it, MongoDB 6.0 reads for a sort there the named fields alone,
    and finds nothing by the index of a list (``tags.0``).
    """
    return query.select is None or not sorts_by_index(query)


def sorts_by_index(query: Query) -> bool:
    """Tell whether a field of ``$sort`` can lead to an element of a list by its index."""
    return any(part.isdigit() for field, _ in query.sort for part in field.split("."))
