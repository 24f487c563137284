"""Concurrent calls that share a round trip: gets, creates and patches of one record, and counts.

What holds in this file:

- Only calls share that would send the same but for the id or the record: the collection, the
  criteria, the fields, the collation and the time limit are the same to the byte.
- Nothing here is used inside a session.
- What concerns one caller (a missing record, a taken key, a value that can not be stored) reaches
  that caller only; a failed round trip reaches all that shared it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import bson
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo import errors
from pymongo.asynchronous.collection import AsyncCollection

from alula.adapters._records import copied
from alula.adapters.mongodb._failures import not_acknowledged
from alula.adapters.mongodb._line import Line
from alula.adapters.mongodb._patches import UNDONE, Patch, fields_of, patch_several
from alula.adapters.mongodb._time_limit import limited
from alula.types import Id, Record

__all__ = ["SHARED", "Sharing", "read_share"]

Collection: TypeAlias = AsyncCollection[dict[str, Any]]

SHARED: Final = ("get", "create", "patch", "count")
"""What concurrent calls can share."""

_IDS: Final = frozenset({ObjectId, str, int})
_LARGE: Final = 256 * 1024  # bytes of a new record that is better sent on its own
_DUPLICATE: Final = 11000
_ROUND_TRIP: Final = (errors.ConnectionFailure, errors.OperationFailure)


def read_share(value: bool | Mapping[str, bool] | None) -> frozenset[str]:
    """Return what a ``share`` option lets calls share.

    Args:
        value: True or None for all, False for nothing, or a mapping such as ``{"get": False}``,
            in which what is not named is shared.

    Raises:
        ValueError: It is something else, or names what can not be shared.
    """
    if value is None or isinstance(value, bool):
        return frozenset() if value is False else frozenset(SHARED)
    if not isinstance(value, Mapping):
        raise ValueError(f'share is {value!r}; give True, False or {{"get": False}}')
    for name, wanted in value.items():
        if name not in SHARED or not isinstance(wanted, bool):
            raise ValueError(
                f"share has {name!r}: {wanted!r}; it may have {', '.join(SHARED)}, each of them"
                " True or False"
            )
    return frozenset(name for name in SHARED if value.get(name, True))


class Sharing:
    """The lines of one service: of each kind of call, and of all that calls must have in common.

    Args:
        share: As `read_share` reads it.
    """

    def __init__(self, share: bool | Mapping[str, bool] | None = None) -> None:
        self._shared = read_share(share)
        self._lines: dict[Hashable, Line[Any]] = {}

    async def get(
        self, model: Collection, id: Id, filter: Record, seconds: float | None, **options: Any
    ) -> Record | None:
        """Return the record with an ``_id`` that meets a filter, None where there is none.

        Args:
            model: The collection.
            id: The ``_id``.
            filter: What else the record must meet; ``{}`` for nothing.
            seconds: How long it may take, None for no limit.
            options: Further options of `find`, none of them a session.
        """
        same = self._same("get", model, seconds, filter, options) if type(id) in _IDS else None
        if same is None:
            with limited(seconds):
                return await _find_one(model, filter, options, id)
        record: Record | None = await self._line(
            same, _find_all, model, filter, seconds, options
        ).ask(id)
        return record

    async def create(self, model: Collection, document: bytes, seconds: float | None) -> None:
        """Store a new record.

        Args:
            model: The collection.
            document: The encoded record with its ``_id``.
            seconds: How long it may take, None for no limit.
        """
        if "create" not in self._shared or len(document) > _LARGE:
            with limited(seconds):
                await model.insert_one(RawBSONDocument(document))
            return
        same = "create", id(model), seconds
        await self._line(same, _insert_all, model, seconds, at_once=2).ask(document)

    async def patch(
        self,
        model: Collection,
        id: Id,
        filter: Record,
        changes: Mapping[str, Any],
        seconds: float | None,
        alone: Callable[[], Awaitable[Record | None]],
    ) -> Record | None:
        """Change a record and return it as it is then, None where there is none.

        Args:
            model: The collection.
            id: The ``_id``.
            filter: What else the record must meet; ``{}`` for nothing.
            changes: As the database takes them, with operators.
            seconds: How long it may take, None for no limit.
            alone: Does it in a command of its own.
        """
        same = self._same("patch", model, seconds, filter, {})
        fields = None if same is None else fields_of(model, id, changes)
        if fields is None:
            with limited(seconds):
                return await alone()
        line = self._line(same, patch_several, model, filter, seconds, at_once=2)
        answer: Record | None = await line.ask(Patch(id, fields, alone))
        if answer is not UNDONE:
            return answer
        with limited(seconds):
            return await alone()

    async def count(
        self, model: Collection, stages: list[Record] | None, seconds: float | None, **options: Any
    ) -> int:
        """Return the ``total`` that stages of an aggregation give.

        Args:
            model: The collection.
            stages: They end in one that counts. None asks for the estimated size of the
                collection.
            seconds: How long it may take, None for no limit.
            options: Further options of `aggregate`.
        """
        same = None
        if "session" not in options:
            same = self._same("count", model, seconds, {"stages": stages}, options)
        if same is None:
            return await _total(model, stages, seconds, options)
        total: int = await self._line(same, _totals, model, stages, seconds, options).ask(None)
        return total

    def _same(
        self, kind: str, model: Collection, seconds: float | None, query: Record, options: Record
    ) -> Hashable | None:
        """Return what calls must have in common to share, None where this one can not."""
        if kind not in self._shared:
            return None
        if not query and not options:
            return kind, id(model), seconds
        try:
            # As bytes, since Python takes 1 and true for equal and MongoDB does not.
            sent = bson.encode({"query": query, **options}, codec_options=model.codec_options)
        except Exception:  # noqa: BLE001  # what can not be sent fails in a query of its own
            return None
        return kind, id(model), seconds, sent

    def _line(
        self, same: Hashable, carry: Callable[..., Any], *arguments: Any, at_once: int = 1
    ) -> Line[Any]:
        line = self._lines.get(same)
        if line is None:
            # It goes when it is empty; until then it keeps the collection, and so its id.
            line = Line(partial(carry, *arguments), lambda: self._lines.pop(same), at_once)
            self._lines[same] = line
        return line


# -- the round trips -------------------------------------------------------------------------------


def _with(own: Record, filter: Record) -> Record:
    return {"$and": [own, filter]} if filter else own


async def _find_one(model: Collection, filter: Record, options: Record, id: Id) -> Record | None:
    return await model.find_one(_with({"_id": id}, filter), **options)


async def _find_all(
    model: Collection, filter: Record, seconds: float | None, options: Record, ids: list[Id]
) -> list[Any]:
    find_one = partial(_find_one, model, filter, options)
    with limited(seconds):
        if len(ids) == 1:
            return [await find_one(ids[0])]
        wanted = list(dict.fromkeys(ids))
        records = await _found(model, filter, options, wanted)
        unsure = _unsure(wanted, records)
        if unsure:
            answers = await asyncio.gather(*map(find_one, unsure), return_exceptions=True)
            records.update(zip(unsure, answers, strict=True))
    return _dealt(ids, wanted, records)


async def _found(
    model: Collection, filter: Record, options: Record, wanted: list[Id]
) -> dict[Any, Any]:
    """Return records by the ids that were asked for.

    There is an error in place of all where nobody knows whose it is. A record whose id only counts
    as equal (``Decimal128("5")`` for 5, "ann" for "ANN" by the collation of the collection) is left
    out: it is asked for again, alone.
    """
    most = len(wanted)
    own = {"_id": {"$in": wanted}}
    cursor = model.find(_with(own, filter), limit=most, batch_size=most, **options)
    try:
        records = await cursor.to_list()
    except _ROUND_TRIP:
        raise
    except Exception as error:  # noqa: BLE001  # one id can not be sent, or one record not be read
        return dict.fromkeys(wanted, error)
    hashable = [record for record in records if isinstance(record["_id"], Hashable)]
    asked = frozenset(wanted)
    return {record["_id"]: record for record in hashable if record["_id"] in asked}


def _unsure(wanted: list[Id], records: Record) -> list[Id]:
    """Return the ids that are better asked for one by one.

    An ObjectId equals itself only; 5 may stand for 5.0, and by a collation "a" for "A".
    """
    missing = [key for key in wanted if key not in records and type(key) is not ObjectId]
    return missing + [key for key, found in records.items() if isinstance(found, Exception)]


def _dealt(ids: list[Id], wanted: list[Id], records: dict[Any, Any]) -> list[Any]:
    """Give each caller its record; those that want the same one share nothing that can change."""
    if len(ids) == len(wanted):
        return [records.get(key) for key in ids]
    given: set[Any] = set()
    answers = []
    for key in ids:
        record = records.get(key)
        answers.append(copied(record) if key in given else record)
        given.add(key)
    return answers


async def _insert_all(model: Collection, seconds: float | None, new: list[bytes]) -> list[Any]:
    answers: list[Any] = [None] * len(new)
    documents: Any = [RawBSONDocument(record) for record in new]
    with limited(seconds):
        if len(documents) == 1:
            await model.insert_one(documents[0])
            return answers
        try:
            await model.insert_many(documents, ordered=False)
        except errors.BulkWriteError as error:
            details: Any = error.details
            for failed in details["writeConcernErrors"]:  # nobody's record was acknowledged
                answers = [not_acknowledged(failed)] * len(new)
            for failed in details["writeErrors"]:
                answers[failed["index"]] = _not_written(failed)
    return answers


def _not_written(failed: Record) -> Exception:
    kind = errors.DuplicateKeyError if failed["code"] == _DUPLICATE else errors.WriteError
    return kind(failed.get("errmsg", ""), failed["code"], failed)


async def _total(
    model: Collection, stages: list[Record] | None, seconds: float | None, options: Record
) -> int:
    with limited(seconds):
        if stages is None:
            return await model.estimated_document_count(**options)
        found = await (await model.aggregate(stages, **options)).to_list(1)
    total: int = found[0]["total"] if found else 0
    return total


async def _totals(
    model: Collection,
    stages: list[Record] | None,
    seconds: float | None,
    options: Record,
    asked: list[None],
) -> list[int]:
    return [await _total(model, stages, seconds, options)] * len(asked)
