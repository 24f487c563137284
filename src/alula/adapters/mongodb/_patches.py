"""Concurrent patches of one record each that share round trips: one read, then one write of all.

What holds in this file:

- A shared patch takes effect on the very record that was read for it, or not at all: the database
  compares the two and changes the record in one step. So what is answered, the record that was
  read with its changes, is what the patch did, as with a patch that goes alone.
- A patch that did not take effect, for whatever reason, is left to its caller, who does it alone:
  another write was faster, the record is missing, a key is taken.
- Only fields that are set as a whole are shared; an operator has to be worked out by the database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import bson
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo import ReadPreference, UpdateOne, errors
from pymongo.read_concern import ReadConcern

from alula.adapters.mongodb._failures import did_nothing, not_acknowledged
from alula.adapters.mongodb._filters import Filter, all_of
from alula.adapters.mongodb._model import Collection
from alula.adapters.mongodb._time_limit import limited
from alula.types import Record

__all__ = ["UNDONE", "Patch", "fields_of", "patch_several"]

UNDONE: Final = object()
"""The answer for a patch that did not take effect."""

_Read: TypeAlias = tuple[Record, RawBSONDocument]

_IDS: Final = frozenset({ObjectId, int})  # a collation could take other ids for equal
_LARGE: Final = 16 * 1024  # bytes of a record or of changes that are not worth being sent twice


class Patch(NamedTuple):
    """A patch of one record.

    Attributes:
        id: The ``_id`` of the record.
        fields: The encoded fields to set.
        alone: Does the patch in a command of its own.
    """

    id: Any
    fields: bytes
    alone: Callable[[], Awaitable[Record | None]]


def fields_of(model: Collection, id: Any, changes: Mapping[str, Any]) -> bytes | None:
    """Return the encoded fields that changes set, None where such a patch can not be shared.

    Args:
        model: The collection.
        id: The ``_id`` of the record.
        changes: As the database takes them, with operators.
    """
    fields = changes.get("$set")
    if fields is None or len(changes) > 1 or type(id) not in _IDS:
        return None
    if any(not name or name[0] == "$" or "." in name for name in fields):
        return None
    client = model.database.client
    if not model.write_concern.acknowledged or client.options.auto_encryption_opts is not None:
        return None
    try:  # in the order in which the database adds new fields
        sent = bson.encode(dict(sorted(fields.items())), codec_options=model.codec_options)
    except Exception:  # noqa: BLE001  # what can not be sent fails in a command of its own
        return None
    return sent if len(sent) <= _LARGE else None


async def patch_several(
    model: Collection, filter: Filter, seconds: float | None, patches: list[Patch]
) -> list[Any]:
    """Patch records, and return what they are then; `UNDONE` for those that must go alone.

    Args:
        model: The collection.
        filter: What the records must meet beside their ids.
        seconds: How long it may take, None for no limit.
        patches: One alone goes as it would without sharing.
    """
    with limited(seconds):
        if len(patches) == 1:
            return [await patches[0].alone()]
        answers: list[Any] = [UNDONE] * len(patches)
        places: list[int] = []
        statements = []
        read = await _read(model, filter, list({patch.id for patch in patches}))
        for place, patch in enumerate(patches):
            fields = _decoded(model, patch.fields)
            if fields is None or patch.id not in read:
                continue
            record, before = read.pop(patch.id)  # the first of several takes it
            record.update(fields)
            answers[place] = record
            places.append(place)
            statements.append(_statement(patch, before))
        failed = await _written(model, statements) if statements else {}
    for index, answer in failed.items():
        answers[places[index]] = answer
    return answers


async def _read(model: Collection, filter: Filter, ids: list[Any]) -> dict[Any, _Read]:
    """Return the records as they are at the primary now, without those that have to go alone.

    These are large, can not be read, or have no field beside the id: to the database a record that
    an upsert is about to make looks the same.
    """
    codec = model.codec_options.with_options(document_class=RawBSONDocument)
    raw: Any = model.with_options(
        codec, read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local")
    )
    wanted, most = all_of([{"_id": {"$in": ids}}, filter]), len(ids)
    found: dict[Any, _Read] = {}
    for document in await raw.find(wanted, limit=most, batch_size=most).to_list():
        record = _decoded(model, document.raw) if len(document.raw) <= _LARGE else None
        if record is not None and len(record) > 1 and isinstance(record["_id"], Hashable):
            found[record["_id"]] = record, document
    return found


def _decoded(model: Collection, document: bytes) -> Record | None:
    try:
        record: Record = bson.decode(document, codec_options=model.codec_options)
    except Exception:  # noqa: BLE001  # alone, its caller gets the error that it is
        return None
    return record


def _statement(patch: Patch, before: RawBSONDocument) -> UpdateOne:
    """Return the change of a record that fails unless the record is as it was before.

    Without ``upsert`` a record that is gone would fail without a word.
    """
    same = {"$eq": ["$$ROOT", {"$literal": before}]}
    after = {"$mergeObjects": ["$$ROOT", {"$literal": RawBSONDocument(patch.fields)}]}
    change = [{"$replaceWith": {"$cond": [same, after, None]}}]
    exactly = {"locale": "simple"}  # the collation of the collection may take "a" for "A"
    return UpdateOne({"_id": patch.id}, change, upsert=True, collation=exactly)


async def _written(model: Collection, statements: list[UpdateOne]) -> dict[int, Any]:
    """Send the changes; return answers for those that have not simply succeeded."""
    every = range(len(statements))
    try:
        await model.bulk_write(statements, ordered=False)
    except errors.BulkWriteError as error:
        details: Any = error.details
        answers: dict[int, Any] = {}
        for failed in details["writeConcernErrors"]:
            answers = dict.fromkeys(every, not_acknowledged(failed))
        return answers | {failed["index"]: UNDONE for failed in details["writeErrors"]}
    except errors.OperationFailure as error:
        if not did_nothing(error):
            raise
        return dict.fromkeys(every, UNDONE)
    return {}
