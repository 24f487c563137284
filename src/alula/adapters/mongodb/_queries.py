"""Translates queries into what MongoDB takes: filters, projections, aggregation stages.

All of it is built anew from what the grammar has read: nothing that reaches the database is an
object that a client sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from re import DOTALL, IGNORECASE, MULTILINE, VERBOSE, Pattern
from typing import Any, Final, TypeAlias

import bson
from bson.regex import Regex

from alula._context import Params
from alula.adapters._database_options import check_conditions
from alula.adapters.mongodb._bson_types import to_object_id
from alula.adapters.mongodb._model import Collection
from alula.adapters.mongodb._multi import Selection
from alula.adapters.mongodb._options import (
    MongoDBOptions,
    Operation,
    driver_options,
    pairs_of,
    session_of,
)
from alula.errors import BadRequest, NotFound
from alula.query import EMPTY_QUERY, And, Query, Where
from alula.query._operators import truth_of
from alula.query._query import Criterion
from alula.types import Id, is_list, is_mapping

__all__ = [
    "MARKER",
    "NOTHING",
    "Filter",
    "PageRange",
    "QueryTranslator",
    "Stage",
    "all_of",
    "counting",
    "filter_of",
    "measuring",
    "page_query",
    "pages_and_total",
    "projection_of",
    "sorts_by_index",
    "stages_of",
    "with_caller_stages",
    "with_docdb_range",
]

Filter: TypeAlias = dict[str, Any]
Stage: TypeAlias = dict[str, Any]
PageRange: TypeAlias = tuple[int, int]
"""How many records come before a page, and its size."""

Convert: TypeAlias = Callable[[str, Any], Any]
"""Gets a field's name and a value to compare with; returns the value to send."""

MARKER: Final = "$framework"
"""The stage that says where the query's stages go among those of ``params.pipeline``."""

NOTHING: Final[Filter] = {"_id": {"$in": []}}
"""The filter that no document meets: a limit of 0 means "no limit" to the database."""

_COMPARING: Final = frozenset({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"})
_FLAGS: Final = IGNORECASE | MULTILINE | DOTALL | VERBOSE
_NAME_WITH_PATTERN: Final = {"$eq": "$in", "$ne": "$nin"}
_LISTS: Final = frozenset({"$in", "$nin", "$all"})
_NESTED: Final = frozenset({"$not", "$elemMatch"})
# `Any`, so that a type checker does not take the text in it for unknown.
_PATTERN: Final[Any] = Pattern
_COMPARED_ONE_BY_ONE: Final = (Mapping, list, tuple, Pattern, Regex)


class QueryTranslator:
    """Translates a query, an id and params into PyMongo filters, pipelines and options.

    Args:
        options: The options of the service, or of a call that overrides some of them.

    Attributes:
        options: As given.
    """

    def __init__(self, options: MongoDBOptions) -> None:
        self.options = options

    def key(self, id: Id) -> Id:
        """Return the id of a record as the database stores it.

        Raises:
            NotFound: The database could not store it, so no record has it.
        """
        key = self._converted(self.options.id, id)
        if type(key) is str or type(key) is int:
            try:
                bson.encode({"": key})
            except (UnicodeEncodeError, OverflowError) as error:
                raise NotFound(f"No record found for id '{id}'") from error
        return key

    def filter(self, query: Query) -> Filter:
        """Return the filter of a query.

        Raises:
            BadRequest: The query has too many conditions.
        """
        if query is EMPTY_QUERY:
            return {}
        if self.options.max_conditions is not None:
            check_conditions(query.criteria, self.options.max_conditions, _COMPARED_ONE_BY_ONE)
        return filter_of(query, self._converted)

    def filter_with(self, id: Id, query: Query, params: Params) -> Filter:
        """Return the filter for the record with an id if it meets a query."""
        key = self.key(id)
        collates = params.collation is not None or (params.docdb or {}).get("collation")
        if type(key) is str and collates:
            # An id is compared exactly: a collation that takes "ann" for "ANN" does not apply to
            # regular expressions. $eq is there for the index, and for the id of an upsert.
            key = {"$eq": key, "$regex": rf"\A{re.escape(key)}\z"}
        by_id = {self.options.id: key}
        return by_id if query is EMPTY_QUERY else all_of([by_id, self.filter(query)])

    def projection(self, query: Query, params: Params) -> Mapping[str, Any] | None:
        """Return the fields to read, None for all; that of ``docdb`` wins over ``$select``."""
        given = (params.docdb or {}).get("projection")
        if given is None:
            return projection_of(query.select, self.options.id)
        return given if is_mapping(given) else dict.fromkeys(given, 1)

    def stages(self, query: Query, params: Params) -> list[Stage]:
        """Return the stages of an aggregation for a query."""
        return stages_of(query, self.filter(query), self.projection(query, params))

    def stages_with(self, id: Id, query: Query, params: Params) -> list[Stage]:
        """Return the stages of an aggregation for the record with an id."""
        by_id = self.filter_with(id, query, params)
        return stages_of(Query(limit=1), by_id, self.projection(query, params))

    def find_arguments(self, query: Query, params: Params) -> dict[str, Any]:
        """Return the arguments of PyMongo's ``find``."""
        return driver_options("find", params) | {
            "filter": NOTHING if query.limit == 0 else self.filter(query),
            "skip": query.skip,
            "limit": query.limit or 0,
            "sort": list(query.sort) or None,
            "projection": self.projection(query, params),
        }

    def options_by_id(self, operation: Operation, params: Params, query: Query) -> dict[str, Any]:
        """Return the options of an operation on the record with an id."""
        options = driver_options(operation, params)
        if options and not query.criteria.parts:
            options.pop("collation", None)  # an id is compared exactly
        if query.select is not None and "projection" not in options:
            options["projection"] = projection_of(query.select, self.options.id)
        return options

    def selection(
        self, model: Collection, id: Id | None, query: Query, params: Params
    ) -> Selection:
        """Return the records that a query selects, or with an id the one of it."""
        query = with_docdb_range(query, params)
        return Selection(
            model,
            self.filter(query) if id is None else self.filter_with(id, query, params),
            query.sort,
            self.projection(query, params),
            session_of(params),
            driver_options("select_many", params),
        )

    def _converted(self, field: str, value: Any) -> Any:
        return to_object_id(value) if field == "_id" and self.options.objectify else value


def page_query(query: Query, params: Params, id: str) -> Query:
    """Return the query of a page, with what `with_docdb_range` adds and an order without ties.

    Pages of records that are equal in all fields of ``$sort`` would repeat some records and lose
    others, since MongoDB gives such records in another order each time. So ``_id`` comes last. It
    has the direction of the field before it: an index of both serves either direction. An order in
    ``params.docdb`` is the application's own, and stays as it is.

    Args:
        query: The query.
        params: The params of the call.
        id: The name of the id property.
    """
    page, sort = with_docdb_range(query, params), query.sort
    is_page = page.limit is not None or page.skip > 0
    if not sort or not is_page or any(field in {"_id", id} for field, _ in sort):
        return page
    return page._replace(sort=(*sort, ("_id", sort[-1][1])))


def with_docdb_range(query: Query, params: Params) -> Query:
    """Return the query with the sort, skip and limit of ``params.docdb``.

    Those of the query win; of two limits the smaller one counts.
    """
    given = params.docdb or {}
    if not ("limit" in given or "skip" in given or "sort" in given):
        return query
    limits = (query.limit, abs(given.get("limit") or 0) or None)
    return query._replace(
        limit=min((limit for limit in limits if limit is not None), default=None),
        skip=query.skip or given.get("skip") or 0,
        sort=query.sort or pairs_of(given.get("sort") or ()),
    )


# -- filters ---------------------------------------------------------------------------------------


def filter_of(query: Query, convert: Convert) -> Filter:
    """Return the filter for a query: its criteria, and the filters that the service opened."""
    parts = [_part(part, convert) for part in query.criteria.parts]
    if query.filters:
        filters = dict(query.filters)
        if "$search" in filters:  # the short form of $text
            filters["$text"] = {"$search": filters.pop("$search")}
        parts.append(filters)
    return all_of(parts)


def all_of(parts: list[Filter]) -> Filter:
    """Return one filter that a document meets if it meets all of these."""
    merged: Filter = {}
    for part in parts:
        if any(name in merged for name in part):
            return {"$and": parts}
        merged.update(part)
    return merged


def _part(part: Criterion, convert: Convert) -> Filter:
    if isinstance(part, Where):
        return {part.field: _tests(part.tests, lambda value: convert(part.field, value))}
    parts = [_part(inner, convert) for inner in part.parts]
    return all_of(parts) if isinstance(part, And) else {"$or": parts}


def _tests(tests: Iterable[tuple[str, Any]], convert: Callable[[Any], Any]) -> Filter:
    given = dict(tests)
    translated: Filter = {}
    for operator, value in given.items():
        if isinstance(value, _PATTERN) and operator in ("$eq", "$ne"):
            # $eq would look for a stored pattern, but a pattern in the list of $in is matched.
            name = _NAME_WITH_PATTERN[operator]
            if name in given:
                name = "$regex" if operator == "$eq" else "$not"
            translated[name] = _regex(value) if name not in _LISTS else [_regex(value)]
        else:
            translated[operator] = _value(operator, value, convert)
    return translated


def _regex(pattern: Pattern[str]) -> Regex[str]:
    """Return a compiled pattern as BSON.

    Raises:
        BadRequest: It is a pattern of bytes.
    """
    if not isinstance(pattern.pattern, str):
        raise BadRequest("Invalid query: a pattern of bytes matches no text; compile one of text")
    return Regex(pattern.pattern, pattern.flags & _FLAGS)


def _value(operator: str, value: Any, convert: Callable[[Any], Any]) -> Any:
    if isinstance(value, _PATTERN):
        if operator in _COMPARING:
            raise BadRequest("Invalid query: a pattern has no order; compare with a value")
        return _regex(value)
    if operator in _COMPARING:
        return convert(value)
    if operator in _LISTS:
        return [_regex(item) if isinstance(item, _PATTERN) else convert(item) for item in value]
    if operator == "$not":
        return _tests(value, convert)
    if operator == "$elemMatch":
        return (
            # Fields in an element are not those of the record: an "_id" there is not an id.
            all_of([_part(part, lambda _, inner: inner) for part in value.parts])
            if isinstance(value, And)
            else _tests(value, convert)
        )
    change = _FROM_TEXT.get(operator)
    return value if change is None else change(value)


def _number(value: object) -> object:
    """Return the number for digits: in a query string every value is text."""
    # Up to 18 digits fit into the database's 64 bits.
    if isinstance(value, str) and len(value) < 19 and value.removeprefix("-").isdecimal():
        return int(value)
    return value


_FROM_TEXT: Final[Mapping[str, Callable[[Any], Any]]] = {
    "$exists": truth_of,
    "$size": _number,
    "$mod": lambda value: list(map(_number, value)) if is_list(value) else value,
}
"""Operators whose value is not text, although a query string carries text only."""


# -- stages ----------------------------------------------------------------------------------------


def projection_of(select: Sequence[str] | None, id: str) -> dict[str, int] | None:
    """Return the projection for ``$select``, which keeps the id; None selects all fields."""
    if select is None:
        return None
    selected = dict.fromkeys((*select, id), 1)
    # MongoDB refuses a path below a field that is selected as a whole ("path collision").
    fields = {
        name: 1
        for name in selected
        if not any(above in selected for above in accumulate(name.split(".")[:-1], "{}.{}".format))
    }
    with_id = any(name == "_id" or name.startswith("_id.") for name in fields)
    return fields if with_id else {**fields, "_id": 0}


def stages_of(query: Query, filter: Filter, projection: Mapping[str, Any] | None) -> list[Stage]:
    """Return the stages match, sort, skip, limit and project, without those that do nothing."""
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
            # This stage keeps the database from reading the selected fields only. It would then
            # take the index of a list for a name: no document has a field ``tags.0``, so the order
            # would be arbitrary.
            stages.append({"$replaceWith": "$$ROOT"})
        stages.append({"$project": dict(projection)})
    return stages


def with_caller_stages(stages: list[Stage], pipeline: Sequence[Stage] | None) -> list[Stage]:
    """Return ``params.pipeline`` with the query's stages at the marker, or else in front."""
    if not pipeline:
        return stages
    at = next((index for index, stage in enumerate(pipeline) if MARKER in stage), None)
    if at is None:
        return [*stages, *pipeline]
    return [*pipeline[:at], *stages, *pipeline[at + 1 :]]


def counting(filter: Filter, pipeline: Sequence[Stage] | None) -> list[Stage]:
    """Return the stages that count the records of a query on all pages."""
    match: list[Stage] = [{"$match": filter}] if filter else []
    return [*with_caller_stages(match, pipeline), {"$count": "total"}]


def measuring(stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages that count the records of other stages, and their bytes."""
    size = {"$sum": {"$bsonSize": "$$ROOT"}}
    return [*stages, {"$group": {"_id": None, "records": {"$sum": 1}, "bytes": size}}]


def pages_and_total(stages: list[Stage], pages: Sequence[PageRange]) -> list[Stage]:
    """Return stages that give one document, with the records of some pages and the total.

    The database reads all matching records for it, once, so it pays only where they are few.

    Args:
        stages: match, sort and project of a query, those that it has.
        pages: The pages, which the document has as ``page0``, ``page1``, and so on.
    """
    match = [stage for stage in stages if "$match" in stage]
    order = [stage for stage in stages if "$sort" in stage]
    project = stages[len(match) + len(order) :]
    if len(pages) > 1:
        # One order for all of them. For a single page the database keeps no more than it returns.
        match, order = [*match, *order], []
    parts: dict[str, list[Stage]] = {"total": [{"$count": "total"}]}
    for number, (skip, limit) in enumerate(pages):
        skipped = [{"$skip": skip}] if skip else []
        parts[f"page{number}"] = [*order, *skipped, {"$limit": limit}, *project]
    return [*match, {"$facet": parts}]


def sorts_by_index(query: Query) -> bool:
    """Return whether a field of ``$sort`` may name an element of a list by its index."""
    return any(part.isdigit() for field, _ in query.sort for part in field.split("."))
