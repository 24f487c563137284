"""Batches concurrent finds, gets, creates, patches and counts: many calls, one round trip.

What holds in this file:

- A batch has only calls that would send the same but for the id, the record or the page: the
  collection, the criteria, the fields, the collation and the time limit are the same to the byte.
- No call in a session or inside a transaction joins a batch.
- No caller fails or waits because of another one: what is refused, is locked or fails the round
  trip goes alone. Only if the database cannot be reached, or nobody knows whether a write took
  effect, all callers of the batch get that error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from time import monotonic as time
from typing import Any, Final, TypeAlias

import bson
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo import errors
from pymongo.asynchronous.client_session import AsyncClientSession

from alula._events import is_in_transaction
from alula.adapters._batching import ALONE, Batcher, one_for_each
from alula.adapters._records import copied
from alula.adapters._totals import PageAndTotal
from alula.adapters.mongodb._bson_types import BSON_IMMUTABLE
from alula.adapters.mongodb._errors import TOO_LARGE, not_acknowledged, was_refused
from alula.adapters.mongodb._model import Collection
from alula.adapters.mongodb._options import MongoDBOptions, limited
from alula.adapters.mongodb._patch_batches import Patch, fields_of, patch_batch
from alula.adapters.mongodb._queries import PageRange, Stage, pages_and_total
from alula.adapters.mongodb._shared_writes import (
    Patience,
    WriteStopped,
    acknowledge,
    stored_now,
)
from alula.types import Id, Record

__all__ = ["Batches"]

Key: TypeAlias = Hashable

_BATCHED_IDS: Final = frozenset({ObjectId, str, int})
_MAX_RECORD_BYTES: Final = 256 * 1024
"""Larger new records are sent on their own: others would wait for their transfer."""

_MAX_PAGE: Final = 100
"""Larger pages are queried on their own: copies of many records hold the event loop up."""

_MAX_PAGES: Final = 20
"""How many pages one round trip returns at most, for the same reason."""

_NO_TIME: Final = 0.000_001
_DUPLICATE_KEY: Final = 11000
_ROUND_TRIP_ERRORS: Final = (errors.ConnectionFailure, errors.OperationFailure)


class Batches:
    """The batchers of one service: one for each operation and everything that must be the same."""

    def __init__(self) -> None:
        self._batchers: dict[Key, Batcher[Any, Any]] = {}
        self._patience = Patience()

    async def get(
        self,
        model: Collection,
        id: Id,
        filter: Record,
        options: MongoDBOptions,
        find_options: Record,
    ) -> Record | None:
        """Return the record with an ``_id`` that meets a filter, None if there is none.

        Args:
            model: The collection.
            id: The ``_id``.
            filter: What else the record must meet; ``{}`` for nothing.
            options: The options of the call.
            find_options: Options of PyMongo's ``find_one``, without a session.
        """
        key: Key = None
        if _is_shared("get", options) and type(id) in _BATCHED_IDS:
            key = _key("get", model, options, filter, find_options)
        if key is not None:
            load = partial(find_batch, model, filter, find_options)
            record: Any = await self._batcher(key, load, options).load(id)
            if record is not ALONE:
                found: Record | None = record
                return found
        with limited(options.seconds):
            return await _find_one(model, filter, find_options, id)

    async def create(
        self,
        model: Collection,
        document: bytes,
        options: MongoDBOptions,
        insert_options: Record | None,
    ) -> None:
        """Store a new record.

        Args:
            model: The collection.
            document: The encoded record with its ``_id``.
            options: The options of the call.
            insert_options: Options of PyMongo's ``insert_one``, with which no batch is sent; None
                for a call without any.
        """
        is_shared = _is_shared("create", options) and insert_options is None
        result: Any = ALONE
        if is_shared and len(document) <= _MAX_RECORD_BYTES:
            key = "create", id(model), options.seconds
            load = partial(insert_batch, model, self._patience)
            batcher = self._batcher(key, load, options, concurrency=2, goes_alone=_was_refused)
            result = await batcher.load(document)
        if result is ALONE:
            with limited(options.seconds):
                await model.insert_one(RawBSONDocument(document), **(insert_options or {}))

    async def patch(
        self,
        model: Collection,
        id: Id,
        filter: Record,
        changes: Mapping[str, Any],
        options: MongoDBOptions,
        alone: Callable[[], Awaitable[Record | None]],
    ) -> Record | None:
        """Change a record and return it as it is then, None if there is none.

        Args:
            model: The collection.
            id: The ``_id``.
            filter: What else the record must meet; ``{}`` for nothing.
            changes: The database's update.
            options: The options of the call.
            alone: Does it in a command of its own.
        """
        fields: bytes | None = None
        key: Key = None
        if _is_shared("patch", options):
            key = _key("patch", model, options, filter, {})
            fields = None if key is None else fields_of(model, id, changes)
        left = options.seconds
        if fields is not None:
            began = time()
            load = partial(patch_batch, model, filter, self._patience)
            # `patch_batch` itself says who goes alone: its read may fail, too, but only as a whole.
            batcher = self._batcher(key, load, options, concurrency=3, goes_alone=_was_refused)
            result: Any = await batcher.load(Patch(id, fields))
            if result is not ALONE:
                record: Record | None = result
                return record
            # The batch has had its part of the time. The driver takes 0 for no limit.
            left = None if left is None else max(left - (time() - began), _NO_TIME)
        with limited(left):
            return await alone()

    async def page(
        self,
        model: Collection,
        stages: list[Stage],
        size: int | None,
        options: MongoDBOptions,
        page_options: Record,
    ) -> list[Record]:
        """Return the records that stages of an aggregation give; they must not write.

        Args:
            model: The collection.
            stages: Those of a query, with its page.
            size: How many records the page has at most, None for no limit.
            options: The options of the call.
            page_options: Options of PyMongo's ``aggregate``, without a session.
        """

        async def load(callers: list[None]) -> list[Any]:
            records = await (await model.aggregate(stages, **page_options)).to_list()
            return one_for_each(callers, {None: records}, _copied)

        key: Key = None
        if _is_shared("find", options) and size is not None and size <= _MAX_PAGE:
            key = _key("page", model, options, {"stages": stages}, page_options)
        # All callers want the same page, so an error of it is that of each of them.
        alone = key is None
        records: list[Record] = (
            (await load([None]))[0]
            if alone
            else await self._batcher(key, load, options, goes_alone=_never).load(None)
        )
        return records

    async def page_and_total(
        self,
        model: Collection,
        stages: list[Stage],
        page: PageRange,
        options: MongoDBOptions,
        page_options: Record,
    ) -> PageAndTotal | None:
        """Return the records of a page and the total, None if they do not fit into one document.

        Args:
            model: The collection.
            stages: Those of a query, without its page.
            page: The page.
            options: The options of the call.
            page_options: Options of PyMongo's ``aggregate``, without a session.
        """
        load = partial(page_batch, model, stages, page_options)
        key: Key = None
        if _is_shared("find", options) and page[1] <= _MAX_PAGE:
            key = _key("pages", model, options, {"stages": stages}, page_options)
        result: Any = ALONE
        if key is not None:
            result = await self._batcher(key, load, options).load(page)
        if result is ALONE:
            (result,) = await load([page])
        both: PageAndTotal | None = result
        return both

    async def count(
        self,
        model: Collection,
        stages: list[Record] | None,
        options: MongoDBOptions,
        count_options: Record,
    ) -> int:
        """Return the ``total`` that stages of an aggregation give.

        Args:
            model: The collection.
            stages: They end in one that counts. None asks for the estimated size of the
                collection.
            options: The options of the call.
            count_options: Options of PyMongo's ``aggregate``.
        """
        key: Key = None
        if _is_shared("count", options) and "session" not in count_options:
            key = _key("count", model, options, {"stages": stages}, count_options)
        if key is None:
            return await _count(model, stages, count_options)

        async def load(callers: list[None]) -> list[int]:
            return [await _count(model, stages, count_options)] * len(callers)

        total: int = await self._batcher(key, load, options, goes_alone=_never).load(None)
        return total

    def _batcher(
        self,
        key: Key,
        load: Callable[[list[Any]], Awaitable[Sequence[Any]]],
        options: MongoDBOptions,
        concurrency: int = 1,
        *,
        goes_alone: Callable[[Exception], bool] | None = None,
    ) -> Batcher[Any, Any]:
        batcher = self._batchers.get(key)
        if batcher is None:
            seconds = options.seconds

            async def load_in_time(keys: list[Any]) -> Sequence[Any]:
                # Again: a batch has a context of its own, in which no caller's limit holds.
                with limited(seconds):
                    return await load(keys)

            # It goes when it is idle. Until then it keeps the collection alive, and so its id().
            # Evenly, since the two commands and the acknowledgement of a batch of patches cost
            # mongod as much as 17 more patches in it, and Python as much as 36.
            batcher = Batcher(
                load_in_time,
                lambda: self._batchers.pop(key),
                concurrency,
                evenly=True,
                goes_alone=goes_alone or _is_no_outage,
            )
            self._batchers[key] = batcher
        return batcher


def _is_shared(name: str, options: MongoDBOptions) -> bool:
    """Return whether a call may share a round trip with others.

    Within a transaction no call does, even one that does not take part: another call of the batch
    could wait for this transaction, which waits for its call.
    """
    return name in options.shared and not is_in_transaction()


def _is_no_outage(error: Exception) -> bool:
    """Tell of an error of a shared read whether each call may fare better alone."""
    is_timeout = isinstance(error, errors.NetworkTimeout)  # one of them may take that long
    return is_timeout or not isinstance(error, errors.ConnectionFailure)


def _was_refused(error: Exception) -> bool:
    """Tell of an error of a shared write whether it has had no effect."""
    return isinstance(error, errors.OperationFailure) and was_refused(error)


def _never(_: Exception) -> bool:
    return False


def _key(
    operation: str, model: Collection, options: MongoDBOptions, query: Record, more: Record
) -> Key:
    """Return what calls of one batch have in common, None if this call cannot join any."""
    if not query and not more:
        return operation, id(model), options.seconds
    try:
        # As bytes: 1 == True in Python, but not in MongoDB.
        sent = bson.encode({"query": query, **more}, codec_options=model.codec_options)
    except Exception:  # noqa: BLE001  # what cannot be encoded fails in a query of its own
        return None
    return operation, id(model), options.seconds, sent


# -- the round trips -------------------------------------------------------------------------------


def _copied(result: Any) -> Any:
    if type(result) is tuple:  # a page and its total
        return _copied(result[0]), result[1]
    return copied(result, BSON_IMMUTABLE)


def _with(by_id: Record, filter: Record) -> Record:
    return {"$and": [by_id, filter]} if filter else by_id


async def _find_one(model: Collection, filter: Record, options: Record, id: Id) -> Record | None:
    return await model.find_one(_with({"_id": id}, filter), **options)


async def find_batch(
    model: Collection, filter: Record, options: Record, ids: list[Id]
) -> list[Any]:
    """Return the record, None, or an error for each id."""
    find_one = partial(_find_one, model, filter, options)
    if len(ids) == 1:
        return [await find_one(ids[0])]
    wanted = list(dict.fromkeys(ids))
    by_ids, size = {"_id": {"$in": wanted}}, len(wanted)
    cursor = model.find(_with(by_ids, filter), limit=size, batch_size=size, **options)
    records: dict[Id, Any]
    try:
        documents = await cursor.to_list()
    except _ROUND_TRIP_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001  # an id cannot be sent, or a record not be read
        records = dict.fromkeys(wanted, error)
    else:
        # Without records whose id only counts as equal: Decimal128("5") for 5, or "ann" for "ANN"
        # by the collation of the collection.
        asked = frozenset(wanted)
        hashable = [record for record in documents if isinstance(record["_id"], Hashable)]
        records = {record["_id"]: record for record in hashable if record["_id"] in asked}
    # These are queried one by one: an id that was not found as it is (only an ObjectId equals
    # nothing but itself: 5 also finds 5.0, and by a collation "a" finds "A"), and each id of a
    # query that failed because of one of them.
    unsure = [key for key in wanted if key not in records and type(key) is not ObjectId]
    unsure += [key for key, record in records.items() if isinstance(record, Exception)]
    if unsure:
        results = await asyncio.gather(*map(find_one, unsure), return_exceptions=True)
        records.update(zip(unsure, results, strict=True))
    return one_for_each(ids, records, _copied)


async def page_batch(
    model: Collection, stages: list[Stage], options: Record, pages: list[PageRange]
) -> list[Any]:
    """Return the records and the total for each page.

    A single page that does not fit into one document with its total is None.
    """
    wanted = list(dict.fromkeys(pages))

    async def load(part: list[PageRange]) -> Sequence[PageAndTotal | None]:
        try:
            cursor = await model.aggregate(pages_and_total(stages, part), **options)
            (document,) = await cursor.to_list()
        except errors.OperationFailure as error:
            # Without the total it may fit. If it is refused for another reason, so is that one.
            if len(wanted) == 1 and (was_refused(error) or error.code in TOO_LARGE):
                return [None]
            raise
        total = document["total"][0]["total"] if document["total"] else 0
        return [(document[f"page{number}"], total) for number in range(len(part))]

    parts = [wanted[start : start + _MAX_PAGES] for start in range(0, len(wanted), _MAX_PAGES)]
    # All of them are awaited even if one fails: no query of a batch goes on after the batch.
    loaded = await asyncio.gather(*map(load, parts), return_exceptions=True)
    results: dict[PageRange, Any] = {}
    for part, found in zip(parts, loaded, strict=True):
        if isinstance(found, BaseException):
            raise found
        results.update(zip(part, found, strict=True))
    return one_for_each(pages, results, _copied)


async def insert_batch(model: Collection, patience: Patience, new: list[bytes]) -> list[Any]:
    """Store records; return None, an error, or `ALONE` for each."""
    results: list[Any] = [None] * len(new)
    documents: list[Any] = [RawBSONDocument(record) for record in new]
    if len(documents) == 1:
        await model.insert_one(documents[0])
        return results

    async def send(session: AsyncClientSession | None = None) -> None:
        await model.insert_many(documents, ordered=False, session=session)

    try:
        if model.write_concern.acknowledged:
            await patience.write(model, send)
        else:  # nobody waits for that, and it may have no session
            await send()
    except WriteStopped:
        return await _not_inserted(model, new)
    except errors.BulkWriteError as error:
        details: Mapping[str, Any] = error.details
        for failure in details["writeConcernErrors"]:  # no record was acknowledged
            results = [not_acknowledged(failure)] * len(new)
        for failure in details["writeErrors"]:
            is_duplicate = failure["code"] == _DUPLICATE_KEY
            error_type = errors.DuplicateKeyError if is_duplicate else errors.WriteError
            message = failure.get("errmsg", "")
            results[failure["index"]] = error_type(message, failure["code"], failure)
    return results


async def _not_inserted(model: Collection, new: list[bytes]) -> list[Any]:
    """Return `ALONE` for each record that a stopped command has not stored, None for the others."""
    documents = {record: RawBSONDocument(record) for record in new}
    ids = [document["_id"] for document in documents.values()]
    codec = model.codec_options.with_options(document_class=RawBSONDocument)
    stored = {document.raw for document in await stored_now(model, ids, codec)}
    results: list[Any] = []
    for record in new:
        is_stored = record in stored
        stored.discard(record)  # a second record that is equal to it was refused
        results.append(None if is_stored else ALONE)
    if None in results:
        await acknowledge(model, documents[new[results.index(None)]]["_id"])
    return results


async def _count(model: Collection, stages: list[Record] | None, options: Record) -> int:
    if stages is None:
        return await model.estimated_document_count(**options)
    documents = await (await model.aggregate(stages, **options)).to_list(1)
    total: int = documents[0]["total"] if documents else 0
    return total
