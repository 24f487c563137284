"""Calls that concern several records, and answer exactly the records that they changed.

Where the server has transactions (a replica set, a sharded cluster), each is one: it takes effect
as a whole or not at all, and what it answers is what it changed. On a standalone server it is a
read and a write, one after the other. Then a record that somebody else changes in between may be
patched or removed although it no longer meets the query, one that somebody else removes in between
may be answered twice, and of new records those before the first refused one stay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import bson
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo import ReadPreference
from pymongo.asynchronous.client_session import AsyncClientSession

from alula.adapters.mongodb._filters import Filter
from alula.adapters.mongodb._model import Collection
from alula.types import Record

__all__ = ["Matching", "create_all", "patch_all", "remove_all", "together"]

_T = TypeVar("_T")
Session: TypeAlias = AsyncClientSession | None

_AT_ONCE: Final = 50_000
"""How many ids one command names, which keeps it below the limit of 16 MB."""
_ALONE: Final = frozenset({"Standalone"})
"""Types of servers that have no transactions."""


class Matching(NamedTuple):
    """The records that a call concerns.

    Attributes:
        model: Their collection.
        filter: What they meet.
        sort: Their order.
        projection: Which of their fields are answered, None for all.
        session: The session of the caller.
        options: Further options of the driver's ``find``.
    """

    model: Collection
    filter: Filter
    sort: Sequence[tuple[str, int]]
    projection: Mapping[str, Any] | None
    session: Session
    options: Mapping[str, Any]

    async def read(self, projection: Mapping[str, Any] | None, session: Session) -> list[Record]:
        """Return the records that meet the filter now."""
        cursor = self.model.find(
            self.filter, projection, sort=list(self.sort) or None, session=session, **self.options
        )
        return await cursor.to_list()

    def with_keys(self) -> Mapping[str, Any] | None:
        """Return the projection with ``_id``, which is there where nothing is said about it."""
        chosen = self.projection or {}
        return {name: chosen[name] for name in chosen if name != "_id" or chosen[name]} or None

    def answered(self, records: list[Record]) -> list[Record]:
        """Return the records as they are answered, without ``_id`` where it is not wanted."""
        if (self.projection or {}).get("_id", True):
            return records
        return [{name: record[name] for name in record if name != "_id"} for record in records]


async def create_all(
    model: Collection, documents: Iterable[bytes], session: Session, options: Mapping[str, Any]
) -> None:
    """Store encoded records, all or none."""
    new: Any = [RawBSONDocument(document) for document in documents]

    async def work(session: Session) -> None:
        await model.insert_many(new, session=session, **options)

    await together(model, session, work)


async def patch_all(
    matching: Matching,
    changes: Mapping[str, Any],
    options: Mapping[str, Any],
    upsert: Mapping[str, Any] | None = None,
) -> list[Record]:
    """Change the records that match, and return them as they are then, in the order before.

    Args:
        matching: The records.
        changes: What changes in them.
        options: Further options of the driver's ``update_many``.
        upsert: Those of its ``find_one_and_update`` where a record shall be made if none matches.
    """
    model = matching.model

    async def work(session: Session) -> list[Record]:
        ids = [record["_id"] for record in await matching.read({"_id": 1}, session)]
        if upsert is not None and not ids:
            made: Any = await model.find_one_and_update(
                matching.filter, changes, matching.with_keys(), session=session, **upsert
            )
            return [made]
        found: dict[Any, Record] = {}
        for part in _parts(ids):
            named = {"_id": {"$in": part}}
            await model.update_many(named, changes, session=session, **options)
            async for record in model.find(named, matching.with_keys(), session=session):
                found[_key(record["_id"])] = record
        return [found[key] for key in map(_key, ids) if key in found]

    return matching.answered(await together(model, matching.session, work))


async def remove_all(matching: Matching, options: Mapping[str, Any]) -> list[Record]:
    """Remove the records that match, and return them as they were."""
    model = matching.model

    async def work(session: Session) -> list[Record]:
        records = await matching.read(matching.with_keys(), session)
        for part in _parts([record["_id"] for record in records]):
            await model.delete_many({"_id": {"$in": part}}, session=session, **options)
        return records

    return matching.answered(await together(model, matching.session, work))


async def together(
    model: Collection, session: Session, work: Callable[[Session], Awaitable[_T]]
) -> _T:
    """Do some work in one transaction: that of a session, or a new one where the server has them.

    A session that is in none gets one for this work. It is acknowledged as the collection's writes
    are, and reads from the primary, wherever else reads go. The driver begins anew where another
    write was in its way.
    """
    if (session is not None and session.in_transaction) or not await _has_transactions(model):
        return await work(session)
    concern = model.write_concern if model.write_concern.acknowledged else None
    async with nullcontext(session) if session else model.database.client.start_session() as own:
        return await own.with_transaction(
            work, write_concern=concern, read_preference=ReadPreference.PRIMARY
        )


async def _has_transactions(model: Collection) -> bool:
    if not _kinds(model):
        await model.database.client.admin.command("ping")  # now the driver knows what it talks to
    return bool(_kinds(model) - _ALONE)


def _kinds(model: Collection) -> set[str]:
    servers = model.database.client.topology_description.server_descriptions().values()
    return {server.server_type_name for server in servers} - {"Unknown"}


def _parts(ids: list[Any]) -> Iterator[list[Any]]:
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))


def _key(id: Any) -> Any:
    """Return what tells one ``_id`` from another: it may be an object, and 1 is not true."""
    return id if type(id) is ObjectId else bson.encode({"": id})
