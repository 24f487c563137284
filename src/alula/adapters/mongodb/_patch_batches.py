"""Batches concurrent patches of one record each: one read, then one write of all.

What holds in this file:

- A batched patch takes effect on the very record that was read for it, or not at all: the database
  compares the two and changes the record in one step. So what is returned, the record that was read
  with its changes, is what the patch did, as with a patch on its own.
- A patch that did not take effect, for whatever reason, is left to its caller, who does it alone:
  another write was faster, the record is missing or locked, a key is taken.
- Only fields that are set as a whole are batched; an operator must be evaluated by the database.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import bson
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo import ReadPreference, UpdateOne, errors
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.read_concern import ReadConcern

from alula.adapters._batching import ALONE
from alula.adapters.mongodb._errors import not_acknowledged, was_refused
from alula.adapters.mongodb._model import Collection
from alula.adapters.mongodb._queries import Filter, all_of
from alula.adapters.mongodb._shared_writes import (
    Patience,
    WriteStopped,
    acknowledge,
    stored_now,
)
from alula.types import Record

__all__ = ["Patch", "fields_of", "patch_batch"]

_Read: TypeAlias = tuple[Record, RawBSONDocument]

# A collation may take other ids for equal.
_BATCHED_IDS: Final = frozenset({ObjectId, int})

_MAX_BYTES: Final = 16 * 1024
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
    if fields is None or len(changes) > 1 or type(id) not in _BATCHED_IDS:
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
    return sent if len(sent) <= _MAX_BYTES else None


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
    records = await _read(model, filter, list({patch.id for patch in patches}))
    for position, patch in enumerate(patches):
        fields = _decoded(model, patch.fields)
        found = records.pop(patch.id, None)  # further patches of the same record go alone
        if fields is None or found is None:
            continue
        record, before = found
        record.update(fields)
        results[position] = record
        positions.append(position)
        # Without upsert a record that is gone would count as changed. The simple collation, because
        # that of the collection may take "a" for "A" in the comparison.
        same = {"$eq": ["$$ROOT", {"$literal": before}]}
        after = {"$mergeObjects": ["$$ROOT", {"$literal": RawBSONDocument(patch.fields)}]}
        change = [{"$replaceWith": {"$cond": [same, after, None]}}]
        exactly = {"locale": "simple"}
        statements.append(UpdateOne({"_id": patch.id}, change, upsert=True, collation=exactly))
    if statements:
        expected = [results[position] for position in positions]
        failed = await _write(model, patience, statements, expected)
        for index, result in failed.items():
            results[positions[index]] = result
    return results


async def _read(model: Collection, filter: Filter, ids: list[Any]) -> dict[Any, _Read]:
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
        record = _decoded(model, document.raw) if len(document.raw) <= _MAX_BYTES else None
        if record is not None and len(record) > 1 and isinstance(record["_id"], Hashable):
            records[record["_id"]] = record, document
    return records


def _decoded(model: Collection, document: bytes) -> Record | None:
    try:
        record: Record = bson.decode(document, codec_options=model.codec_options)  # pyright: ignore[reportUnknownMemberType]  # its stub names an array of unknown items
    except Exception:  # noqa: BLE001  # alone, its caller gets the error
        return None
    return record


async def _write(
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
        await patience.write(model, send)
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
    written = [record["_id"] for record in expected if now.get(record["_id"]) == record]
    if written:
        await acknowledge(model, written[0])
    return {index: ALONE for index, key in enumerate(ids) if key not in written}
