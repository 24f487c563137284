"""What a call asks for, in the terms of the driver: filters, stages, options, ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import bson
from bson import ObjectId

from alula._context import Params
from alula.adapters._records import check_new_id
from alula.adapters.mongodb._driver_options import Call, options_for, ranged, session_of
from alula.adapters.mongodb._filters import Filter, all_of, check_conditions, filter_of
from alula.adapters.mongodb._model import Collection
from alula.adapters.mongodb._object_ids import to_object_id
from alula.adapters.mongodb._pipeline import NOTHING, Stage, projection_of, stages_of
from alula.adapters.mongodb._several import Matching
from alula.errors import NotFound
from alula.query import EMPTY_QUERY, Query
from alula.types import Id, Record

__all__ = ["Terms"]


class Terms:
    """The terms of one service.

    Args:
        id: Name of the id property.
        objectifies: Whether 24 hexadecimal digits as the ``_id`` stand for an ObjectId.
        max_conditions: How many conditions a query may have, None for any number.
    """

    def __init__(self, id: str, *, objectifies: bool, max_conditions: int | None = None) -> None:
        self._id = id
        self._objectifies = objectifies
        self._max_conditions = max_conditions

    def key(self, id: Id) -> Any:
        """Return the id of a record as the database keeps it.

        Raises:
            NotFound: No record can have it: the database could not store it.
        """
        key = self._converted(self._id, id)
        if type(key) is str or type(key) is int:
            try:
                bson.encode({"": key})
            except (UnicodeEncodeError, OverflowError) as error:
                raise NotFound(f"No record found for id '{id}'") from error
        return key

    def with_ids(self, record: Record) -> Record:
        """Return a new record with its ``_id`` in front, and made-up ids where it has none.

        An id property of one's own gets the digits of an object id.

        Raises:
            BadRequest: The ``_id`` beside an id property of one's own can be no id.
        """
        key = self._converted("_id", record.pop("_id", None))
        if key is None or key == "":
            key = ObjectId()
        if self._id == "_id":
            return {"_id": key, **record}
        check_new_id("_id", key)
        own = {} if self._id in record else {self._id: str(ObjectId())}
        return {"_id": key, **own, **record}

    def making(self, changes: dict[str, Any], filter: Filter) -> dict[str, Any]:
        """Return changes that give an id of one's own to the record that they may make."""
        if self._id == "_id" or "$eq" in filter.get(self._id, {}):
            return changes
        made = {self._id: str(ObjectId()), **changes.get("$setOnInsert", {})}
        return {**changes, "$setOnInsert": made}

    def filter(self, query: Query) -> Filter:
        """Return what records have to meet.

        Raises:
            BadRequest: The query has too many conditions.
        """
        if query is EMPTY_QUERY:
            return {}
        if self._max_conditions is not None:
            check_conditions(query.criteria, self._max_conditions)
        return filter_of(query, self._converted)

    def filter_with(self, id: Id, query: Query, params: Params) -> Filter:
        """Return what the record with an id has to meet; a collation is none of the id's."""
        key = self.key(id)
        own = {self._id: _exactly(key) if type(key) is str and _collates(params) else key}
        return own if query is EMPTY_QUERY else all_of([own, self.filter(query)])

    def projection(self, query: Query, params: Params) -> Mapping[str, Any] | None:
        """Return which fields are wanted, None for all; the driver's own option goes first."""
        given = (params.docdb or {}).get("projection")
        if given is None:
            return projection_of(query.select, self._id)
        return given if isinstance(given, Mapping) else dict.fromkeys(given, 1)

    def stages(self, query: Query, params: Params) -> list[Stage]:
        """Return the stages of an aggregation."""
        return stages_of(query, self.filter(query), self.projection(query, params))

    def stages_with(self, id: Id, query: Query, params: Params) -> list[Stage]:
        """Return the stages that find the record with an id."""
        found = self.filter_with(id, query, params)
        return stages_of(Query(limit=1), found, self.projection(query, params))

    def find_arguments(self, query: Query, params: Params) -> dict[str, Any]:
        """Return the arguments of a plain find."""
        return options_for("find", params) | {
            "filter": NOTHING if query.limit == 0 else self.filter(query),
            "skip": query.skip,
            "limit": query.limit or 0,
            "sort": list(query.sort) or None,
            "projection": self.projection(query, params),
        }

    def options(self, call: Call, params: Params, query: Query) -> dict[str, Any]:
        """Return the options of a call on the record with an id."""
        options = options_for(call, params)
        if options and not query.criteria.parts:
            options.pop("collation", None)  # the id is no matter of taste
        if query.select is not None and "projection" not in options:
            options["projection"] = projection_of(query.select, self._id)
        return options

    def matching(self, model: Collection, id: Id | None, query: Query, params: Params) -> Matching:
        """Return the records that a query, or with an id the one of it, stands for."""
        query = ranged(query, params)
        return Matching(
            model,
            self.filter(query) if id is None else self.filter_with(id, query, params),
            query.sort,
            self.projection(query, params),
            session_of(params),
            options_for("several", params),
        )

    def _converted(self, field: str, value: Any) -> Any:
        return to_object_id(value) if field == "_id" and self._objectifies else value


def _collates(params: Params) -> bool:
    return params.collation is not None or bool(params.docdb and params.docdb.get("collation"))


def _exactly(text: str) -> Filter:
    """Return the test that only this text meets: no collation reaches a regular expression."""
    return {"$eq": text, "$regex": rf"\A{re.escape(text)}\z"}
