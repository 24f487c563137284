"""`MongoDBService`: a service on a collection of MongoDB, by PyMongo's asynchronous client.

What holds in this file:

- The database gets filters, stages and updates that were built here, never what a client sent.
- A write of one record is one command that returns the record, with no read before or after it,
  unless concurrent patches are batched.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final, Literal, Unpack

from pymongo.asynchronous.command_cursor import AsyncCommandCursor
from pymongo.asynchronous.cursor import AsyncCursor
from pymongo.errors import OperationFailure
from pymongo.read_preferences import ReadPreference

from alula._context import Params
from alula.adapters._database_options import MAX_CONDITIONS, MaxTime, in_time, read_max_time
from alula.adapters._options import ParamsLike, read_params
from alula.adapters._records import selector
from alula.adapters._result_bounds import ResultBound
from alula.adapters._totals import PageAndTotal, Totals
from alula.adapters.base import AdapterService, CommonOptions, Options
from alula.adapters.mongodb._batches import Batches
from alula.adapters.mongodb._bson_types import keyword_object_id, number_in
from alula.adapters.mongodb._errors import translated, was_refused
from alula.adapters.mongodb._model import Collection, Model, ModelSource, resolved, with_concerns
from alula.adapters.mongodb._multi import create_many, patch_many, remove_many
from alula.adapters.mongodb._options import (
    MongoDBOptions,
    driver_options,
    limited,
    session_of,
    upsert_options,
)
from alula.adapters.mongodb._queries import (
    QueryTranslator,
    Stage,
    counting,
    measuring,
    page_query,
    sorts_by_index,
    with_caller_stages,
    with_docdb_range,
)
from alula.adapters.mongodb._writes import (
    are_operators,
    changed_or_created,
    check_from_client,
    encoded,
    read_back,
    update_of,
    with_id_on_insert,
    with_ids,
)
from alula.query import Query
from alula.types import Id, Record, SchemaKeyword

__all__ = ["MongoDBService"]

_COLLECTION: Final = "The database's collection"


class MongoDBService(AdapterService[MongoDBOptions]):
    """A service whose records are the documents of a collection.

    Args:
        model: The collection, an awaitable of it, or a function that returns either. It may
            create indexes before it resolves. A function is called again after it failed.
        id: Name of the id property; the database adds ``_id`` in any case.
        disable_objectify: Leave ids as they are; otherwise 24 hexadecimal digits as the ``_id``
            mean an ObjectId.
        use_estimated_document_count: Use the collection's estimated size as ``total`` if a query
            has no criteria.
        max_time_ms: The time limit of an operation in milliseconds. Exceeding it is a 408, or a 503
            if the database could not be reached in that time. False for no limit. None uses the
            application's setting ``mongodb_max_time_ms``, and without that 10,000.
        max_conditions: How many conditions a query may have; more is a 400. False for no limit.
        share: Whether concurrent finds, gets, creates, patches and counts share round trips:
            ``{"get": False, "patch": False}`` turns each off.
        options: As of `AdapterService`: ``operators`` of the database, such as ``["$regex"]``,
            ``filters`` such as ``{"$text": True}``, or its short form ``$search``, and
            ``update_operators`` such as ``["$inc", "$push"]``. Of ``paginate``, ``"count"`` says
            what ``total`` is: ``"exact"``, ``"estimated"`` (the collection's size, if a query has
            no criteria), or ``"none"``.

    Attributes:
        schema_keywords: Keywords for schemas of such records, beside those of JSON Schema.

    Raises:
        ValueError: An option is not valid.

    Examples:
        >>> from pymongo import AsyncMongoClient
        >>> client = AsyncMongoClient("mongodb://localhost", connect=False)
        >>> messages = MongoDBService(client["chat"]["messages"], paginate={"max": 50})
        >>> messages.make_framework_pipeline(query={"text": "Hi"})
        [{'$match': {'text': {'$eq': 'Hi'}}}, {'$limit': 50}]
    """

    options_type: ClassVar[type[Options]] = MongoDBOptions
    paginate_options: ClassVar[frozenset[str]] = AdapterService.paginate_options | {"count"}
    call_options: ClassVar[frozenset[str]] = AdapterService.call_options | {
        "id",
        "disable_objectify",
        "use_estimated_document_count",
        "update_operators",
        "model",
        "dotted_names",
        "share",
        "max_conditions",
        "max_time_ms",
    }
    selects: ClassVar[bool] = True
    measures: ClassVar[bool] = True
    schema_keywords: ClassVar[Sequence[SchemaKeyword]] = (keyword_object_id,)

    def __init__(
        self,
        model: Model,
        *,
        id: str = "_id",
        disable_objectify: bool = False,
        use_estimated_document_count: bool = False,
        max_time_ms: MaxTime = None,
        max_conditions: int | Literal[False] = MAX_CONDITIONS,
        share: bool | Mapping[str, bool] = True,
        **options: Unpack[CommonOptions],
    ) -> None:
        super().__init__(id=id, **options)
        given = {
            "disable_objectify": disable_objectify,
            "max_time_ms": max_time_ms,
            "share": share,
            "use_estimated_document_count": use_estimated_document_count,
            "max_conditions": max_conditions,
        }
        self.options = self.options.changed(given, self.paginate_options)
        # `with_schema` leaves ids in queries as they are then, too.
        self.converts_queries = disable_objectify
        self._translator = QueryTranslator(self.options)
        self._source = ModelSource(model)
        self._reads_max_time_setting = max_time_ms is None
        self._batches = Batches()
        self._totals = Totals()

    async def setup(self, app: Any, path: str) -> None:
        """Resolve the model, so that a failure shows at the start; a call tries again.

        Raises:
            ValueError: The setting ``mongodb_max_time_ms`` is not valid.
        """
        await super().setup(app, path)
        if self._reads_max_time_setting and app is not None:
            given = app.get("mongodb_max_time_ms")
            seconds = read_max_time(given, "the setting 'mongodb_max_time_ms'")
            self.options = replace(self.options, seconds=seconds)
        await self._source.prepare(f"the service {path!r}")

    async def teardown(self, app: Any, path: str) -> None:  # noqa: ARG002  # teardown gets both
        """Forget the collection of a function, which the next setup may open anew."""
        self._source.forget()

    def ask_primary(self, params: Params) -> None:
        """Have the primary answer a call: a secondary may not know of the last change yet."""
        given, model = params.docdb or {}, self._source.collection
        if "session" not in given and (
            model is None
            or "read_preference" in given
            or model.read_preference != ReadPreference.PRIMARY
        ):
            params.docdb = {**given, "read_preference": ReadPreference.PRIMARY}

    def options_for(self, params: Params) -> MongoDBOptions:
        """Return the options of a call: those of the service, changed by its params.

        Raises:
            ValueError: An option in the params is not valid, or this adapter does not have it.
        """
        options = super().options_for(params)
        max_time = params.docdb.get("max_time_ms") if params.docdb else None
        if max_time is None:
            return options
        if max_time is False:  # the options in docdb go to the driver as they are
            raise ValueError(
                "params.docdb: 'max_time_ms' is False; for no limit say"
                ' adapter={"max_time_ms": False}'
            )
        return replace(options, seconds=read_max_time(max_time, "params.docdb: 'max_time_ms'"))

    def store(self) -> Hashable:
        """Return what tells this collection from others: services on one hear each other."""
        model = self._source.collection
        if model is None:
            return id(self)
        return "mongodb", id(model.database.client), model.full_name

    async def get_model(self, params: Params | None = None) -> Collection:
        """Return the collection; ``params.adapter["model"]`` wins over the service's.

        Raises:
            Timeout: It took longer than an operation may.
            Exception: Whatever the model raises.
        """
        params = Params() if params is None else params
        return await self._model_for(params, self.options_for(params))

    async def _model_for(self, params: Params, options: MongoDBOptions) -> Collection:
        model = self._source.collection
        if options.model is not None:
            model = await in_time(resolved(options.model), options.seconds, _COLLECTION)
        elif model is None:
            model = await in_time(self._source.resolve(), options.seconds, _COLLECTION)
        return model if params.docdb is None else with_concerns(model, params.docdb)

    def _translator_for(self, options: MongoDBOptions) -> QueryTranslator:
        translator = self._translator
        if translator.options is not options:
            translator = QueryTranslator(options)
            if options is self.options:
                self._translator = translator
        return translator

    # -- raw access ----------------------------------------------------------------------------

    # Params may be given as keywords, as in calls: ``find_raw(query={...})``. The time limit is an
    # option of the driver here: their cursors are read after these methods have returned.

    def make_framework_pipeline(self, params: ParamsLike = None, **values: object) -> list[Stage]:
        """Return the stages for the query of a call; ``params.pipeline`` is ignored.

        Page sizes count as in `find`.

        Raises:
            BadRequest: The query is not valid.
        """
        params, _, translator, query = self._read_raw(params, values)
        return translator.stages(query, params)

    async def aggregate_raw(
        self, params: ParamsLike = None, **values: object
    ) -> AsyncCommandCursor[Record]:
        """Return the cursor of the aggregation for a call, with ``params.pipeline``.

        Raises:
            BadRequest: The query is not valid.
        """
        params, options, translator, query = self._read_raw(params, values)
        model = await self._model_for(params, options)
        stages = translator.stages(query, params)
        arguments = driver_options("aggregate", params)
        if options.seconds is not None:
            arguments["maxTimeMS"] = round(options.seconds * 1000)
        with limited(options.seconds):
            return await model.aggregate(with_caller_stages(stages, params.pipeline), **arguments)

    async def find_raw(self, params: ParamsLike = None, **values: object) -> AsyncCursor[Record]:
        """Return the cursor of PyMongo's ``find`` for a call, with ``params.docdb`` as its options.

        Raises:
            BadRequest: The query is not valid.
        """
        params, options, translator, query = self._read_raw(params, values)
        arguments = translator.find_arguments(query, params)
        if options.seconds is not None:
            arguments["max_time_ms"] = round(options.seconds * 1000)
        return (await self._model_for(params, options)).find(**arguments)

    def _read_raw(
        self, given: ParamsLike, values: Mapping[str, object]
    ) -> tuple[Params, MongoDBOptions, QueryTranslator, Query]:
        params = read_params(given, values)
        options = self.options_for(params)
        query = options.grammar.read(params.query)
        if options.pagination is not None:
            query = query._replace(limit=options.pagination.limit(query.limit))
        query = page_query(query, params, options.id)
        return params, options, self._translator_for(options), query

    # -- the six methods of the store ----------------------------------------------------------

    async def _find(
        self, query: Query, params: Params, options: MongoDBOptions
    ) -> tuple[list[Record], int | None]:
        query, way = page_query(query, params, options.id), options.counting
        with translated, limited(options.seconds):
            model = await self._model_for(params, options)
            page = partial(self._page, model, query, params, options)
            count = partial(self._count, model, query, params, options)
            if query.limit == 0:
                return [], None if way == "none" else await count()
            if options.pagination is None or way == "none":
                return await page(), None
            combined = None
            # MongoDB 6.0 sorts wrongly by the index of a list (``tags.0``) if $project follows.
            sorts_whole = query.select is None or not sorts_by_index(query)
            if params.docdb is None and not params.pipeline and sorts_whole:
                combined = partial(self._page_and_total, model, query, params, options)
            return await self._totals.with_page(
                query,
                page,
                count,
                combined=combined,
                short_page_is_total=not params.pipeline,
                concurrent=session_of(params) is None,
            )

    async def _get(
        self, id: Id, query: Query, params: Params, options: MongoDBOptions
    ) -> Record | None:
        translator = self._translator_for(options)
        with translated:
            find_options = translator.options_by_id("get", params, query)
            if options.id == "_id" and params.docdb is None and params.pipeline is None:
                # No time limit around it: a batch has its own (bench mongodb get: -6 %).
                model = await self._model_for(params, options)
                key, criteria = translator.key(id), translator.filter(query)
                record = await self._batches.get(model, key, criteria, options, find_options)
            else:
                with limited(options.seconds):
                    model = await self._model_for(params, options)
                    if params.pipeline is None:
                        by_id = translator.filter_with(id, query, params)
                        record = await model.find_one(by_id, **find_options)
                    else:
                        stages = translator.stages_with(id, query, params)
                        stages = with_caller_stages(stages, params.pipeline)
                        more = driver_options("aggregate", params)
                        cursor = await model.aggregate(stages, **more)
                        record = next(iter(await cursor.to_list(1)), None)
        if record is None and (number := number_in(id)) is not None:
            return await self._get(number, query, params, options)
        return record

    async def _create(
        self, records: list[Record], query: Query, params: Params, options: MongoDBOptions
    ) -> list[Record]:
        with translated:
            model = await self._model_for(params, options)
            documents = [encoded(with_ids(record, options), model) for record in records]
            stored = [read_back(document, model) for document in documents]
            if len(documents) == 1:
                more = None if params.docdb is None else driver_options("insert", params)
                await self._batches.create(model, documents[0], options, more)
            else:
                with limited(options.seconds):
                    create_options = driver_options("create_many", params)
                    await create_many(model, documents, session_of(params), create_options)
        if query.select is None:
            return stored
        return list(map(selector(query.select, options.id), stored))

    async def _update(
        self, id: Id, data: Record, query: Query, params: Params, options: MongoDBOptions
    ) -> Record | None:
        has_operators = are_operators(data)
        if params.provider is not None:
            check_from_client(data, options.update_operators)
        translator = self._translator_for(options)
        with translated, limited(options.seconds):
            model = await self._model_for(params, options)
            if has_operators:
                changes = update_of(data, options.id)
                record = await self._change(model, id, changes, query, params, options, "updated")
            else:
                data.pop("_id", None)
                new = data if options.id == "_id" else {options.id: id, **data}
                by_id = translator.filter_with(id, query, params)
                more = translator.options_by_id("replace", params, query)
                replace = partial(model.find_one_and_replace, by_id, new)
                record = await changed_or_created(
                    model, replace, {options.id: translator.key(id)}, more, "updated"
                )
        if record is None and (number := number_in(id)) is not None:
            return await self._update(number, data, query, params, options)
        return record

    async def _patch(
        self, id: Id | None, data: Record, query: Query, params: Params, options: MongoDBOptions
    ) -> list[Record]:
        records = await self._patched(id, data, query, params, options)
        if not records and (number := number_in(id)) is not None:
            return await self._patched(number, data, query, params, options)
        return records

    async def _patched(
        self, id: Id | None, data: Record, query: Query, params: Params, options: MongoDBOptions
    ) -> list[Record]:
        if params.provider is not None:
            check_from_client(data, options.update_operators)
        changes: dict[str, Any] = update_of(data, options.id)
        upsert = upsert_options(params)
        if upsert is not None and not changes:
            changes = {"$setOnInsert": {}}  # the upsert may have to create a record
        translator = self._translator_for(options)
        plain = params.docdb is None and params.collation is None and query.select is None
        if plain and id is not None and changes and options.id == "_id":
            # No time limit around it, as in `_get` (bytecodes of a patch and a create: -5 %).
            with translated:
                model = await self._model_for(params, options)
                alone = partial(self._change, model, id, changes, query, params, options)
                key, criteria = translator.key(id), translator.filter(query)
                record = await self._batches.patch(model, key, criteria, changes, options, alone)
                return [] if record is None else [record]
        with translated, limited(options.seconds):
            model = await self._model_for(params, options)
            if not changes:  # the database refuses an update that changes nothing
                selection = translator.selection(model, id, query, params)
                return await selection.read(selection.projection, selection.session)
            if id is None:
                selection = translator.selection(model, id, query, params)
                if upsert is not None:
                    changes = with_id_on_insert(changes, selection.filter, options)
                patch_options = driver_options("patch_many", params)
                return await patch_many(selection, changes, patch_options, upsert)
            record = await self._change(model, id, changes, query, params, options)
            return [] if record is None else [record]

    async def _remove(
        self, id: Id | None, query: Query, params: Params, options: MongoDBOptions
    ) -> list[Record]:
        translator = self._translator_for(options)
        with translated, limited(options.seconds):
            model = await self._model_for(params, options)
            if id is None:
                selection = translator.selection(model, id, query, params)
                return await remove_many(selection, driver_options("remove_many", params))
            by_id = translator.filter_with(id, query, params)
            more = translator.options_by_id("delete", params, query)
            record: Record | None = await model.find_one_and_delete(by_id, **more)
        if record is None:
            number = number_in(id)
            return [] if number is None else await self._remove(number, query, params, options)
        return [record]

    async def _measure(
        self, query: Query, params: Params, options: MongoDBOptions, bound: ResultBound
    ) -> tuple[int, int]:
        translator = self._translator_for(options)
        with translated, limited(options.seconds):
            model = await self._model_for(params, options)
            stages = translator.stages(with_docdb_range(query, params), params)
            stages = measuring(with_caller_stages(stages, params.pipeline))
            try:
                cursor = await model.aggregate(stages, **driver_options("aggregate", params))
                sizes = await cursor.to_list(1)
            except OperationFailure as error:
                if not was_refused(error):
                    raise
            else:
                return (sizes[0]["records"], sizes[0]["bytes"]) if sizes else (0, 0)
        # The aggregation was refused: the query has $near, or the server lacks $bsonSize.
        return await super()._measure(query, params, options, bound)

    # -- single commands -----------------------------------------------------------------------

    async def _page(
        self, model: Collection, query: Query, params: Params, options: MongoDBOptions
    ) -> list[Record]:
        translator = self._translator_for(options)
        if params.docdb is None or params.pipeline:
            stages = with_caller_stages(translator.stages(query, params), params.pipeline)
            more = driver_options("aggregate", params)
            if params.docdb is None and not params.pipeline:
                return await self._batches.page(model, stages, query.limit, options, more)
            return await (await model.aggregate(stages, **more)).to_list()
        arguments = translator.find_arguments(query, params)
        if query.select is None or not sorts_by_index(query) or "projection" in params.docdb:
            return await model.find(**arguments).to_list()
        # As in stages_of(): with a projection, the database would sort by the selected fields only.
        records = await model.find(**{**arguments, "projection": None}).to_list()
        return list(map(selector(query.select, options.id), records))

    async def _page_and_total(
        self, model: Collection, query: Query, params: Params, options: MongoDBOptions
    ) -> PageAndTotal | None:
        whole = query._replace(skip=0, limit=None)
        stages, page = (
            self._translator_for(options).stages(whole, params),
            (query.skip, query.limit or 0),
        )
        more = driver_options("aggregate", params)
        return await self._batches.page_and_total(model, stages, page, options, more)

    async def _count(
        self, model: Collection, query: Query, params: Params, options: MongoDBOptions
    ) -> int:
        criteria = self._translator_for(options).filter(query)
        selects_all = not criteria and not params.pipeline and not params.docdb
        if options.counting == "estimated" and selects_all:
            return await self._batches.count(model, None, options, {})
        stages = counting(criteria, params.pipeline)
        return await self._batches.count(model, stages, options, driver_options("count", params))

    async def _change(
        self,
        model: Collection,
        id: Id,
        changes: Record,
        query: Query,
        params: Params,
        options: MongoDBOptions,
        event: str = "patched",
    ) -> Record | None:
        translator = self._translator_for(options)
        by_id = translator.filter_with(id, query, params)
        more = translator.options_by_id("change", params, query)
        change = partial(model.find_one_and_update, by_id, changes)
        return await changed_or_created(
            model, change, {options.id: translator.key(id)}, more, event
        )
