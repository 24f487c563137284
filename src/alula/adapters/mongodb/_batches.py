"""Batches concurrent finds, gets, creates, patches and counts: many calls, one round trip.

What holds in this file:

- A batch has only calls that would send the same but for the id, the record or the page: the
  collection, the criteria, the fields, the collation and the time limit are the same to the byte.
- No call in a session or inside a transaction joins a batch.
- No caller fails or waits because of another one: what is refused, is locked or fails the round
  trip goes alone. Only if the database cannot be reached, or nobody knows whether a write took
  effect, all callers of the batch get that error.
- A batched patch takes effect on the very record that was read for it, or not at all: the database
  compares the two and changes the record in one step. So what is returned, the record that was read
  with its changes, is what the patch did, as with a patch on its own.
- A patch that did not take effect, for whatever reason, is left to its caller, who does it alone:
  another write was faster, the record is missing or locked, a key is taken.
- Patches of the same record take effect one after the other: each expects the record as the patch
  before it left it.
- Only fields that are set as a whole are batched; an operator must be evaluated by the database.
- MongoDB has no "skip locked": a command waits as long as another transaction keeps one of its
  records or unique keys, and the writes behind that one wait with it. So a command for several
  callers that takes unusually long is stopped on the server. What it had done by then is read; the
  rest is left to the callers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic as time
from typing import Any, Final, NamedTuple, TypeAlias

import bson
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo import ReadPreference, UpdateOne, errors
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.read_concern import ReadConcern

from alula._events import is_in_transaction
from alula.adapters._batching import ALONE, Batcher, ChangesInTurn, one_for_each
from alula.adapters._records import copied
from alula.adapters._totals import PageAndTotal
from alula.adapters.mongodb._bson_types import BSON_IMMUTABLE
from alula.adapters.mongodb._errors import TOO_LARGE, not_acknowledged, was_refused
from alula.adapters.mongodb._model import Collection
from alula.adapters.mongodb._options import MongoDBOptions, limited
from alula.adapters.mongodb._queries import Filter, PageRange, Stage, all_of, pages_and_total
from alula.types import Id, Record

__all__ = ["Batches", "Patience"]

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
        self._changes = ChangesInTurn()
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
        if fields is None:
            with limited(options.seconds):
                return await alone()
        began = time()

        async def alone_in_time() -> Record | None:
            # The batch has had its part of the time. The driver takes 0 for no limit.
            seconds = options.seconds
            with limited(None if seconds is None else max(seconds - (time() - began), _NO_TIME)):
                return await alone()

        load = partial(patch_batch, model, filter, self._patience)
        # `patch_batch` itself says who goes alone: its read may fail, too, but only as a whole.
        batcher = self._batcher(key, load, options, concurrency=3, goes_alone=_was_refused)
        record: Record | None = await self._changes.load(
            (key, id),
            Patch(id, fields),
            batcher,
            _in_time(load, options),
            _was_refused,
            alone_in_time,
        )
        return record

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
            # It goes when it is idle. Until then it keeps the collection alive, and so its id().
            # Evenly, since the two commands and the acknowledgement of a batch of patches cost
            # mongod as much as 17 more patches in it, and Python as much as 36.
            batcher = Batcher(
                _in_time(load, options),
                lambda: self._batchers.pop(key),
                concurrency,
                evenly=True,
                goes_alone=goes_alone or _is_no_outage,
            )
            self._batchers[key] = batcher
        return batcher


def _in_time(
    load: Callable[[list[Any]], Awaitable[Sequence[Any]]], options: MongoDBOptions
) -> Callable[[list[Any]], Awaitable[Sequence[Any]]]:
    """Return ``load`` with the time limit of a call.

    A batch has a context of its own, in which the limits of its callers do not hold.
    """

    async def load_in_time(keys: list[Any]) -> Sequence[Any]:
        with limited(options.seconds):
            return await load(keys)

    return load_in_time


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
        # Compare bytes: 1 == True in Python, but not in MongoDB.
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
        # Leave out records whose id is another value that MongoDB takes for equal: Decimal128("5")
        # for 5, or "ann" for "ANN" where the collection has such a collation.
        asked = frozenset(wanted)
        hashable = [record for record in documents if isinstance(record["_id"], Hashable)]
        records = {record["_id"]: record for record in hashable if record["_id"] in asked}
    # Two sorts of ids are queried one by one. An id that was not found may still find a record
    # with an equal id: 5 finds 5.0, and "a" finds "A" under some collations; only an ObjectId
    # equals nothing else. And if the query failed because of one id, each is tried alone.
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
            # A page without the total may fit. If something else is wrong, that query fails, too.
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
            ids = [document["_id"] for document in documents]
            await patience.write(model, ids, send)
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


# -- patches ---------------------------------------------------------------------------------------

_Read: TypeAlias = tuple[Record, RawBSONDocument]

# A collation may take other ids for equal.
_PATCHED_IDS: Final = frozenset({ObjectId, int})

_MAX_PATCH_BYTES: Final = 16 * 1024
"""Larger records and changes go alone: a batch sends each record and its changes back."""


class Patch(NamedTuple):
    """A patch of one record.

    Attributes:
        id: The ``_id`` of the record.
        fields: The encoded fields to set.
    """

    id: Any
    fields: bytes


def fields_of(model: Collection, id: Any, changes: Mapping[str, Any]) -> bytes | None:
    """Return the encoded fields that changes set, None if such a patch cannot be batched.

    Args:
        model: The collection.
        id: The ``_id`` of the record.
        changes: The database's update.
    """
    fields = changes.get("$set")
    if fields is None or len(changes) > 1 or type(id) not in _PATCHED_IDS:
        return None
    for name in fields:
        if not name or name[0] == "$" or "." in name:
            return None
    client = model.database.client
    if not model.write_concern.acknowledged or client.options.auto_encryption_opts is not None:
        return None
    try:  # in the order in which the database adds new fields
        sent = bson.encode(dict(sorted(fields.items())), codec_options=model.codec_options)
    except Exception:  # noqa: BLE001  # what cannot be encoded fails in a command of its own
        return None
    return sent if len(sent) <= _MAX_PATCH_BYTES else None


async def patch_batch(
    model: Collection, filter: Filter, patience: Patience, patches: list[Patch]
) -> list[Any]:
    """Patch records, and return what they are then; `ALONE` for those that must go alone.

    Args:
        model: The collection.
        filter: What the records must meet beside their ids.
        patience: How long the write may take.
        patches: One or two go alone: mongod takes 15 % less for two commands of their own, Python
            40 %.
    """
    results: list[Any] = [ALONE] * len(patches)
    if len(patches) < 3:
        return results
    positions: list[int] = []
    statements: list[UpdateOne] = []
    left = Counter(patch.id for patch in patches)
    tested = fields_tested(filter)
    records = await _read_for_patches(model, filter, list(left))
    for position, (key, changes) in enumerate(patches):
        fields = _decoded(model, changes)
        found = records.pop(key, None)
        left[key] -= 1
        if fields is None or found is None:
            continue
        record, before = found
        record.update(fields)
        results[position] = record
        positions.append(position)
        # `upsert` tells a record that is gone from one that has changed. The simple collation is
        # needed because that of the collection may take "a" for "A" in the comparison.
        same = {"$eq": ["$$ROOT", {"$literal": before}]}
        after = {"$mergeObjects": ["$$ROOT", {"$literal": RawBSONDocument(changes)}]}
        change = [{"$replaceWith": {"$cond": [same, after, None]}}]
        exactly = {"locale": "simple"}
        statements.append(UpdateOne({"_id": key}, change, upsert=True, collation=exactly))
        # A further patch of this record expects it as this one leaves it. If this one may have
        # changed whether the record meets the filter, the further ones go alone.
        if left[key] and tested is not None and tested.isdisjoint(fields):
            next_one = _read_after(model, before, changes)
            if next_one is not None:
                records[key] = next_one
    if statements:
        expected = [results[position] for position in positions]
        failed = await _write_patches(model, patience, statements, expected)
        for index, result in failed.items():
            results[positions[index]] = result
    return results


async def _read_for_patches(model: Collection, filter: Filter, ids: list[Any]) -> dict[Any, _Read]:
    """Return the records as they are at the primary now, without those that must go alone.

    Those are large, cannot be decoded, or have no field beside the id: to the database a record
    that an upsert is about to create looks the same.
    """
    codec = model.codec_options.with_options(document_class=RawBSONDocument)
    raw: Any = model.with_options(
        codec, read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local")
    )
    by_ids, size = all_of([{"_id": {"$in": ids}}, filter]), len(ids)
    records: dict[Any, _Read] = {}
    for document in await raw.find(by_ids, limit=size, batch_size=size).to_list():
        record = _decoded(model, document.raw) if len(document.raw) <= _MAX_PATCH_BYTES else None
        if record is not None and len(record) > 1 and isinstance(record["_id"], Hashable):
            records[record["_id"]] = record, document
    return records


def _read_after(model: Collection, before: RawBSONDocument, changes: bytes) -> _Read | None:
    """Return a record as the next patch expects it; None if the next patch must go alone."""
    try:
        # The collection's codec is not used: the values stay exactly what the database has.
        merged = bson.encode({**RawBSONDocument(before.raw), **RawBSONDocument(changes)})
    except Exception:  # noqa: BLE001  # a value that Python cannot have, such as a date after 9999
        return None
    record = _decoded(model, merged) if len(merged) <= _MAX_PATCH_BYTES else None
    return None if record is None else (record, RawBSONDocument(merged))


def fields_tested(filter: Filter) -> set[str] | None:
    """Return the fields of records that a filter tests; None if it may be any.

    Examples:
        >>> sorted(fields_tested({"room": 5, "$or": [{"owner.name": "ada"}, {"public": True}]}))
        ['owner', 'public', 'room']
        >>> fields_tested({"$where": "this.a > this.b"})
    """
    fields: set[str] = set()
    for name, value in filter.items():
        inner: set[str] | None
        if name in ("$and", "$or", "$nor"):
            for part in value:
                inner = fields_tested(part)
                if inner is None:
                    return None
                fields |= inner
        elif name[:1] == "$":
            return None
        else:
            fields.add(name.partition(".")[0])
    return fields


def _decoded(model: Collection, document: bytes) -> Record | None:
    try:
        record: Record = bson.decode(document, codec_options=model.codec_options)  # pyright: ignore[reportUnknownMemberType]  # its stub names an array of unknown items
    except Exception:  # noqa: BLE001  # alone, its caller gets the error
        return None
    return record


async def _write_patches(
    model: Collection, patience: Patience, statements: list[UpdateOne], expected: list[Record]
) -> dict[int, Any]:
    """Send the changes; return results for those that have not succeeded.

    Args:
        model: The collection.
        patience: How long it may take.
        statements: The changes.
        expected: The records as they are behind the changes.
    """
    indexes = range(len(statements))

    async def send(session: AsyncClientSession) -> None:
        await model.bulk_write(statements, ordered=False, session=session)

    try:
        await patience.write(model, [record["_id"] for record in expected], send)
    except WriteStopped:
        return await _not_written(model, expected)
    except errors.BulkWriteError as error:
        details: Any = error.details
        results: dict[int, Any] = {}
        for failure in details["writeConcernErrors"]:
            results = dict.fromkeys(indexes, not_acknowledged(failure))
        return results | {failure["index"]: ALONE for failure in details["writeErrors"]}
    except errors.OperationFailure as error:
        if not was_refused(error):  # some of them may have taken effect
            raise
        return dict.fromkeys(indexes, ALONE)
    return {}


async def _not_written(model: Collection, expected: list[Record]) -> dict[int, Any]:
    """Return `ALONE` for the patches that a stopped command has not done."""
    ids = [record["_id"] for record in expected]
    records = await stored_now(model, ids, model.codec_options)
    # A record may have an id that only counts as equal; it is none of the expected ones.
    now = {record["_id"]: record for record in records if isinstance(record["_id"], Hashable)}
    written: set[Any] = set()
    failed: dict[int, Any] = {}
    for index, record in reversed(list(enumerate(expected))):
        key = record["_id"]
        if now.get(key) == record:  # so the earlier patches of this record took effect as well
            written.add(key)
        elif key not in written:
            failed[index] = ALONE
    if written:
        await acknowledge(model, next(iter(written)))
    return failed


# -- commands that are stopped when a transaction holds them up ------------------------------------

Write: TypeAlias = Callable[[AsyncClientSession], Awaitable[None]]

_MIN_SECONDS: Final = 0.1
_MAX_SECONDS: Final = 2.0
_INTERRUPTED: Final = 11601


class WriteStopped(Exception):
    """The command was stopped, and what it had not done by then it will never do."""


class Patience:
    """How long the shared writes of one service may take before they are stopped.

    It is ten times as long as the last one took, and a tenth of a second, but no more than two
    seconds: a server that is busy must not get each write a second time.
    """

    def __init__(self) -> None:
        self._last = 0.0

    async def write(self, model: Collection, ids: Sequence[Id], write: Write) -> None:
        """Send a command.

        A command may be done when it is stopped, and only wait until that is acknowledged. Then
        the server has answered for each record, and the wait alone is repeated.

        Args:
            model: Its collection.
            ids: Of the records that it writes, in its order.
            write: Sends it with a session.

        Raises:
            WriteStopped: It took too long, and nobody knows what it had done by then.
            PyMongoError: What ``write`` raises.
        """
        client = model.database.client
        clock = asyncio.get_running_loop().time
        began = clock()
        is_stopped = False
        async with client.start_session() as session:
            task = asyncio.ensure_future(write(session))
            try:
                seconds = min(_MIN_SECONDS + 10 * self._last, _MAX_SECONDS)
                done, _ = await asyncio.wait({task}, timeout=seconds)
                is_stopped = not done
                if is_stopped:
                    # A user may do this to sessions of its own. If the server does not have the
                    # command, the write goes on.
                    with suppress(errors.PyMongoError):
                        await client.admin.command("killSessions", [session.session_id])
                await task
            except errors.BulkWriteError as error:
                details: Any = error.details
                waits = {failure["code"] for failure in details["writeConcernErrors"]}
                if not is_stopped or waits != {_INTERRUPTED}:
                    raise
                failed = {failure["index"] for failure in details["writeErrors"]}
                written = [each for index, each in enumerate(ids) if index not in failed]
                if written:
                    await acknowledge(model, written[0])
                if failed:
                    raise errors.BulkWriteError({**details, "writeConcernErrors": []}) from error
            except errors.OperationFailure as error:
                if not is_stopped or error.code != _INTERRUPTED:
                    raise
                raise WriteStopped from error
            finally:
                task.cancel()  # if this one was cancelled
                self._last = clock() - began


async def stored_now(model: Collection, ids: Sequence[Id], codec: Any) -> list[Any]:
    """Return the records with some ids as the primary has them now.

    Args:
        model: The collection.
        ids: Of the records.
        codec: The codec options for the records.
    """
    primary: Any = model.with_options(
        codec, read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local")
    )
    records: list[Any] = await primary.find({"_id": {"$in": list(ids)}}).to_list()
    return records


async def acknowledge(model: Collection, id: Id) -> None:
    """Wait until what this client has written is acknowledged as the collection demands it.

    Args:
        model: The collection.
        id: Of a record that was written.

    Raises:
        PyMongoError: It is not acknowledged.
    """
    # It changes nothing, and such a write waits for all that came before it.
    nothing: Mapping[str, Any] = {"$setOnInsert": {"alula": None}}
    await model.update_one({"_id": id}, nothing)
