"""A service on a collection of MongoDB, by PyMongo's asynchronous client.

What holds in this file:

- The database gets filters, stages and updates that were built here, never what a client sent.
- A write of one record is one command that answers the record, no read before or after it, unless
  patches share their round trips.
- What is shared goes through `_read_one`, `_insert`, `_patch_one`, totals through `_count`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final, Literal, Self

from bson.raw_bson import RawBSONDocument
from pymongo import ReturnDocument
from pymongo.asynchronous.command_cursor import AsyncCommandCursor
from pymongo.asynchronous.cursor import AsyncCursor

from alula._context import Params
from alula.adapters._records import selector
from alula.adapters.base import AdapterService, Given, Pagination, read_params
from alula.adapters.mongodb._documents import (
    are_operators,
    check_outside,
    encoded,
    read_back,
    update_of,
)
from alula.adapters.mongodb._driver_options import options_for, ranged, session_of, upsert_options
from alula.adapters.mongodb._failures import translated
from alula.adapters.mongodb._filters import MAX_CONDITIONS, read_max_conditions
from alula.adapters.mongodb._model import Collection, Model, ModelSource, resolved, with_concerns
from alula.adapters.mongodb._object_ids import keyword_object_id
from alula.adapters.mongodb._pipeline import (
    Stage,
    counting,
    page_and_total,
    sorts_by_index,
    with_own_stages,
)
from alula.adapters.mongodb._several import create_all, patch_all, remove_all
from alula.adapters.mongodb._sharing import Sharing
from alula.adapters.mongodb._terms import Terms
from alula.adapters.mongodb._time_limit import (
    MaxTime,
    as_option,
    in_time,
    limited,
    read_max_time,
    seconds_of,
)
from alula.adapters.mongodb._totals import Counting, Totals, read_counting
from alula.query import Query
from alula.types import Id, Record, SchemaKeyword

__all__ = ["MongoDBService"]

_PER_CALL: Final = frozenset({
    "id", "disable_objectify", "use_estimated_document_count", "operators", "filters",
    "update_operators", "dotted_names", "share", "max_conditions",
})  # fmt: skip
"""Options of the service that ``params.adapter`` may have, beside those read where they count."""


class MongoDBService(AdapterService):
    """A service whose records are the documents of a collection.

    Args:
        model: The collection, an awaitable of it, or a function that returns either. It may
            create indexes before it resolves. A function is called again after it failed.
        id: Name of the id property; the database adds ``_id`` in any case.
        paginate: ``{"default", "max"}``, and ``"count"`` for what ``total`` is: ``"exact"``,
            ``"estimated"`` (the collection's, where a query has no criteria), or ``"none"``.
        multi: As in `AdapterService`.
        disable_objectify: Leave ids as they are; else 24 hexadecimal digits as the ``_id`` stand
            for an ObjectId.
        use_estimated_document_count: Take the collection's estimated size for ``total`` where a
            query has no criteria.
        max_time_ms: How long an operation may take in milliseconds; longer is a 408, or a 503 where
            the database could not be reached in that time. False for no limit. Where it is None,
            the application's setting ``mongodb_max_time_ms`` holds, and without that 10,000.
        max_conditions: How many conditions a query may have; more is a 400. False for no limit.
        share: Whether concurrent gets, creates, patches and counts share round trips:
            ``{"get": False, "patch": False}`` switches each off.
        operators: As in `AdapterService`: further operators of the database, such as ``$regex``.
        filters: As in `AdapterService`: ``{"$text": True}``, or ``{"$search": True}`` for its
            short form.
        update_operators: As in `AdapterService`: ``["$inc", "$push"]``.
        dotted_names: As in `AdapterService`.
        events: As in `AdapterService`.

    Attributes:
        schema_keywords: What schemas of such records know beside the keywords of JSON Schema.

    Raises:
        ValueError: An option is not in order.
    """

    paginate_options: ClassVar[frozenset[str]] = AdapterService.paginate_options | {"count"}
    call_options: ClassVar[frozenset[str]] = (
        AdapterService.call_options | _PER_CALL | {"model", "max_time_ms"}
    )
    selects: ClassVar[bool] = True
    schema_keywords: ClassVar[Sequence[SchemaKeyword]] = (keyword_object_id,)

    def __init__(
        self,
        model: Model,
        *,
        id: str = "_id",
        paginate: Mapping[str, Any] | bool | None = None,
        multi: bool | Iterable[str] = False,
        disable_objectify: bool = False,
        use_estimated_document_count: bool = False,
        max_time_ms: MaxTime = None,
        max_conditions: int | Literal[False] = MAX_CONDITIONS,
        share: bool | Mapping[str, bool] = True,
        operators: Iterable[str] = (),
        filters: Mapping[str, Any] | None = None,
        update_operators: Iterable[str] = (),
        dotted_names: bool = False,
        events: Iterable[str] = (),
    ) -> None:
        self._given = {
            "id": id, "disable_objectify": disable_objectify, "filters": filters,
            "use_estimated_document_count": use_estimated_document_count, "share": share,
            "operators": tuple(operators), "update_operators": tuple(update_operators),
            "dotted_names": dotted_names, "max_conditions": max_conditions,
        }  # fmt: skip
        self._is_of_call = False
        self._sharing = Sharing(share)
        self._adopt(self._given, paginate=paginate, multi=multi, events=events)
        read_counting(self.options.pagination, self._counting)
        self._source = ModelSource(model)
        self._max_time = read_max_time(max_time_ms, "max_time_ms")
        self._asks_for_max_time = max_time_ms is None
        self._totals = Totals()

    def _adopt(self, given: Mapping[str, Any], **more: Any) -> None:
        """Set up what may be different for a call."""
        names = ("id", "operators", "filters", "update_operators", "dotted_names")
        AdapterService.__init__(self, **{name: given[name] for name in names}, **more)
        self._terms = Terms(
            self.id,
            objectifies=not given["disable_objectify"],
            max_conditions=read_max_conditions(given["max_conditions"]),
        )
        estimated = given["use_estimated_document_count"]
        self._counting: Counting = "estimated" if estimated else "exact"

    def _of_call(self, own: Mapping[str, Any]) -> Self:
        options, events, self._is_of_call = self.options, self.events, True
        self._adopt({**self._given, **own}, events=events)
        self.options = options
        if "share" in own:
            self._sharing = Sharing(own["share"])
        return self

    def _set_up_for(self, params: Params) -> Self | None:
        given = params.adapter or {}
        own = {name: given[name] for name in given if name in _PER_CALL}
        fitting = not own or self._is_of_call
        return None if fitting else copy(self)._of_call(own)  # noqa: SLF001  # one of these

    async def setup(self, app: Any, path: str) -> None:
        """Find out the collection, so that a failure shows at the start; a call tries again.

        Raises:
            ValueError: The setting ``mongodb_max_time_ms`` is not in order.
        """
        if self._asks_for_max_time and app is not None:
            name = "mongodb_max_time_ms"
            self._max_time = read_max_time(app.get(name), f"the setting {name!r}")
        await self._source.prepare(f"the service {path!r}")

    async def get_model(self, params: Params | None = None) -> Collection:
        """Return the collection; ``params.adapter["model"]`` takes the place of the service's.

        Raises:
            Timeout: It took longer than an operation may.
            Exception: Whatever the model raises.
        """
        found = self._source.collection
        params = Params() if params is None else params
        if params.adapter and "model" in params.adapter:
            found = await in_time(resolved(params.adapter["model"]), self.seconds_for(params))
        elif found is None:
            found = await in_time(self._source.resolve(), self.seconds_for(params))
        return with_concerns(found, params.docdb)

    # -- raw access ----------------------------------------------------------------------------

    # Their params may be given by keywords, as in calls: ``find_raw(query={...})``. A time limit
    # goes with them as an option, since their cursors are read after these methods have returned.

    def make_framework_pipeline(self, params: Given = None, **values: Any) -> list[Stage]:
        """Return the stages that the query of a call stands for; ``params.pipeline`` is ignored.

        The sizes of pages count as in `find`.

        Raises:
            BadRequest: The query is not in order.
        """
        params = read_params(params, values)
        if (own := self._set_up_for(params)) is not None:
            return MongoDBService.make_framework_pipeline(own, params)
        return self._terms.stages(self._whole_query(params), params)

    async def aggregate_raw(
        self, params: Given = None, **values: Any
    ) -> AsyncCommandCursor[Record]:
        """Return the cursor of the aggregation for a call, ``params.pipeline`` included.

        Raises:
            BadRequest: The query is not in order.
        """
        params = read_params(params, values)
        if (own := self._set_up_for(params)) is not None:
            return await MongoDBService.aggregate_raw(own, params)
        query, seconds = self._whole_query(params), self.seconds_for(params)
        model = await self.get_model(params)
        with limited(seconds):
            return await self._aggregate(model, query, params, **as_option("maxTimeMS", seconds))

    async def find_raw(self, params: Given = None, **values: Any) -> AsyncCursor[Record]:
        """Return the cursor of a plain find for a call, with ``params.docdb`` as its options.

        Raises:
            BadRequest: The query is not in order.
        """
        params = read_params(params, values)
        if (own := self._set_up_for(params)) is not None:
            return await MongoDBService.find_raw(own, params)
        arguments = self._terms.find_arguments(self._whole_query(params), params)
        arguments |= as_option("max_time_ms", self.seconds_for(params))
        return (await self.get_model(params)).find(**arguments)

    def _whole_query(self, params: Params) -> Query:
        """Return the query of a call with the size of its page."""
        query = self._grammar.read(params.query)
        if (pagination := self.options_for(params).pagination) is not None:
            query = replace(query, limit=pagination.limit(query.limit))
        return ranged(query, params)

    async def _aggregate(
        self, model: Collection, query: Query, params: Params, **limit: int
    ) -> AsyncCommandCursor[Record]:
        stages = with_own_stages(self._terms.stages(query, params), params.pipeline)
        options: dict[str, Any] = options_for("aggregate", params) | limit
        return await model.aggregate(stages, **options)

    # -- the six methods of the store ----------------------------------------------------------

    async def _find(
        self, query: Query, params: Params, pagination: Pagination | None
    ) -> tuple[list[Record], int | None]:
        way, query = read_counting(pagination, self._counting), ranged(query, params)
        with translated, limited(self.seconds_for(params)):
            model = await self.get_model(params)
            if query.limit == 0:
                return [], None if way == "none" else await self._count(model, query, params, way)
            if pagination is None or way == "none":
                return await self._page(model, query, params), None
            plain = params.docdb is None and not params.pipeline
            return await self._totals.with_page(
                query,
                lambda: self._page(model, query, params),
                lambda: self._count(model, query, params, way),
                at_once=(lambda: self._page_and_total(model, query, params)) if plain else None,
                telling=not params.pipeline,
                beside=session_of(params) is None,
            )

    async def _get(self, id: Id, query: Query, params: Params) -> Record | None:
        with translated, limited(self.seconds_for(params)):
            model = await self.get_model(params)
            if params.pipeline is None:
                return await self._read_one(model, id, query, params)
            stages = with_own_stages(self._terms.stages_with(id, query, params), params.pipeline)
            cursor = await model.aggregate(stages, **options_for("aggregate", params))
            return next(iter(await cursor.to_list(1)), None)

    async def _create(self, records: list[Record], query: Query, params: Params) -> list[Record]:
        with translated, limited(self.seconds_for(params)):
            model = await self.get_model(params)
            new = [encoded(self._terms.with_ids(record), model) for record in records]
            stored = [read_back(document, model) for document in new]
            if len(new) == 1:
                await self._insert(model, new[0], params)
            else:
                options = options_for("create_all", params)
                await create_all(model, new, session_of(params), options)
        if query.select is None:
            return stored
        select = selector(query.select, self.id)
        return [select(record) for record in stored]

    async def _update(self, id: Id, data: Record, query: Query, params: Params) -> Record | None:
        operators = are_operators(data)
        if params.provider is not None:
            check_outside(data, self._opened)
        with translated, limited(self.seconds_for(params)):
            model = await self.get_model(params)
            if operators:
                return await self._change(model, id, update_of(data, self.id), query, params)
            data.pop("_id", None)
            if self.id != "_id":
                data = {self.id: id, **data}
            found: Record | None = await model.find_one_and_replace(
                self._terms.filter_with(id, query, params),
                data,
                return_document=ReturnDocument.AFTER,
                **self._terms.options("replace", params, query),
            )
            return found

    async def _patch(
        self, id: Id | None, data: Record, query: Query, params: Params
    ) -> list[Record]:
        if params.provider is not None:
            check_outside(data, self._opened)
        changes = update_of(data, self.id)
        upsert = upsert_options(params)
        if upsert is not None and not changes:
            changes = {"$setOnInsert": {}}  # there may be a record to make
        with translated, limited(self.seconds_for(params)):
            model = await self.get_model(params)
            if not changes:  # nothing to do, and the database refuses to do nothing
                matching = self._terms.matching(model, id, query, params)
                return await matching.read(matching.projection, matching.session)
            if id is None:
                matching = self._terms.matching(model, id, query, params)
                if upsert is not None:
                    changes = self._terms.making(changes, matching.filter)
                return await patch_all(matching, changes, options_for("patch_all", params), upsert)
            found = await self._patch_one(model, id, changes, query, params)
            return [] if found is None else [found]

    async def _remove(self, id: Id | None, query: Query, params: Params) -> list[Record]:
        with translated, limited(self.seconds_for(params)):
            model = await self.get_model(params)
            if id is None:
                matching = self._terms.matching(model, id, query, params)
                return await remove_all(matching, options_for("remove_all", params))
            found = await model.find_one_and_delete(
                self._terms.filter_with(id, query, params),
                **self._terms.options("delete", params, query),
            )
            return [] if found is None else [found]

    # -- single commands -----------------------------------------------------------------------

    async def _page(self, model: Collection, query: Query, params: Params) -> list[Record]:
        if params.docdb is None or params.pipeline:
            return await (await self._aggregate(model, query, params)).to_list()
        arguments = self._terms.find_arguments(query, params)
        if query.select is None or not sorts_by_index(query) or "projection" in params.docdb:
            return await model.find(**arguments).to_list()
        # As behind a $project: the database would sort by the named fields alone.
        records = await model.find(**{**arguments, "projection": None}).to_list()
        return list(map(selector(query.select, self.id), records))

    async def _page_and_total(
        self, model: Collection, query: Query, params: Params
    ) -> tuple[list[Record], int]:
        stages = page_and_total(self._terms.stages(query, params))
        cursor = await model.aggregate(stages, **options_for("aggregate", params))
        (found,) = await cursor.to_list()
        return found["data"], found["total"][0]["total"] if found["total"] else 0

    async def _count(self, model: Collection, query: Query, params: Params, way: Counting) -> int:
        criteria = self._terms.filter(query)
        seconds = self.seconds_for(params)
        if way == "estimated" and not criteria and not params.pipeline and not params.docdb:
            return await self._sharing.count(model, None, seconds)
        stages = counting(criteria, params.pipeline)
        return await self._sharing.count(model, stages, seconds, **options_for("count", params))

    async def _read_one(
        self, model: Collection, id: Id, query: Query, params: Params
    ) -> Record | None:
        options = self._terms.options("get", params, query)
        if self.id != "_id" or params.docdb is not None:
            return await model.find_one(self._terms.filter_with(id, query, params), **options)
        key, criteria = self._terms.key(id), self._terms.filter(query)
        return await self._sharing.get(model, key, criteria, self.seconds_for(params), **options)

    async def _insert(self, model: Collection, document: bytes, params: Params) -> None:
        if params.docdb is None:
            await self._sharing.create(model, document, self.seconds_for(params))
        else:
            new: Any = RawBSONDocument(document)
            await model.insert_one(new, **options_for("insert", params))

    async def _patch_one(
        self, model: Collection, id: Id, changes: Mapping[str, Any], query: Query, params: Params
    ) -> Record | None:
        alone = partial(self._change, model, id, changes, query, params)
        plain = params.docdb is None and params.collation is None and query.select is None
        if not plain or self.id != "_id":
            return await alone()
        key, criteria = self._terms.key(id), self._terms.filter(query)
        seconds = self.seconds_for(params)
        return await self._sharing.patch(model, key, criteria, changes, seconds, alone)

    async def _change(
        self, model: Collection, id: Id, changes: Mapping[str, Any], query: Query, params: Params
    ) -> Record | None:
        found: Record | None = await model.find_one_and_update(
            self._terms.filter_with(id, query, params),
            changes,
            return_document=ReturnDocument.AFTER,
            **self._terms.options("change", params, query),
        )
        return found

    def seconds_for(self, params: Params) -> float | None:
        """Return how many seconds an operation of a call may take, None for no limit.

        Raises:
            ValueError: What the params say is not in order.
        """
        return seconds_of(params, self._max_time)
